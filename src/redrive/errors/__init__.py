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

from redrive.errors.access import (
    Forbidden,
    LastAdmin,
    ProviderUnavailable,
    RedactionNotFound,
    SignInRequired,
    TokenNotFound,
    TooManyAttempts,
    UserConflict,
    UserNotFound,
)
from redrive.errors.branches import MessageError, RedriveError, Unavailable, UsageError
from redrive.errors.calls import AttemptTimeout, CircuitOpen, DeadlineExceeded
from redrive.errors.failures import (
    FailureNotFound,
    GroupNotFound,
    InvalidFilter,
    JourneyNotFound,
    NoteNotFound,
    OperationConflict,
    OperationNotFound,
    RedirectRefused,
    TransformFailed,
)
from redrive.errors.pipelines import (
    DestinationConflict,
    DestinationNotFound,
    InvalidPipeline,
    PipelineFileError,
    PipelineNotFound,
    SubmissionConflict,
    SubmissionRefused,
    TaskConflict,
    TaskNotFound,
)
from redrive.errors.queues import (
    HandlersHung,
    InvalidMessage,
    InvalidPayload,
    LockLost,
    MessageNotFound,
    MessageTooLarge,
    NotAQueue,
    QueueConflict,
    QueueNotFound,
    SessionLost,
    SessionRequired,
    SubscriptionNotFound,
    TopicConflict,
    TopicNotFound,
)
from redrive.errors.requests import (
    InvalidCursor,
    InvalidRequest,
    ProblemReported,
    QuestionTooSlow,
    RequestRepeated,
    RequestUnderWay,
    ServerFileError,
    TooManyStreams,
    ViewNotFound,
    WebhookConflict,
    WebhookNotFound,
)
from redrive.errors.routes import InvalidRoute, ReceiverFull, RouteConflict, RouteFileError, RouteNotFound
from redrive.errors.settings import (
    ExpressionFailed,
    InvalidExpression,
    InvalidSetting,
    MissingExtra,
    NotSupported,
    PolicyFileError,
    UnknownPolicy,
    UnknownSetting,
)
from redrive.errors.storage import (
    EngineBusy,
    EngineUnavailable,
    LeaseLost,
    SchemaMismatch,
    StorageDamaged,
    StorageFull,
    StorageReadOnly,
    StorageReplaced,
)

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
