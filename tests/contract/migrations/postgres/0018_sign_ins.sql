
-- people who are at a provider of OpenID Connect
CREATE TABLE @.access_sign_ins (
    hash text PRIMARY KEY,
    browser text NOT NULL,
    nonce text NOT NULL,
    verifier text NOT NULL,
    goes_to text NOT NULL,
    at float8 NOT NULL
);
CREATE INDEX access_sign_ins_at ON @.access_sign_ins (at);
