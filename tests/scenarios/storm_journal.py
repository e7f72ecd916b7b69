# SPDX-License-Identifier: MIT
"""What the processes of a storm write down: every call before it is made, and what came of it, synced to the disk.

A call whose process was killed has no answer: it may have been done or not. Times are those of the machine's clock,
which is also the engines': all of it is on one machine.
"""

import json
import os
import time
from dataclasses import dataclass, field
from itertools import count


@dataclass(frozen=True)
class Call:
    """A call and what came of it.

    Attributes:
        who: the process that made it.
        do: the verb.
        asked: when it was about to be made.
        facts: what it was about.
        answered: when it had returned or raised; None: the process was killed before it could say so.
        result: what it returned; ``error`` is the name of what it raised.
    """

    who: str
    do: str
    asked: float
    facts: dict = field(default_factory=dict)
    answered: float | None = None
    result: dict | None = None

    @property
    def is_done(self):
        """Whether it was done, for certain."""
        return self.result is not None and "error" not in self.result

    @property
    def is_open(self):
        """Whether nobody knows if it was done: it was never answered, or the store could not be reached any more."""
        return self.result is None or self.result.get("error") in ("EngineUnavailable", "EngineBusy")


class Journal:
    """The journal of one process.

    Args:
        path: where it is.
        is_synced: whether every line is on the disk before anything else is done.
    """

    def __init__(self, path, *, is_synced=True):
        self._is_synced = is_synced
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._numbers = count(1)

    def begin(self, do, **facts):
        """Write down what is about to be done; return what the answer is filed under."""
        number = next(self._numbers)
        self._write({"call": number, "at": time.time(), "do": do, "facts": facts})
        return number

    def end(self, number, **result):
        """Write down what came of it."""
        self._write({"call": number, "at": time.time(), "result": result})

    def _write(self, line):
        os.write(self._file, json.dumps(line).encode() + b"\n")  # one write: it is there whole, or not at all
        if self._is_synced:
            os.fsync(self._file)

    def close(self):
        os.close(self._file)


def read(folder):
    """Return all calls in a folder of journals, in order of when they were asked for."""
    calls = []
    for path in sorted(folder.iterdir()):
        whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
        calls += _calls(path.name, [json.loads(line) for line in whole.splitlines()])
    return sorted(calls, key=lambda call: call.asked)


def _calls(who, lines):
    asked = {line["call"]: line for line in lines if "do" in line}
    answers = {line["call"]: line for line in lines if "result" in line}
    for number, line in asked.items():
        answer = answers.get(number, {"at": None, "result": None})
        yield Call(who, line["do"], line["at"], line["facts"], answer["at"], answer["result"])
