# SPDX-License-Identifier: MIT
"""Every error Redrive raises: the name says what is wrong, the text says what to do, the fields carry the figures.

RedriveError            - the base of them all
  UsageError            - your code or your settings: change them
    DestinationConflict - a destination of a pipeline does not allow a change now
    DestinationNotFound - a pipeline has no destination of this name
    FailureNotFound     - no failed message has this id
    Forbidden           - an action that the principal may not do
    GroupNotFound       - no group of failed messages has this id
    HandlersHung        - more handlers of a worker hang than allowed
    InvalidCursor       - a cursor that does not come from the page before
    InvalidExpression   - an expression that cannot be understood
    InvalidFilter       - a filter that cannot be understood
    InvalidPipeline     - a pipeline that cannot be used
    InvalidRequest      - a request over HTTP that does not have the form it must have
    InvalidRoute        - a route that cannot be used, or does not fit the others
    InvalidSetting      - an argument has a value that is not allowed
    JourneyNotFound     - there is no record of a message
    LastAdmin           - without this user or token no admin would be left
    MissingExtra        - an optional dependency is not installed
    NotAQueue           - a topic, used as a queue
    NotSupported        - something that this engine cannot do
    NoteNotFound        - no note has this number
    OperationConflict   - another operation, or the state of this one, does not allow it
    OperationNotFound   - no operation has this number
    PipelineFileError   - a file with a pipeline that cannot be used
    PipelineNotFound    - no pipeline has this name
    PolicyFileError     - a policy file that cannot be used
    ProblemReported     - what a server reports, in its own words
    QueueConflict       - a queue exists with other settings
      TopicConflict     - a topic exists with other settings
    QueueNotFound       - a queue that was not declared
    RedactionNotFound   - no stored rule of redaction has this number
    QuestionTooSlow     - a question that could not be answered in the time it may take
    RedirectRefused     - a redirect that would make a chain, or a second of the same queue
    RequestRepeated     - a request that was made before, with the same key
      RequestUnderWay   - a request with the same key is being worked on
    RouteConflict       - another process has changed the routes, or the state of one does not allow it
    RouteFileError      - a file of routes that cannot be used
    RouteNotFound       - no route has this name
    SchemaMismatch      - a database that another version of Redrive made
    ServerFileError     - a file with settings of the server that cannot be used
    SessionRequired     - a queue with sessions, used without one
    SignInRequired      - a request that does not say who it is from, or not in a way that counts
    StorageReplaced     - a database file that was deleted or replaced while it was open
    SubscriptionNotFound - a topic has no subscription of this name
    TaskConflict        - the state of a task does not allow it
    TaskNotFound        - no task of a pipeline has this id
    TokenNotFound       - no token has this id
    TopicNotFound       - a topic that was not declared
    UnknownPolicy       - a policy name that no file defines
    UnknownSetting      - a setting that does not exist
    UserConflict        - a user of this name exists already
    UserNotFound        - no user has this name
    ViewNotFound        - no saved view has this number
    WebhookConflict     - a webhook of this name exists already
    WebhookNotFound     - no webhook has this name
  MessageError          - this message: others are not affected
    ExpressionFailed    - an expression that cannot be evaluated for it
    InvalidMessage      - a message that cannot be sent as it is
    InvalidPayload      - a body that its handler does not accept
    LockLost            - the right to settle a message has ended
    MessageNotFound     - no message has this sequence number, in a state that fits
    MessageTooLarge     - a message larger than its queue allows
    SessionLost         - the right to a session has ended
    SubmissionConflict  - a submission with the key of an earlier one, and another body
    SubmissionRefused   - a submission that a pipeline's own function refuses
    TransformFailed     - a message that cannot be changed as requested
  Unavailable           - something outside failed: the same call may work later
    AttemptTimeout      - one attempt took longer than allowed
    CircuitOpen         - a circuit breaker refused the call
    DeadlineExceeded    - the time for all attempts ran out in the middle of one
    EngineUnavailable   - the store does not answer as it should
      EngineBusy        - another process kept the store locked for too long
      StorageDamaged    - the file is not a database, or is corrupt
      StorageFull       - there is no room left on the disk
      StorageReadOnly   - the database cannot be written
    LeaseLost           - another process has taken over the work
    ProviderUnavailable - the provider that signs people in does not answer
    ReceiverFull        - a receiver takes no more events for now
    TooManyAttempts     - too many attempts to sign in
    TooManyStreams      - as many streams of events as there may be
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "AttemptTimeout",
    "CircuitOpen",
    "DeadlineExceeded",
    "DestinationConflict",
    "DestinationNotFound",
    "EngineBusy",
    "EngineUnavailable",
    "ExpressionFailed",
    "FailureNotFound",
    "Forbidden",
    "GroupNotFound",
    "HandlersHung",
    "InvalidCursor",
    "InvalidExpression",
    "InvalidFilter",
    "InvalidMessage",
    "InvalidPayload",
    "InvalidPipeline",
    "InvalidRequest",
    "InvalidRoute",
    "InvalidSetting",
    "JourneyNotFound",
    "LastAdmin",
    "LeaseLost",
    "LockLost",
    "MessageError",
    "MessageNotFound",
    "MessageTooLarge",
    "MissingExtra",
    "NotAQueue",
    "NotSupported",
    "NoteNotFound",
    "OperationConflict",
    "OperationNotFound",
    "PipelineFileError",
    "PipelineNotFound",
    "PolicyFileError",
    "ProblemReported",
    "ProviderUnavailable",
    "QuestionTooSlow",
    "QueueConflict",
    "QueueNotFound",
    "ReceiverFull",
    "RedactionNotFound",
    "RedirectRefused",
    "RedriveError",
    "RequestRepeated",
    "RequestUnderWay",
    "RouteConflict",
    "RouteFileError",
    "RouteNotFound",
    "SchemaMismatch",
    "ServerFileError",
    "SessionLost",
    "SessionRequired",
    "SignInRequired",
    "StorageDamaged",
    "StorageFull",
    "StorageReadOnly",
    "StorageReplaced",
    "SubmissionConflict",
    "SubmissionRefused",
    "SubscriptionNotFound",
    "TaskConflict",
    "TaskNotFound",
    "TokenNotFound",
    "TooManyAttempts",
    "TooManyStreams",
    "TopicConflict",
    "TopicNotFound",
    "TransformFailed",
    "Unavailable",
    "UnknownPolicy",
    "UnknownSetting",
    "UsageError",
    "UserConflict",
    "UserNotFound",
    "ViewNotFound",
    "WebhookConflict",
    "WebhookNotFound",
]


class RedriveError(Exception):
    """The base of every error that Redrive itself raises.

    Attributes:
        code: names the error in output, logs and APIs. It stays the same when a class is renamed, and
            ``redrive.error_codes`` derives exit statuses and HTTP statuses from it.
    """

    code: str = "error"

    def __init_subclass__(cls, *, code: "str | None" = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code


class UsageError(RedriveError, code="usage-error"):
    """Your code or your settings are wrong; trying again changes nothing."""


class InvalidSetting(UsageError, ValueError, code="invalid-setting"):
    """A setting has a value that is not allowed.

    Attributes:
        setting: its name, as you wrote it.
        value: the value.
        allowed: what is allowed, in words.
    """

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        super().__init__(setting, value, allowed)
        self.setting = setting
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        shown = repr(self.value)
        if len(shown) > 80:  # a 10 kB value must not become a 10 kB error
            shown = f"{shown[:77]}..."
        return f"{self.setting}={shown}: {self.allowed}"


class MissingExtra(UsageError, ImportError, code="missing-extra"):
    """A feature needs a package that is not installed.

    Attributes:
        feature: what needs it.
        extra: the extra of Redrive that brings it.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(feature, extra)
        self.feature = feature
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.feature} needs the extra '{self.extra}': pip install 'redrive[{self.extra}]'"


