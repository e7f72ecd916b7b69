# SPDX-License-Identifier: MIT
"""Settings, files and expressions that cannot be used, and features that are not there."""

from redrive.errors.branches import MessageError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


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
