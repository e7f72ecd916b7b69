# SPDX-License-Identifier: MIT
"""Which failures are alike: a short name for an exception and the place it came from. Pure: no I/O, no clock.

Two failures are in one group if the same exception took the same path through the program. Details that vary between
failures do not count: line numbers, messages and notes, source lines and the marks below them, where the program is
installed, how deep a recursion went, how often a trace repeats a failed attempt, and in which order the exceptions of
an ``ExceptionGroup`` arrived. These count:

1. the exception's type;
2. the innermost five functions of the application that it passed; functions of libraries only if there are no others;
3. the types of all exceptions behind it (causes, contexts, members of a group), each with its innermost function.

A path alone does not show where a program's root is. So a file is identified by its name and its directory, unless that
directory is one where programs are usually installed: ``/app/shop/orders.py`` and ``/home/ann/work/shop/orders.py`` are
both ``shop.orders``.

Traces of .NET and Java are identified by the exception's type and the innermost method that is not the platform's.

``VERSION`` is part of every id. A change of these rules must change it too, so that new groups are formed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final

VERSION: Final = 1
EXCEPTION: Final = "exception"
ADDED: Final = "x"
"""The ids of groups that a program's own classifiers make begin with this."""
EXAMINED: Final = 65_536
"""How many characters of a trace are read, from its beginning and from its end."""

_MOST_FRAMES = 5  # enough to distinguish two paths, few enough for a trace that was cut in the middle
_LONGEST_LINE = 1_000
_LONGEST_TYPE = 200
_LONGEST_TITLE = 300

_TRACEBACK = "Traceback (most recent call last):"
_GROUP_TRACEBACK = "Exception Group Traceback (most recent call last):"
_LINKS = ("The above exception was the direct cause", "During handling of the above exception")
_CUT = "… cut here"  # what worker.recoverability.shortened leaves behind
_INLINED = ("<listcomp>", "<dictcomp>", "<setcomp>")  # frames up to Python 3.11 only: an upgrade changes no group

_INSTALLED = ("site-packages", "dist-packages")
_PLACES = {"Users": 2, "home": 2, "mnt": 1, "opt": 1, "root": 1, "srv": 1, "tmp": 1, "var": 2}
"""Where programs are installed, and how many directories below belong to that place: a user, a project."""
_PROGRAM_ROOTS = frozenset({"app", "code", "current", "src", "workspace"})

_AT = frozenset({"at", "bei", "em", "en", "in", "w", "à", "в", "在"})  # .NET speaks the language of its machine
_PLATFORMS = (
    *("System.", "Microsoft.", "NServiceBus.", "MassTransit."),
    *("java.", "javax.", "jakarta.", "jdk.", "sun.", "org.springframework."),
)
_NUMBERED = re.compile(r"(__|\$)[0-9_]+")  # what compilers count: Handle>d__12, lambda$main$0


@dataclass(frozen=True, slots=True)
class Group:
    """What failures that are alike have in common.

    Attributes:
        id: its id, the same in every process and on every machine.
        classifier: what they were compared by, such as ``exception``.
        title: a title for people.
    """

    id: str
    classifier: str
    title: str


@dataclass(slots=True)
class _Section:
    """One exception in a trace: its frames, outermost first, and its type."""

    is_member: bool = False  # of an exception group
    is_rest: bool = False  # of one that was cut in the middle
    type: str = ""
    frames: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])  # name, and whether it is a library
    is_complete: bool = False


def exception_group(exception_type: str, stack_trace: str, reason: str = "") -> Group:
    """Return the group of a failure, by its exception and the path of that exception.

    Args:
        exception_type: the exception's class; empty: what the trace says.
        stack_trace: the trace, as Python, .NET or Java print it; empty: not known.
        reason: what identifies the failure if there is neither a type nor a trace.
    """
    text = excerpt(stack_trace)
    sections = _sections(text)
    main = _main(sections)
    kind = exception_type.strip()[:_LONGEST_LINE] or (main.type if main else "")
    if main is not None and any(section.frames for section in sections):
        return _python_group(kind or reason, main, sections)
    place = _foreign_place(text)
    if place:
        return _group((kind or reason, place), f"{kind or reason or 'failure'} in {place}")
    if kind:
        return _group((kind,), f"{kind}: no stack trace")
    return _group(("", reason), reason or "no exception and no reason")


