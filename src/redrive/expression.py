# SPDX-License-Identifier: MIT
"""Expressions about a message, such as ``body.total > 100 && headers.region == 'eu'``. Pure: no I/O, no clock.

The language is CEL, the Common Expression Language of https://cel.dev: nothing in it reaches Python, and every
expression ends. These names exist:

- ``body``: the value of the body, which must be JSON in UTF-8.
- ``headers``: the headers by name. A name that is no word stands in brackets: ``headers['x-tenant']``.
- ``id``, ``subject``, ``content_type``, ``correlation_id``, ``reply_to``, ``to``, ``session_id``: texts, or null.

Asking for what is missing is an error: ``has(body.total) && body.total > 100`` asks first. JSON has one kind of number,
so ``100`` and ``100.5`` can be compared and calculated with here, as decimals, which CEL alone refuses; but ``7 / 2``
is 3. A whole number of more than 64 bits is read as a decimal. U+FFFD stands for NUL characters and for halves of
surrogate pairs.
"""

import json
import operator
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from redrive.errors import ExpressionFailed, InvalidExpression, MissingExtra
from redrive.printable import one_line

if TYPE_CHECKING:
    from cel_expr_python.cel import Activation, Env, FunctionDecl

__all__ = ["Expression", "MessageValues"]

LONGEST_TEXT: Final = 4_096
"""How many characters an expression may have."""

DEEPEST_BODY: Final = 100
"""How many lists and objects of a body may be inside one another; thousands of them would end the process."""

_PROPERTIES = ("id", "subject", "content_type", "correlation_id", "reply_to", "to", "session_id")
_NAMES = ("body", "headers", *_PROPERTIES)
_CALCULATIONS = {"_+_": operator.add, "_-_": operator.sub, "_*_": operator.mul, "_/_": operator.truediv}
_ORDERS = {"_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt, "_>=_": operator.ge}
_COMPARISONS = _ORDERS | {"_==_": operator.eq, "_!=_": operator.ne}
_OUTCOMES = {"true": True, "false": False}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


class MessageValues:
    """What one message offers to expressions: converted when the first of them asks, and once for all of them.

    Args:
        body: the body of the message.
        properties: its properties by name; those that are missing are null.
        headers: its headers by name.

    Attributes:
        body_problem: why expressions cannot use the body, once one of them has tried.
    """

    __slots__ = ("_body", "_headers", "_properties", "_with_body", "_without_body", "body_problem")

    def __init__(self, body: bytes, properties: Mapping[str, object], headers: Mapping[str, object]) -> None:
        self._body = body
        self._properties = properties
        self._headers = headers
        self._with_body: Activation | None = None
        self._without_body: Activation | None = None
        self.body_problem = ""

    def values(self, *, with_body: bool) -> "Activation":
        """Return the values of all names, without the body's if it is not needed: reading that costs the most."""
        known = self._with_body or (None if with_body else self._without_body)
        if known is not None:
            return known
        values: dict[str, object] = {name: _readable(self._properties.get(name)) for name in _PROPERTIES}
        values["headers"] = _readable(dict(self._headers))
        if with_body:
            try:
                values["body"] = _read(self._body)
            except ValueError as error:  # what does not use the body in the end does not fail
                self.body_problem = str(error)
        made = _language().runner.Activation(values)
        if with_body:
            self._with_body = made
        else:
            self._without_body = made
        return made


class Expression:
    """An expression, compiled: it never changes, equals another with the same text, and any thread may use it.

    Args:
        text: how it is written; at most 4,096 characters, and 32 levels deep.

    Raises:
        InvalidExpression: it cannot be read, uses a name that does not exist, or is something else than true or false.
        MissingExtra: the extra ``routes`` is not installed.
    """

    __slots__ = ("_needs_body", "_program", "_text")

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not 1 <= len(text) <= LONGEST_TEXT:
            raise InvalidExpression(one_line(text, 80), f"must be a text of 1 to {LONGEST_TEXT:,} characters")
        if strange := _UNREADABLE.search(text):
            raise InvalidExpression(text, f"{strange[0]!a} is no character of a text", strange.start())
        language = _language()
        try:
            result = language.checker.compile(text).return_type().name()
            self._program = language.runner.compile(text, disable_check=True)  # as the checker knows no values
        except RuntimeError as error:
            raise _refusal(text, str(error)) from None
        if result not in ("BOOL", "DYN"):
            raise InvalidExpression(text, f"its result is {result.lower()}, and must be true or false")
        _check_patterns(text)
        self._text = text
        self._needs_body = re.search(r"\bbody\b", text) is not None  # once too often does no harm

    @property
    def text(self) -> str:
        """How it is written."""
        return self._text

    def matches(self, event: MessageValues) -> bool:
        """Say whether it is true of a message.

        Raises:
            ExpressionFailed: it cannot be said: something is missing or of the wrong type, or the result is not a bool.
        """
        try:
            result = self._program.eval(event.values(with_body=self._needs_body))
        except RuntimeError as error:
            raise ExpressionFailed(self._text, _reason(self._text, str(error), event)) from None
        shown = repr(result)
        outcome = _OUTCOMES.get(shown)
        if outcome is not None:
            return outcome
        kind = result.type().name()  # first, because before 3.12 the value() of one null too many ends the process
        if kind == "BOOL":  # the usual way is three times as fast, but depends on how the library prints
            return bool(result.value())
        if kind == "ERROR":
            raise ExpressionFailed(self._text, _reason(self._text, shown, event))
        raise ExpressionFailed(self._text, f"its result is {kind.lower()}, and must be true or false")

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Expression) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Expression({self._text!r})"

    def __reduce__(self) -> "tuple[type[Expression], tuple[str]]":
        return Expression, (self._text,)  # what is compiled stays in its process