class PolicyFileError(UsageError, code="policy-file-error"):
    """A policy file cannot be used; the policies in force stay.

    Attributes:
        source: the file, or None for a text.
        line: the line at fault, counted from 1.
        problem: what is wrong there and how to correct it.
    """

    def __init__(self, source: "Path | None", line: int, problem: str) -> None:
        super().__init__(source, line, problem)
        self.source = source
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source or 'policies'}, line {self.line}: {self.problem}"


class UnknownPolicy(UsageError, LookupError, code="unknown-policy"):
    """No policy has this name.

    Attributes:
        name: the requested name.
        known: the names that exist.
    """

    def __init__(self, name: str, known: "tuple[str, ...]") -> None:
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return f"no policy is called {self.name!r}; the file defines: {', '.join(self.known) or 'none'}"


class UnknownSetting(UsageError, TypeError, code="unknown-setting"):
    """No setting has this name.

    Attributes:
        of: what was called.
        setting: the name.
        known: the names that exist.
        instead: what to write, if that is known.
    """

    def __init__(self, of: str, setting: str, known: "tuple[str, ...]", instead: str = "") -> None:
        super().__init__(of, setting, known, instead)
        self.of = of
        self.setting = setting
        self.known = known
        self.instead = instead

    def __str__(self) -> str:
        from difflib import get_close_matches

        near = get_close_matches(self.setting, self.known, 1)
        then = self.instead or (f"Did you mean {near[0]!r}?" if near else "")
        problem = f"{self.of} has no setting {self.setting!r}; it has: {', '.join(self.known)}"
        return f"{problem}. {then}" if then else problem


class Unavailable(RedriveError, code="unavailable"):
    """Something outside did not answer as it should; the same call may work later."""