def without_message(trace: str) -> str:
    """Return a trace without the text of its last exception, which does not count; the group is the same.

    So that the group of failures that differ in that text alone is found once.
    """
    before, _, last = trace.rstrip("\n").rpartition("\n")
    kind, colon, _ = last.partition(":")
    if not colon or last.startswith(" ") or kind.partition(" ")[0] in _AT:
        return trace
    return f"{before}\n{kind}:"


def group_id(classifier: str, title_or_key: str) -> str:
    """Return the id of a group: 16 hexadecimal digits; groups of a program's own classifiers begin with an ``x``."""
    compared = "\0".join((str(VERSION), classifier, title_or_key))
    digits = blake2b(compared.encode(errors="backslashreplace"), digest_size=8).hexdigest()
    return digits if classifier == EXCEPTION else ADDED + digits


def excerpt(trace: str) -> str:
    """Return the part of a trace that is read: whole lines of its beginning and of its end."""
    if len(trace) <= 2 * EXAMINED:
        return trace[: 2 * EXAMINED]
    head, tail = trace[:EXAMINED], trace[-EXAMINED:]
    return "\n".join((head[: head.rfind("\n") + 1] or head, _CUT, tail[tail.find("\n") + 1 :]))


def _group(key: tuple[str, ...], title: str) -> Group:
    shown = title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1] + "…"
    return Group(group_id(EXCEPTION, "\n".join(key)), EXCEPTION, shown)


# --- Python


def _python_group(kind: str, main: _Section, sections: list[_Section]) -> Group:
    has_own = any(not is_library for section in sections for _, is_library in section.frames)
    ways = [_way(section, own_only=has_own) for section in sections]
    way = _way(main, own_only=has_own)
    # Sorted and each only once: a group's members come in any order, a retried call fails in the same way many times.
    behind = {(section.type, *found[:1]) for section, found in zip(sections, ways, strict=True) if section is not main}
    place = (way or next(found for found in reversed(ways) if found))[0]
    key = (kind, *way, *("behind it: " + " ".join(one) for one in sorted(behind)))
    return _group(key, f"{kind or 'failure'} in {place}")


def _way(section: _Section, *, own_only: bool) -> list[str]:
    """Return the functions an exception passed, innermost first, each once, so that recursion does not count."""
    names = [name for name, is_library in reversed(section.frames) if not (own_only and is_library)]
    return list(dict.fromkeys(names))[:_MOST_FRAMES]


def _main(sections: list[_Section]) -> _Section | None:
    """Return the exception that was raised in the end: the last that is not a member of a group."""
    return next((each for each in reversed(sections) if not each.is_member), sections[0] if sections else None)


def _sections(text: str) -> list[_Section]:
    """Split a traceback into exceptions, including causes and members of groups."""
    found = [_Section()]
    for line in _lines(text):
        bare, is_member = _without_margin(line)
        if bare in (_TRACEBACK, _GROUP_TRACEBACK) or bare.startswith((*_LINKS, _CUT)) or _is_separator(bare):
            found.append(_Section(is_member, is_rest=bare.startswith(_CUT)))
        elif not found[-1].is_complete:
            _read(bare, found[-1])
    complete = [section for section in found if section.type]
    # A section without a type was cut off, at a place that depends on the length of messages. It counts only if there
    # is no other.
    return complete or [section for section in found if section.frames]


def _lines(text: str) -> Iterator[str]:
    return (line[:_LONGEST_LINE].rstrip() for line in text.split("\n"))


def _without_margin(line: str) -> tuple[str, bool]:
    """Return a line without what exception groups draw at its left, and whether it belongs to a member of one."""
    bare = line.lstrip(" ")
    indent = len(line) - len(bare)
    if bare.startswith("+ "):
        return bare[2:], indent > 2
    if bare.startswith("|") and indent:
        return bare[1:].removeprefix(" "), indent > 2
    return (bare, True) if _is_separator(bare) else (line, False)


