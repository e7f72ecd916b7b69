# SPDX-License-Identifier: MIT
"""Text from outside, made safe to show: it cannot forge a line, move a cursor or reverse letters. Pure: no I/O.

Control characters, bidirectional controls and halves of surrogate pairs are escaped as in Python. All text for people
passes through this: the text of an event, the output of the command line, the text of an error. JSON and the fields of
events stay unchanged, because programs read them.
"""


def printable(text: str) -> str:
    """Return a text of any number of lines."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def one_line(text: object, most: int = 1_000) -> str:
    """Return a text on one line, shortened.

    Args:
        text: what it is.
        most: how many characters it may have at most.
    """
    whole = str(text)
    shown = whole[: most + 1]
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def class_name(kind: type) -> str:
    """Return the name of a class, with its module unless it is Python's own: ``json.decoder.JSONDecodeError``."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def shortened(text: str, longest: int) -> str:
    """Return a text without its middle, if it is too long: the beginning and the end of a traceback say most."""
    whole = encodable(text)
    if len(whole) <= longest:
        return whole
    cut = f"\n… cut here, {len(whole):,} characters in all …\n"
    head = (longest - len(cut)) // 2
    return whole[:head] + cut + whole[len(whole) - (longest - len(cut) - head) :]


def encodable(text: str) -> str:
    """Return a text that can be stored: half of a surrogate pair is spelled out."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