class CircuitOpen(Unavailable, code="circuit-open"):
    """A circuit breaker refused the call, because the service behind it keeps failing.

    Attributes:
        breaker: the breaker's name.
        retry_after: seconds until it lets a call through again.
    """

    def __init__(self, breaker: str, retry_after: float) -> None:
        super().__init__(breaker, retry_after)
        self.breaker = breaker
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"circuit breaker {self.breaker!r} is open; come back in {self.retry_after:.3g} s"


class AttemptTimeout(Unavailable, TimeoutError, code="attempt-timeout"):
    """One attempt was cut off because it took longer than ``attempt_timeout``.

    Attributes:
        operation: what was called.
        timeout: its limit in seconds.
    """

    def __init__(self, operation: str, timeout: float) -> None:
        super().__init__()
        self.args = (operation, timeout)  # given to OSError, two arguments would be an errno and its text
        self.operation = operation
        self.timeout = timeout

    def __str__(self) -> str:
        return f"an attempt of {self.operation} was cut off after {self.timeout:.3g} s (attempt_timeout)"


class DeadlineExceeded(Unavailable, TimeoutError, code="deadline-exceeded"):
    """The running attempt was cut off because the time for all attempts together was over.

    Attributes:
        operation: what was called.
        deadline: the limit for all attempts together, in seconds.
    """

    def __init__(self, operation: str, deadline: float) -> None:
        super().__init__()
        self.args = (operation, deadline)  # as in AttemptTimeout
        self.operation = operation
        self.deadline = deadline

    def __str__(self) -> str:
        return f"{self.operation} was cut off: its {self.deadline:.3g} s for all attempts are over (deadline)"


class QueueNotFound(UsageError, LookupError, code="queue-not-found"):
    """This queue was not declared.

    Attributes:
        queue: its name.
        similar: the name of a queue that was perhaps meant.
    """

    def __init__(self, queue: str, similar: "str | None" = None) -> None:
        super().__init__(queue, similar)
        self.queue = queue
        self.similar = similar

    def __str__(self) -> str:
        meant = f"did you mean {self.similar!r}? Otherwise " if self.similar is not None else ""
        return f"there is no queue {self.queue!r}; {meant}declare it first: await broker.declare({self.queue!r})"


class NotAQueue(UsageError, code="not-a-queue"):
    """It is a topic: messages are sent to it, and received from its subscriptions.

    Attributes:
        topic: its name.
        subscriptions: the names of the queues of its subscriptions.
    """

    def __init__(self, topic: str, subscriptions: "tuple[str, ...]" = ()) -> None:
        super().__init__(topic, subscriptions)
        self.topic = topic
        self.subscriptions = subscriptions

    def __str__(self) -> str:
        known = ", ".join(self.subscriptions[:5]) or "it has none yet: await broker.subscribe(...)"
        return f"{self.topic!r} is a topic, not a queue; use the queue of one of its subscriptions: {known}"


class TopicNotFound(UsageError, LookupError, code="topic-not-found"):
    """There is no topic of this name.

    Attributes:
        topic: the name.
        is_queue: whether there is a queue of this name.
    """

    def __init__(self, topic: str, *, is_queue: bool = False) -> None:
        super().__init__(topic)
        self.topic = topic
        self.is_queue = is_queue

    def __str__(self) -> str:
        if self.is_queue:
            return f"{self.topic!r} is a queue, not a topic; a topic needs a name that no queue has"
        return f"there is no topic {self.topic!r}; declare it first: await broker.declare_topic({self.topic!r})"


class SubscriptionNotFound(UsageError, LookupError, code="subscription-not-found"):
    """A topic has no subscription of this name.

    Attributes:
        topic: the topic.
        name: the name.
    """

    def __init__(self, topic: str, name: str) -> None:
        super().__init__(topic, name)
        self.topic = topic
        self.name = name

    def __str__(self) -> str:
        return f"topic {self.topic!r} has no subscription {self.name!r}; redrive topics show {self.topic} lists them"


class ProblemReported(UsageError, code="problem-reported"):
    """A server has refused a request, and says why.

    Attributes:
        code: the code of the error, as the server reports it.
        detail: what is wrong.
        fix: what to do about it, if the server says so.
        status: the HTTP status.
    """

    def __init__(self, code: str, detail: str, fix: "str | None", status: int) -> None:
        super().__init__(code, detail, fix, status)
        self.code = code
        self.detail = detail
        self.fix = fix
        self.status = status

    def __str__(self) -> str:
        return self.detail if not self.fix or self.fix in self.detail else f"{self.detail}; {self.fix}"


class QueueConflict(UsageError, code="queue-conflict"):
    """A queue exists with other settings than the requested ones.

    Attributes:
        queue: its name.
        differences: for each setting that differs, its value and the requested value.
    """

    _kind, _update = "queue", "update"

    def __init__(self, queue: str, differences: "dict[str, tuple[object, object]]") -> None:
        super().__init__(queue, differences)
        self.queue = queue
        self.differences = differences

    def __str__(self) -> str:
        differing = ", ".join(f"{name} is {now!r}, not {asked!r}" for name, (now, asked) in self.differences.items())
        change = f"change it with await broker.{self._update}(...)"
        return f"{self._kind} {self.queue!r} exists with other settings: {differing}; {change}"