def _is_separator(bare: str) -> bool:
    return bare.startswith(("+-+---", "+-----"))


def _read(bare: str, section: _Section) -> None:
    """Add to a section what a line says: a frame, or the exception, with which it ends."""
    if not bare:
        return
    frame = _frame(bare.lstrip(" ")) if bare.startswith(" ") else None
    if frame is not None:
        section.frames.append(frame)
    elif not bare.startswith(" ") and (section.frames or not section.is_rest):  # a rest begins in the middle of a line
        section.type, section.is_complete = _type_in(bare), True


def _type_in(line: str) -> str:
    kind = line.partition(":")[0]
    is_name = 0 < len(kind) <= _LONGEST_TYPE and (kind[0].isalpha() or kind[0] == "_") and len(kind.split()) == 1
    return kind if is_name else ""


@lru_cache(maxsize=10_000)  # many failures differ only in the last line of their traces
def _frame(line: str) -> tuple[str, bool] | None:
    """Return the function that a line names, and whether it is a library's; None if it names none.

    A line with a file but no function belongs to a ``SyntaxError``: it is about data, which differ between failures.
    """
    path, found, rest = line.removeprefix('File "').rpartition('", line ')
    number, named, function = rest.partition(", in ")
    if not line.startswith('File "') or not found or not named or not number.isdecimal() or function in _INLINED:
        return None
    module, is_library = _module(path)
    return module if function == "<module>" else f"{module}.{function}", is_library


def _module(path: str) -> tuple[str, bool]:
    """Return the module of a file, as far as its path shows it, and whether it is a library's."""
    if path.startswith("<"):  # <string>, <frozen importlib._bootstrap>, <ipython-input-7-0f3a>
        word = re.split(r"[^a-z]", path[1:], maxsplit=1)[0]
        return f"<{word}>", word == "frozen"
    parts = path.replace("\\", "/").split("/")
    parts[-1] = parts[-1].rpartition(".py")[0] or parts[-1]
    start = _library_start(parts)
    if start is not None:
        return ".".join(_without_init(parts[start:])), True
    return ".".join(_own(_without_init(parts))), False


def _without_init(parts: list[str]) -> list[str]:
    return parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts


def _library_start(parts: list[str]) -> int | None:
    """Return where the module's name begins if it is installed, or Python's own; None if it is neither."""
    for at in range(len(parts) - 2, -1, -1):
        if parts[at] in _INSTALLED or (parts[at].startswith("python3") and parts[at].endswith(".zip")):
            return at + 1
        if at and parts[at].startswith("python3") and parts[at - 1] in ("lib", "lib64"):
            return at + 1
        if at and parts[at] == "Lib" and parts[at - 1].lower().startswith("python"):  # on Windows
            return at + 1
    return None


def _own(parts: list[str]) -> list[str]:
    """Return the name of a module and, if it is in a package rather than in the program's root, of that package."""
    inner = [part for part in parts if part and not part.endswith(":")]  # no drive
    inner = inner[min(_PLACES.get(inner[0], -1) + 1, len(inner) - 1) :] if inner else ["?"]
    around = inner[-2] if len(inner) > 1 else ""
    # A package's name is an identifier; a release's directory, such as 2024-05-01, is none.
    return inner[-2:] if around.isidentifier() and around not in _PROGRAM_ROOTS else inner[-1:]


# --- .NET and Java


def _foreign_place(text: str) -> str:
    """Return the innermost method that is not the platform's own, or the innermost of all; empty if there is none."""
    first = ""
    for line in _lines(text):
        word, _, rest = line.strip().partition(" ")
        method, called, _ = rest.partition("(")
        if word in _AT and called and len(method.split()) == 1:
            name = _NUMBERED.sub(r"\1", method.strip().rpartition("/")[2].partition("$$")[0])
            if not name.startswith(_PLATFORMS):
                return name
            first = first or name
    return first