# --- the language -----------------------------------------------------------------------------------------------------


class _Language(NamedTuple):
    """The library's two halves, which differ in what they are given.

    Attributes:
        checker: knows the types of the names, and finds mistakes in a text.
        runner: knows the values. It has the mixed comparisons already, and refuses to be given them again.
    """

    checker: "Env"
    runner: "Env"


@cache
def _language() -> _Language:
    try:
        from cel_expr_python.cel import CelExtension, NewEnv, Type
    except ImportError as error:
        raise MissingExtra("an expression", "routes") from error
    text_or_null = Type("google.protobuf.StringValue")
    types = {"body": Type.DYN, "headers": Type.Map(Type.STRING, Type.DYN), **dict.fromkeys(_PROPERTIES, text_or_null)}
    calculations = [_mixed(symbol) for symbol in _CALCULATIONS]
    comparisons = [_mixed(symbol) for symbol in _COMPARISONS]
    return _Language(
        NewEnv(variables=types, extensions=[CelExtension("numbers", [*calculations, *comparisons])]),
        NewEnv(variables=dict.fromkeys(_NAMES, Type.DYN), extensions=[CelExtension("numbers", calculations)]),
    )


def _mixed(symbol: str) -> "FunctionDecl":
    """Return an operator for a whole number and a decimal."""
    from cel_expr_python.cel import FunctionDecl, Overload, Type

    result = Type.BOOL if symbol in _COMPARISONS else Type.DOUBLE
    calculate = (_COMPARISONS | _CALCULATIONS)[symbol]
    return FunctionDecl(
        symbol,
        [
            Overload(f"{symbol}int_double", result, [Type.INT, Type.DOUBLE], impl=calculate),
            Overload(f"{symbol}double_int", result, [Type.DOUBLE, Type.INT], impl=calculate),
        ],
    )


# --- values -----------------------------------------------------------------------------------------------------------


def _whole(digits: str) -> int | float:
    number = int(digits) if len(digits) <= 20 else float(digits)
    return number if -(2**63) <= number < 2**63 else float(number)


_JSON = json.JSONDecoder(parse_int=_whole)