class TopicConflict(QueueConflict, code="topic-conflict"):
    """A topic exists with other settings than the requested ones."""

    _kind, _update = "topic", "update_topic"


class InvalidExpression(UsageError, ValueError, code="invalid-expression"):
    """The text of an expression cannot be read.

    Attributes:
        text: the expression.
        problem: what is wrong with it, and where.
        position: where in the text that is, counted from 0; None if it is not known.
    """

    def __init__(self, text: str, problem: str, position: "int | None" = None) -> None:
        super().__init__(text, problem, position)
        self.text = text
        self.problem = problem
        self.position = position

    def __str__(self) -> str:
        where = "" if self.position is None else f" at character {self.position + 1}"
        return f"the expression {self.text[:200]!r} cannot be read{where}: {self.problem}"


class InvalidRoute(UsageError, ValueError, code="invalid-route"):
    """A route cannot be used, or does not fit the others. Nothing was changed.

    Attributes:
        route: its name.
        problem: what is wrong, and how to correct it.
        part: where in the route: ``source``, ``filters.2``, ``sender`` or the name of a setting.
    """

    def __init__(self, route: str, problem: str, part: str = "") -> None:
        super().__init__(route, problem, part)
        self.route = route
        self.problem = problem
        self.part = part

    def __str__(self) -> str:
        where = f"route {self.route!r}, {self.part}" if self.part else f"route {self.route!r}"
        return f"{where}: {self.problem}"


class RouteFileError(UsageError, code="route-file-error"):
    """A file of routes cannot be used. Nothing was changed.

    Attributes:
        source: the file, or None for a text.
        line: the line at fault, counted from 1.
        problem: what is wrong there and how to correct it.
    """

    def __init__(self, source: "Path | None", line: int, problem: str) -> None:
        super().__init__(source, line, problem)
        self.source = source
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source or 'routes'}, line {self.line}: {self.problem}"


class RouteNotFound(UsageError, LookupError, code="route-not-found"):
    """No route has this name.

    Attributes:
        route: the name.
        application: the application that was searched.
        similar: the name that was perhaps meant.
    """

    def __init__(self, route: str, application: str = "default", similar: "str | None" = None) -> None:
        super().__init__(route, application, similar)
        self.route = route
        self.application = application
        self.similar = similar

    def __str__(self) -> str:
        meant = f"did you mean {self.similar!r}? Otherwise " if self.similar is not None else ""
        return (
            f"application {self.application!r} has no route {self.route!r}; {meant}redrive routes list shows all routes"
        )


class RouteConflict(UsageError, code="route-conflict"):
    """Another process has changed the routes meanwhile, or the state of a route does not allow the change.

    Attributes:
        route: the route's name.
        problem: what is in the way, and what to do.
    """

    def __init__(self, route: str, problem: str) -> None:
        super().__init__(route, problem)
        self.route = route
        self.problem = problem

    def __str__(self) -> str:
        return f"route {self.route!r}: {self.problem}"


class InvalidPipeline(UsageError, code="invalid-pipeline"):
    """A pipeline cannot be used; nothing was changed.

    Attributes:
        pipeline: its name.
        part: what of it: ``destinations.lab.transport``; empty for the whole.
        problem: what is wrong, and what to write instead.
    """

    def __init__(self, pipeline: str, part: str, problem: str) -> None:
        super().__init__(pipeline, part, problem)
        self.pipeline = pipeline
        self.part = part
        self.problem = problem

    def __str__(self) -> str:
        return f"pipeline {self.pipeline!r}{f', {self.part}' if self.part else ''}: {self.problem}"


class PipelineFileError(UsageError, code="pipeline-file-error"):
    """A file with a pipeline cannot be used. Nothing was changed.

    Attributes:
        source: the file, or None for a text.
        line: the line at fault, counted from 1.
        problem: what is wrong there and how to correct it.
    """

    def __init__(self, source: "Path | None", line: int, problem: str) -> None:
        super().__init__(source, line, problem)
        self.source = source
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source or 'pipeline'}, line {self.line}: {self.problem}"


class PipelineNotFound(UsageError, LookupError, code="pipeline-not-found"):
    """No pipeline has this name.

    Attributes:
        pipeline: the name.
    """

    def __init__(self, pipeline: str) -> None:
        super().__init__(pipeline)
        self.pipeline = pipeline

    def __str__(self) -> str:
        return f"there is no pipeline {self.pipeline!r}; redrive pipeline list shows all pipelines"


class DestinationNotFound(UsageError, LookupError, code="destination-not-found"):
    """A pipeline has no destination of this name.

    Attributes:
        pipeline: the pipeline's name.
        destination: the name.
        known: the destinations that it has.
    """

    def __init__(self, pipeline: str, destination: str, known: "tuple[str, ...]" = ()) -> None:
        super().__init__(pipeline, destination, known)
        self.pipeline = pipeline
        self.destination = destination
        self.known = known

    def __str__(self) -> str:
        known = f"it has: {', '.join(self.known)}" if self.known else "it has none"
        return f"pipeline {self.pipeline!r} has no destination {self.destination!r}; {known}"


