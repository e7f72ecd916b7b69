# SPDX-License-Identifier: MIT
"""What the errors of NATS mean to a user. They stop here: no exception of the client leaves the engine."""

from typing import Any, Final

from nats.errors import AuthorizationError, Error, MaxPayloadError, NoServersError

from redrive.errors import EngineBusy, EngineUnavailable, NotSupported, RedriveError, StorageFull, UsageError

Trouble = (Error, OSError, TimeoutError)
"""All that can come out of the client."""

WRONG_SEQUENCE: Final = 10071
"""A fence has held: what was to be changed is not what it was."""

DUPLICATE_IN_BATCH: Final = 10201
NO_MESSAGE: Final = 10037
NOT_REMOVED: Final = frozenset((10043, 10057))
"""There is no message of a number that was to be removed."""

NO_CONSUMER: Final = 10014
NO_STREAM: Final = 10059

_FULL: Final = frozenset((10002, 10023, 10028, 10047, 10077, 10122))
"""No resources, memory or disk, or a limit of the account or the stream is reached."""

_PASSING: Final = frozenset((10008, 10009, 10118, 10158, 10164, 10176, 10210))
"""No leader, no peers, more batches under way than the server takes, or a change is under way: the same one, or another
one with the same fence. A leader that is cut off says so for seconds, and does not know what becomes of the first."""

_PASSING_TEXTS: Final = ("peer offline", "rollup sub invalid")
"""A server of the cluster is being restarted, or has just been started: there are enough, a moment later. Or a message
of the same subject is under way: an earlier try, of which a leader does not know yet what becomes of it."""

_LASTING: Final[dict[int, str]] = {
    10035: "this account may not use JetStream; enable it for the account",
    10039: "JetStream is not enabled for this account; enable it in the server's configuration",
    10076: "JetStream is not enabled; start the server with a jetstream block in its configuration",
    10054: "a message is larger than the stream takes; raise the stream's max_msg_size",
    10199: "a batch is larger than the server takes",
}


class StreamRefusal(Exception):
    """The server has refused a request.

    Attributes:
        code: JetStream's number of the error.
        text: what it says.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    @property
    def is_fence(self) -> bool:
        """Whether something has changed meanwhile; then nothing was done."""
        return self.code in (WRONG_SEQUENCE, DUPLICATE_IN_BATCH)


def unanswered(problem: str) -> EngineUnavailable:
    """Return the error for a request without an answer: it may have been done."""
    error = EngineUnavailable(problem)
    error.may_be_done = True
    return error


def refusal(answer: dict[str, Any]) -> StreamRefusal | None:
    """Return the error in an answer of JetStream, if there is one."""
    error = answer.get("error")
    return None if error is None else StreamRefusal(int(error.get("err_code", 0)), str(error.get("description", "")))


def is_passing(error: StreamRefusal) -> bool:
    """Say whether the same request may be done a moment later: no leader, a server is away, too much under way."""
    return error.code in _PASSING or any(text in error.text for text in _PASSING_TEXTS)


def is_full(error: StreamRefusal) -> bool:
    """Say whether the server has no room; then it may have stored the first messages of a batch all the same."""
    return error.code in _FULL


def of_refusal(error: StreamRefusal, where: str) -> RedriveError:
    """Return the error to raise for a refusal that no caller expects."""
    if error.code == NO_STREAM:
        return UsageError(f"{where}: the stream is gone; was it deleted? Open the broker again to create it")
    if is_full(error):
        problem = (
            "the server has no room left; raise its max_file or the account's limits, nothing acknowledged is lost"
        )
        return StorageFull(f"{where}: {problem} ({error.text})")
    if error.code in _LASTING:
        return UsageError(f"{where}: {_LASTING[error.code]} ({error.text})")
    if is_passing(error):
        return EngineUnavailable(f"{where}: JetStream does not do it now ({error.text}, {error.code})")
    return UsageError(f"{where}: JetStream refuses it; see the server's documentation ({error.text}, {error.code})")


def translated(error: BaseException, where: str) -> RedriveError:
    """Return the error to raise for one of the client's."""
    if isinstance(error, RedriveError):
        return error
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, AuthorizationError) or "authorization" in str(error).lower():
        return UsageError(f"{where}: the server does not let this user in; check user and password ({text})")
    if isinstance(error, MaxPayloadError):
        return UsageError(f"{where}: a message is larger than the server's max_payload; raise it ({text})")
    if isinstance(error, NoServersError | OSError):
        return EngineUnavailable(f"{where}: no server can be reached ({text})")
    return EngineUnavailable(f"{where}: the server does not answer ({text})")


def busy(where: str) -> EngineBusy:
    """Return the error for a change that others were faster with, again and again."""
    return EngineBusy(f"{where}: others have changed the same queues each time; nothing was changed")


def too_many(most: int) -> NotSupported:
    """Return the error for a list that does not fit into one batch."""
    return NotSupported("NATS", f"lists of effects that need more than {most:,} stored messages; use shorter ones")
