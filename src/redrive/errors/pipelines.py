# SPDX-License-Identifier: MIT
"""Pipelines, their tasks, destinations and submissions."""

from redrive.errors.branches import MessageError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


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