class DestinationConflict(UsageError, code="destination-conflict"):
    """A destination of a pipeline does not allow a change now; nothing was changed.

    Attributes:
        pipeline: the pipeline's name.
        destination: the name.
        problem: what is in the way, and what to do.
    """

    def __init__(self, pipeline: str, destination: str, problem: str) -> None:
        super().__init__(pipeline, destination, problem)
        self.pipeline = pipeline
        self.destination = destination
        self.problem = problem

    def __str__(self) -> str:
        return f"destination {self.destination!r} of pipeline {self.pipeline!r}: {self.problem}"


class JourneyNotFound(UsageError, LookupError, code="journey-not-found"):
    """There is no record of a message.

    Attributes:
        message_id: the message's id.
    """

    def __init__(self, message_id: str) -> None:
        super().__init__(message_id)
        self.message_id = message_id

    def __str__(self) -> str:
        return (
            f"there is no record of {self.message_id!r}: a message that is handled without trouble leaves none, unless"
            " its queue is declared with journey='all', and a record is kept for 30 days"
        )


class TaskNotFound(UsageError, LookupError, code="task-not-found"):
    """No task of a pipeline has this id.

    Attributes:
        task: the id.
    """

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return f"there is no task {self.task!r}; it may have ended and been removed: redrive pipeline tasks lists them"


class TaskConflict(UsageError, code="task-conflict"):
    """The state of a task does not allow a change; nothing was changed.

    Attributes:
        task: its id.
        problem: what is in the way, and what to do.
    """

    def __init__(self, task: str, problem: str) -> None:
        super().__init__(task, problem)
        self.task = task
        self.problem = problem

    def __str__(self) -> str:
        return f"task {self.task}: {self.problem}"


class NotSupported(UsageError, code="not-supported"):
    """An engine cannot do something that others can; it was not tried.

    Attributes:
        engine: what people call the engine.
        feature: what it cannot do.
    """

    def __init__(self, engine: str, feature: str) -> None:
        super().__init__(engine, feature)
        self.engine = engine
        self.feature = feature

    def __str__(self) -> str:
        return f"{self.engine} does not support {self.feature}; docs/reference/engines.md says which engine does"


class SchemaMismatch(UsageError, code="schema-mismatch"):
    """Another version of Redrive made the database, and this version cannot use it.

    Attributes:
        found: the schema's version.
        known: the newest version that this Redrive knows.
        problem: the difference, if it is not the version.
    """

    def __init__(self, found: int, known: int, problem: str = "") -> None:
        super().__init__(found, known, problem)
        self.found = found
        self.known = known
        self.problem = problem

    def __str__(self) -> str:
        if self.problem:
            return (
                f"the database has schema {self.found}, and its tables are not those of that schema: {self.problem}; "
                "it was made by an unreleased version of Redrive, or changed since: use that version, or a new database"
            )
        return f"the database has schema {self.found}, this Redrive knows up to {self.known}; install a newer Redrive"


class SessionRequired(UsageError, code="session-required"):
    """A queue with sessions was used without one.

    Attributes:
        queue: its name.
    """

    def __init__(self, queue: str, problem: str) -> None:
        super().__init__(queue, problem)
        self.queue = queue
        self.problem = problem

    def __str__(self) -> str:
        return f"queue {self.queue!r} has sessions: {self.problem}"


