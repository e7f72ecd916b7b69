
-- people who are at a provider of OpenID Connect
CREATE TABLE redrive_access_sign_ins (
    hash text PRIMARY KEY,
    browser text NOT NULL,
    nonce text NOT NULL,
    verifier text NOT NULL,
    goes_to text NOT NULL,
    at real NOT NULL
);
CREATE INDEX redrive_access_sign_ins_at ON redrive_access_sign_ins (at);