def _read(body: bytes) -> object:
    """Return the value of a body.

    Raises:
        ValueError: it has none that the library could take.
    """
    too_deep = f"the body has more than {DEEPEST_BODY} lists and objects inside one another"
    try:
        text = body.removeprefix(_BYTE_ORDER_MARK).decode()
        value = _JSON.decode(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    except ValueError as error:
        raise ValueError(f"the body is no JSON: {error}") from None
    if text.count("[") + text.count("{") > DEEPEST_BODY and _is_too_deep(value):
        raise ValueError(too_deep)
    return _readable(value) if "\\u" in text else value  # nothing else brings in what is unreadable


def _is_too_deep(value: object) -> bool:
    level = _inner([value])
    for _ in range(DEEPEST_BODY):
        level = _inner([inner for each in level for inner in (each.values() if isinstance(each, dict) else each)])
    return bool(level)


def _inner(values: Iterable[object]) -> list[dict[str, object] | list[object]]:
    return [each for each in values if isinstance(each, dict | list)]


def _readable(value: object) -> object:
    """Return a value in which texts have no character that the library would cut them off at, or fail at."""
    if isinstance(value, str):
        return _UNREADABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_readable(name): _readable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_readable(each) for each in value]
    return value


# --- what is wrong with a text ----------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<literal>[bB]?[rR](?:'[^'\n]*'|"[^"\n]*")|[bB]?(?:\'{3}(?:\\.|[^\\])*?\'{3}|\"{3}(?:\\.|[^\\])*?\"{3}"""
    r"""|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))|//[^\n]*|\.\s*`[^`]*`|(?P<word>(?:\.\s*)?[A-Za-z_]\w*)"""
    r"""|(?P<sign>[=!<>&|]+|[`\u201c\u201d\u2018\u2019(])""",
    re.DOTALL,
)
_SIGNS = {"=": "==", "===": "==", "!==": "!=", "<>": "!=", "=<": "<=", "=>": ">=", "&": "&&", "|": "||"}
_WORDS = {"and": "&&", "or": "||", "not": "!", "is": "==", "in": "in", "like": ".startsWith() or .matches()"}
_VALUES = {"true": "true", "false": "false", "none": "null", "null": "null"}
_QUOTES = dict.fromkeys("\u201c\u201d\u2018\u2019", '"') | {"`": "100 for a number, 'eu' for a text"}
_INSTEAD = _SIGNS | _WORDS | _VALUES | _QUOTES
_FUNCTIONS = (
    *("all", "contains", "double", "duration", "endsWith", "exists", "exists_one", "filter", "has", "int", "map"),
    *("matches", "size", "startsWith", "string", "timestamp", "type"),
)
_REPORT = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?(.*)")


def _refusal(text: str, message: str) -> InvalidExpression:
    """Return the error about a text, for what the library says about it."""
    for token in _TOKEN.finditer(text):
        written = token["word"] or token["sign"] or ""
        instead = _INSTEAD.get(written.lower(), written)
        if written != instead:
            return InvalidExpression(text, f"write {instead} instead of {written}", token.start())
    report = _REPORT.search(message)
    if report is None:
        problem = "it is nested more than 32 levels deep" if "recursion" in message else one_line(message, 200)
        return InvalidExpression(text, problem)
    line, column = int(report[1]), int(report[2])
    position = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1
    if unknown := re.match(r"undeclared reference to '([^']+)'", report[3]):
        return _unknown(text, unknown[1], position)
    return InvalidExpression(text, _syntax(report[3]), position)


def _syntax(report: str) -> str:
    """Return in plain words what the library says about a place in a text."""
    if found := re.match(r"found no matching overload for '([^']+)' applied to '(.*)'", report):
        return _undefined(found[1] + found[2])
    if re.match(r"token recognition error at: '['\"]", report):
        return r"a text begins here that does not end, or has a '\' that means nothing: write '\\', or r'...'"
    if "'<EOF>'" in report:
        missing = re.match(r"missing ('.') at", report)
        return f"{missing[1]} is missing at the end" if missing else "it ends too early"
    if found := re.match(r"(?:\w+ input|token recognition error at:|no viable alternative at input) '(.+?)'", report):
        return f"{one_line(found[1].strip(), 80)!r} cannot stand here"
    if report.startswith("has()"):
        return "has() takes a name behind a dot, as in has(body.total); for other names write 'x-id' in headers"
    return one_line(report, 200)