class StorageReplaced(UsageError, code="storage-replaced"):
    """A database file was deleted or replaced while it was open; calls since then may be stored in no file at all.

    Attributes:
        path: the file.
        problem: what happened to it.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"{self.path} {self.problem} while it was open, and this was not stored where others find it: stop every "
            "program that uses the file, put the right one in its place, and start them again; replace a database only "
            "while no program has it open"
        )


class FailureNotFound(UsageError, LookupError, code="failure-not-found"):
    """No failed message has this id.

    Attributes:
        id: what was asked for.
    """

    def __init__(self, id: str) -> None:  # noqa: A002 - it is called that everywhere
        super().__init__(id)
        self.id = id

    def __str__(self) -> str:
        return f"no failed message has the id {self.id!r}; redrive failed list shows the known ones"


class GroupNotFound(UsageError, LookupError, code="group-not-found"):
    """No group of failed messages has this id.

    Attributes:
        group: what was asked for.
    """

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return f"no group of failed messages has the id {self.group!r}; redrive failed groups shows the known ones"


class HandlersHung(UsageError, code="handlers-hung"):
    """More handlers of a queue hang than allowed: they continue although their messages' locks were lost.

    Attributes:
        queue: its name.
        hung: how many handlers hang.
        max_hung: how many are allowed.
    """

    def __init__(self, queue: str, hung: int, max_hung: int) -> None:
        super().__init__(queue, hung, max_hung)
        self.queue = queue
        self.hung = hung
        self.max_hung = max_hung

    def __str__(self) -> str:
        return (
            f"{self.hung} handlers of queue {self.queue!r} hang, and at most {self.max_hung} may: the worker ends, to "
            "be started again. Put time limits on what they call, or raise max_lock_renewal if they need longer"
        )


class InvalidFilter(UsageError, ValueError, code="invalid-filter"):
    """A filter cannot be understood.

    Attributes:
        text: the filter.
        position: where in it, counted from 0.
        problem: what is wrong there, and what could be written instead.
    """

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(text, position, problem)
        self.text = text
        self.position = position
        self.problem = problem

    def __str__(self) -> str:
        return f"filter {self.text!r}, character {self.position + 1}: {self.problem}"


class NoteNotFound(UsageError, LookupError, code="note-not-found"):
    """No note has this number.

    Attributes:
        note: what was asked for.
    """

    def __init__(self, note: int) -> None:
        super().__init__(note)
        self.note = note

    def __str__(self) -> str:
        return f"there is no note {self.note}; redrive failed show and redrive operations show list the known ones"


class OperationNotFound(UsageError, LookupError, code="operation-not-found"):
    """No operation has this number.

    Attributes:
        operation: what was asked for.
    """

    def __init__(self, operation: int) -> None:
        super().__init__(operation)
        self.operation = operation

    def __str__(self) -> str:
        return f"there is no operation {self.operation}; redrive operations list shows the known ones"


class OperationConflict(UsageError, code="operation-conflict"):
    """A request cannot be done because of an operation that is under way, or because of its state.

    Attributes:
        operation: the number of the operation that prevents it.
        problem: why it does, and what to do.
        operations: the numbers of all operations that prevent it.
    """

    def __init__(self, operation: int, problem: str, operations: tuple[int, ...] = ()) -> None:
        super().__init__(operation, problem)
        self.operation = operation
        self.problem = problem
        self.operations = operations or (operation,)

    def __str__(self) -> str:
        return f"operation {self.operation} {self.problem}"


class RedirectRefused(UsageError, code="redirect-refused"):
    """A redirect cannot be made as requested.

    Attributes:
        queue: the queue whose failed messages were to go elsewhere.
        problem: what prevents it.
    """

    def __init__(self, queue: str, problem: str) -> None:
        super().__init__(queue, problem)
        self.queue = queue
        self.problem = problem

    def __str__(self) -> str:
        return f"failed messages of {self.queue!r} cannot be redirected: {self.problem}"


class MessageError(RedriveError, code="message-error"):
    """Something is wrong with this message, or with your right to it; others are not affected."""


class ExpressionFailed(MessageError, code="expression-failed"):
    """An expression cannot be evaluated for a message.

    Attributes:
        text: the expression.
        problem: why not.
    """

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(text, problem)
        self.text = text
        self.problem = problem

    def __str__(self) -> str:
        return f"the expression {self.text[:200]!r} failed: {self.problem}"


class InvalidMessage(MessageError, ValueError, code="invalid-message"):
    """A message cannot be sent as it is.

    Attributes:
        field: the part of it that is wrong.
        value: its value.
        allowed: what is allowed, in words.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(field, value, allowed)
        self.field = field
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        shown = ascii(self.value)  # half of a surrogate pair cannot be printed
        return f"{self.field}: {self.allowed}, not {shown if len(shown) <= 80 else shown[:77] + '...'}"


class InvalidPayload(MessageError, ValueError, code="invalid-payload"):
    """The handler of a message does not accept its body, and never will."""


class MessageTooLarge(MessageError, code="message-too-large"):
    """A message is larger than its queue allows.

    Attributes:
        queue: where it was sent.
        size: its size in bytes, body and headers together.
        limit: the largest size that the queue allows.
        setting: what would have to be raised.
    """

    def __init__(self, queue: str, size: int, limit: int, setting: str = "max_message_bytes") -> None:
        super().__init__(queue, size, limit, setting)
        self.queue = queue
        self.size = size
        self.limit = limit
        self.setting = setting

    def __str__(self) -> str:
        return (
            f"a message of {self.size:,} bytes is too large for queue {self.queue!r}, which takes {self.limit:,}; "
            f"store the content elsewhere and send a reference, or raise {self.setting}"
        )


class LockLost(MessageError, code="lock-lost"):
    """The lock on a message has ended: it was settled, or its time ran out and another receiver may have it now.

    Attributes:
        queue: where the message is.
        sequence: its sequence number.
    """

    def __init__(self, queue: str, sequence: int) -> None:
        super().__init__(queue, sequence)
        self.queue = queue
        self.sequence = sequence

    def __str__(self) -> str:
        return (
            f"the lock on message {self.sequence} in {self.queue!r} has ended, nothing was changed; "
            "settle each message once, and lengthen lock_duration or renew the lock if handling takes longer"
        )


