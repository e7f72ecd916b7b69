# SPDX-License-Identifier: MIT
"""The director of a storm: starts processes, kills and pauses them, and gathers what is known in the end."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from redrive.broker import Complete, dead_letter_queue
from redrive.errors import LockLost, SessionLost
from tests.patience import PATIENCE_S
from tests.scenarios import storm_journal
from tests.scenarios.storm_actors import LOCK_S, QUEUES, SESSIONS, SETTINGS, UNIQUE, WINDOW_S, opened, play
from tests.scenarios.storm_checker import Row, Storm

ACTORS = Path(__file__).with_name("storm_actors.py")
PATH = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ACTORS.parents[2])])
LONGEST_PAUSE_S = 2.2 * LOCK_S


class Director:
    """A database, the processes that use it, their journals, and what they said beside."""

    def __init__(self, site, folder):
        self.site = site
        self.journals, self._said = Path(folder) / "journals", Path(folder) / "said"
        self.journals.mkdir()
        self._said.mkdir()
        self._stop = Path(folder) / "stop"
        self._cast = []
        self._paused = []
        self._started = Counter()
        self.done = Counter()
        self.ends = []

    # --- processes

    def start(self, role, place):
        """Start a process; it is the next of those that have had this role and place."""
        self._started[role, place] += 1
        name = f"{role}{place}.{self._started[role, place]}"
        command = [sys.executable, ACTORS, name, self.site.url, self.journals / name, self._stop]
        with (self._said / name).open("wb") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | {"PYTHONPATH": PATH})
        self._cast.append((role, place, process))

    def kill(self, chance):
        """End a process in the middle of whatever it does, and start its successor."""
        role, place, process = self._cast.pop(chance.randrange(len(self._cast)))
        process.kill()
        self.ends.append((process.wait(timeout=PATIENCE_S), -signal.SIGKILL))
        self._paused = [each for each in self._paused if each[1] is not process]
        self.done["kills"] += 1
        self.start(role, place)

    def pause(self, chance):
        """Stop a process for a while: it keeps what it has, and does not know that time goes on."""
        _, _, process = chance.choice(self._cast)
        if all(process is not other for _, other in self._paused):
            process.send_signal(signal.SIGSTOP)
            self._paused.append((time.monotonic() + chance.uniform(0.05, LONGEST_PAUSE_S), process))
            self.done["pauses"] += 1

    def resume(self, *, all_of_them=False):
        """Let those go on whose pause is over."""
        for ends_at, process in list(self._paused):
            if all_of_them or ends_at <= time.monotonic():
                process.send_signal(signal.SIGCONT)
                self._paused.remove((ends_at, process))

    def stop(self):
        """Have all processes finish."""
        self.resume(all_of_them=True)
        self._stop.touch()
        self.ends += [(process.wait(timeout=45), 0) for _, _, process in self._cast]
        self._cast.clear()

    def clear(self):
        """End whatever still runs."""
        for _, _, process in self._cast:
            process.kill()
            process.wait(timeout=PATIENCE_S)

    def rage(self, kills, pauses, chance):
        """Kill and pause processes at random moments, in a random order."""
        for what in chance.sample([self.kill] * kills + [self.pause] * pauses, kills + pauses):
            until = time.monotonic() + chance.uniform(0.0, 1.2)
            while time.monotonic() < until:
                self.resume()
                time.sleep(0.01)
            what(chance)

    def is_under_way(self):
        """Say whether something has been completed by now."""
        return any(call.do == "complete" for call in storm_journal.read(self.journals))

    # --- what came of it

    def said(self):
        """Return what processes have printed, by their names."""
        told = {path.name: path.read_text() for path in sorted(self._said.iterdir())}
        return {name: text for name, text in told.items() if text}

    def storm(self):
        """Return all that is known when everybody has stopped."""
        left = [Row(*row) for row in self.site.rows()]
        drained = asyncio.run(drain(self.site.url))
        return Storm(storm_journal.read(self.journals), left, drained, {UNIQUE: WINDOW_S})


async def declare(url):
    """Make the queues."""
    broker = await opened(url)
    for queue in QUEUES:
        await broker.declare(queue, **SETTINGS[queue])
    await broker.close()


async def drain(url):
    """Receive and complete all that is left, when all locks have ended; return it."""
    await asyncio.sleep(1.5 * LOCK_S)
    broker = await opened(url)
    found = []
    for queue in (*(each for each in QUEUES if each != SESSIONS), *map(dead_letter_queue, QUEUES)):
        while page := await broker.receive(queue, max_messages=100):
            found += await _done(broker, page)
    while (session := await broker.accept_session(SESSIONS)) is not None:
        with suppress(SessionLost):  # on a slow machine its lock may end, and then it is accepted again
            while page := await session.receive(max_messages=100):
                found += await _done(broker, page)
            await session.release()
    await broker.close()
    return found


async def _done(broker, page):
    """Complete messages and return them; those whose locks have ended meanwhile, as the machine is slow, come again."""
    try:
        await broker.apply(*(Complete(each.lock) for each in page))
    except LockLost:
        return []
    return [Row(each.queue, each.sequence, each.id, each.body.decode()) for each in page]


async def play_in_one_process(site, journals, sabotage, seconds):
    """Let a few actors play on a broken engine without anybody being killed, each with a broker of its own."""
    await declare(site.url)
    ends_at = time.monotonic() + seconds
    names = ["producer-a", "consumer-a", "producer-b", "consumer-b"]
    entries = [storm_journal.Journal(journals / name, is_synced=False) for name in names]
    await asyncio.gather(
        *(
            play(name, site.url, each, lambda: time.monotonic() > ends_at, sabotage)
            for name, each in zip(names, entries, strict=True)
        )
    )
    left = [Row(*row) for row in site.rows()]
    return Storm(storm_journal.read(journals), left, await drain(site.url), {UNIQUE: WINDOW_S})