def _unknown(text: str, name: str, position: int) -> InvalidExpression:
    """Return the error about a name that does not exist."""
    from difflib import get_close_matches

    if text[position : position + 1] == "(":
        if name in _FUNCTIONS:
            return InvalidExpression(text, f"{name}() takes other arguments", position)
        similar = get_close_matches(name, _FUNCTIONS, 1)
        meant = f"did you mean {similar[0]}()?" if similar else f"these exist: {', '.join(_FUNCTIONS)}"
        return InvalidExpression(text, f"there is no function {name}(); {meant}", position)
    first = name.partition(".")[0]
    start = max(text.rfind(first, 0, position + len(first)), 0)
    for dashed in re.finditer(r"([A-Za-z_][\w.]*)\.(\w+(?:-\w+)+)", text):
        if dashed.start(2) < start < dashed.end():
            return InvalidExpression(text, f"write {dashed[1]}['{dashed[2]}'] for a name with '-'", dashed.start())
    similar = get_close_matches(first.lower(), _NAMES, 1)
    meant = f"did you mean {similar[0]!r}?" if similar else f"did you mean 'body.{first}' or 'headers.{first}'?"
    return InvalidExpression(text, f"there is no {first!r}; {meant}", start)


def _check_patterns(text: str) -> None:
    """See that the patterns that a text has are patterns: the library would say so at every message."""
    tokens = list(_TOKEN.finditer(text))
    for word, bracket, literal in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if word[0].endswith("matches") and bracket[0] == "(" and literal["literal"]:
            pattern = literal["literal"]
            try:
                tried = repr(_language().runner.compile(f"''.matches({pattern})", disable_check=True).eval(data={}))
            except RuntimeError:  # it is no literal after all, and the text was accepted as it is
                continue
            _, is_wrong, problem = tried.partition("invalid regular expression: ")
            if is_wrong:
                raise InvalidExpression(text, f"{pattern} is no pattern of RE2: {problem}", literal.start())


# --- why an evaluation failed -----------------------------------------------------------------------------------------


_PLAIN = {
    "Applying SELECT": "a name stands behind a '.', and what stands before it is no object",
    "Iteration budget": "it takes more than 10,000 steps through lists",
}


def _reason(text: str, message: str, event: MessageValues) -> str:
    """Return in plain words why an expression failed, for what the library says about it."""
    said = re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", message)
    if said.startswith('No value with name "body"'):
        return event.body_problem
    if found := re.match(r'Key not found in map : "(.*)"$', said, re.DOTALL):
        return _missing(text, found[1])
    if found := re.match(r"No matching overloads found : (.*)", said):
        return _undefined(found[1])
    if found := re.match(r"Index error: index=(-?\d+) size=(\d+)", said):
        return f"there is no element {found[1]} in a list of {found[2]}"
    return next((plain for start, plain in _PLAIN.items() if said.startswith(start)), one_line(said, 200))


def _missing(text: str, name: str) -> str:
    path = re.search(rf"[A-Za-z_][\w.]*\.{re.escape(name)}(?!\w)", text)
    first = f"has({path[0]})" if path else f"'{one_line(name, 80)}' in ..."
    return f"there is no {one_line(name, 80)!r}; if it may be missing, ask first: {first} && ..."


def _undefined(call: str) -> str:
    """Return in plain words that a function or an operator is not defined for what it was given."""
    call = call.replace("int64", "int").replace("null_type", "null").replace("wrapper(string)", "string")
    symbol = re.match(r"_?([^\w\s(<@]+)_|@(in)", call)
    types = call[call.find("(") :] if "(" in call else ""
    if call.startswith("<iter_range>"):
        return "something is gone through that is neither a list nor an object"
    if call.startswith("<") or (symbol and symbol[1] in ("&&", "||", "!", "?") and not types):
        return f"what stands beside '{symbol[1] if symbol else '?'}' must be true or false"
    what = f"'{symbol[1] or symbol[2]}' is not defined for {types or 'that'}" if symbol else f"{call} is not defined"
    if "null" in types:
        return f"{what}; if it may be null, ask first: ... != null && ..."
    if re.fullmatch(r"\((?:string, (?:int|double)|(?:int|double), string)\)", types):
        return f"{what}; convert one of them with int(), double() or string()"
    return one_line(what, 200)