class MessageNotFound(MessageError, LookupError, code="message-not-found"):
    """No message has this sequence number in a state that fits.

    Attributes:
        queue: where it was looked for.
        sequence: its sequence number.
        wanted: the state it was looked for in.
    """

    def __init__(self, queue: str, sequence: int, wanted: str) -> None:
        super().__init__(queue, sequence, wanted)
        self.queue = queue
        self.sequence = sequence
        self.wanted = wanted

    def __str__(self) -> str:
        return f"queue {self.queue!r} has no {self.wanted} message {self.sequence}; nothing was changed"


class SessionLost(MessageError, code="session-lost"):
    """The lock on a session has ended: it was released, or its time ran out and another receiver may have it now.

    Attributes:
        queue: where the session is.
        session_id: its name.
    """

    def __init__(self, queue: str, session_id: str) -> None:
        super().__init__(queue, session_id)
        self.queue = queue
        self.session_id = session_id

    def __str__(self) -> str:
        return (
            f"the lock on session {self.session_id!r} in {self.queue!r} has ended; renew it in time, or accept it again"
        )


class SubmissionConflict(MessageError, code="submission-conflict"):
    """A submission has the key of an earlier one, and another body; it was not taken.

    Attributes:
        pipeline: the pipeline's name.
        key: the key.
    """

    def __init__(self, pipeline: str, key: str) -> None:
        super().__init__(pipeline, key)
        self.pipeline = pipeline
        self.key = key

    def __str__(self) -> str:
        return (
            f"key {self.key!r} was used for another body; give each submission its own key, and a repetition the same"
        )


class SubmissionRefused(MessageError, code="submission-refused"):
    """A pipeline's own function refuses a submission: raise it there; nothing of the submission is kept.

    Attributes:
        reason: why, for the sender.
        status: the status of the HTTP answer, 400 to 499.
    """

    def __init__(self, reason: str, status: int = 422) -> None:
        super().__init__(reason, status)
        self.reason = reason
        self.status = status

    def __str__(self) -> str:
        return self.reason


class TransformFailed(MessageError, code="transform-failed"):
    """A message cannot be changed as requested.

    Attributes:
        reason: why not.
        was_ended: whether the code that changes it was ended because it took too long, or ended its own process.
    """

    def __init__(self, reason: str, *, was_ended: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.was_ended = was_ended

    def __str__(self) -> str:
        return f"the message cannot be changed as asked: {self.reason}"


class EngineUnavailable(Unavailable, code="engine-unavailable"):
    """The store does not answer as it should. Nothing that was acknowledged is lost, and the failed call was not done.

    Attributes:
        may_be_done: whether the call may have been done nevertheless, because its outcome could not be found out. Then
            repeat it with care.
    """

    may_be_done = False


class ReceiverFull(Unavailable, code="receiver-full"):
    """A receiver takes no more events for now: as many as allowed are on their way.

    Attributes:
        receiver: which one.
        most: how many may be on their way.
    """

    def __init__(self, receiver: str, most: int) -> None:
        super().__init__(receiver, most)
        self.receiver = receiver
        self.most = most

    def __str__(self) -> str:
        events = "1 event" if self.most == 1 else f"{self.most:,} events"
        return f"{self.receiver} has {events} on the way and takes no more for now; try again later"


class LeaseLost(Unavailable, code="lease-lost"):
    """Another process has taken over this process's work, or the lease ended; nothing was changed."""


class EngineBusy(EngineUnavailable, code="engine-busy"):
    """Another process kept the store locked for longer than this one waits."""


class StorageDamaged(EngineUnavailable, code="storage-damaged"):
    """The file is not a database, or is corrupt. Restore it from a backup, or move it away to start empty."""


class StorageFull(EngineUnavailable, code="storage-full"):
    """There is no room left on the disk. What was acknowledged is safe; free some space and try again."""


class StorageReadOnly(EngineUnavailable, code="storage-read-only"):
    """This process cannot write the database, or the folder it is in."""


# --- the server


class ServerFileError(UsageError, code="server-file-error"):
    """A file with settings of the server cannot be used.

    Attributes:
        source: the file, or None for a text.
        line: the line at fault, counted from 1.
        problem: what is wrong there and how to correct it.
    """

    def __init__(self, source: "Path | None", line: int, problem: str) -> None:
        super().__init__(source, line, problem)
        self.source = source
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source or 'settings of the server'}, line {self.line}: {self.problem}"


class InvalidRequest(UsageError, ValueError, code="invalid-request"):
    """A request over HTTP does not have the form it must have.

    Attributes:
        place: where: ``body.rate``, ``query.limit``; empty: the whole request.
        problem: what is wrong there.
    """

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)
        self.place = place
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" if self.place else self.problem


class InvalidCursor(UsageError, ValueError, code="invalid-cursor"):
    """A cursor does not come from the page before, or comes from a page of another list."""

    def __str__(self) -> str:
        return "this cursor does not belong to this list; use the address in Link of the page before, unchanged"


class QuestionTooSlow(UsageError, code="question-too-slow"):
    """A question could not be answered in the time that it may take (``seconds``); it was ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"this takes longer than {self.seconds:g} s; narrow the filter, for example with queue:, group:, age<1d"


class RequestRepeated(UsageError, code="request-repeated"):
    """A request with this key was made before; it was not made again.

    Attributes:
        key: the key.
    """

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"a request with the key {self.key!r} was made before; the audit trail says what came of it"


class RequestUnderWay(RequestRepeated, code="request-under-way"):
    """A request with this key is being worked on, or its server ended a moment ago."""

    def __str__(self) -> str:
        return f"a request with the key {self.key!r} is being worked on; make it again in a minute, to see its end"


class SignInRequired(UsageError, code="sign-in-required"):
    """A request does not say who it is from, or says it in a way that does not count (any more).

    Attributes:
        problem: what is wrong.
    """

    def __init__(self, problem: str = "this needs a valid token") -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.problem}; send a token as: Authorization: Bearer TOKEN, or sign in"


class Forbidden(UsageError, PermissionError, code="forbidden"):
    """The principal may not do this.

    Attributes:
        action: what it was: ``queues.delete``.
        problem: what is missing.
        fix: who can do it, or what to ask for.
    """

    def __init__(self, action: str, problem: str, fix: str) -> None:
        super().__init__()
        self.args = (action, problem, fix)  # given to OSError, they would be an errno and its text
        self.action = action
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.action} is not allowed: {self.problem}; {self.fix}"


class TokenNotFound(UsageError, LookupError, code="token-not-found"):
    """No token has this id.

    Attributes:
        token: the id.
    """

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token

    def __str__(self) -> str:
        return f"there is no token {self.token!r}; list them: redrive tokens"


class UserNotFound(UsageError, LookupError, code="user-not-found"):
    """No user has this name.

    Attributes:
        user: the name.
    """

    def __init__(self, user: str) -> None:
        super().__init__(user)
        self.user = user

    def __str__(self) -> str:
        return f"there is no user {self.user!r}; list them: redrive users"


class ViewNotFound(UsageError, LookupError, code="view-not-found"):
    """No saved view has this ``number``."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return f"there is no saved view {self.number}; list them: GET /api/v1/views"


class UserConflict(UsageError, code="user-conflict"):
    """A user of this name exists already.

    Attributes:
        user: the name.
    """

    def __init__(self, user: str) -> None:
        super().__init__(user)
        self.user = user

    def __str__(self) -> str:
        return f"user {self.user!r} exists already; change it: redrive users password {self.user}"


class LastAdmin(UsageError, code="last-admin"):
    """Without this user or token there would be no admin left, and no one could sign in to add another.

    Attributes:
        name: the user, or the id of the token.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"{self.name!r} is the last admin, and without one no one can let others in; "
            "add another admin first, or say that it is meant: --even-last, ?even_last=true"
        )


class RedactionNotFound(UsageError, LookupError, code="redaction-not-found"):
    """No stored rule of redaction has this number.

    Attributes:
        number: the number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return f"there is no rule of redaction {self.number}; list them: redrive redactions"


class WebhookNotFound(UsageError, LookupError, code="webhook-not-found"):
    """No webhook has this name.

    Attributes:
        webhook: the name.
    """

    def __init__(self, webhook: str) -> None:
        super().__init__(webhook)
        self.webhook = webhook

    def __str__(self) -> str:
        return f"there is no webhook {self.webhook!r}; list them: redrive webhooks"


class WebhookConflict(UsageError, code="webhook-conflict"):
    """A webhook of this name exists already.

    Attributes:
        webhook: the name.
    """

    def __init__(self, webhook: str) -> None:
        super().__init__(webhook)
        self.webhook = webhook

    def __str__(self) -> str:
        return f"webhook {self.webhook!r} exists already; remove it first: redrive webhooks remove {self.webhook}"


class TooManyAttempts(Unavailable, code="too-many-attempts"):
    """There were too many attempts to sign in.

    Attributes:
        retry_after: seconds until the next attempt is looked at.
    """

    def __init__(self, retry_after: float) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"too many attempts to sign in; come back in {self.retry_after:.0f} s"


class ProviderUnavailable(Unavailable, code="provider-unavailable"):
    """The provider that signs people in does not answer, or not as it must.

    Attributes:
        issuer: the provider.
        problem: what is wrong.
    """

    def __init__(self, issuer: str, problem: str) -> None:
        super().__init__(issuer, problem)
        self.issuer = issuer
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the provider {self.issuer} cannot be used: {self.problem}; sign in with name and password, or come back"
        )


class TooManyStreams(Unavailable, code="too-many-streams"):
    """The server has as many streams of events as it may have.

    Attributes:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most

    def __str__(self) -> str:
        return f"there are {self.most:,} streams of events already; come back later, or ask every few seconds instead"
