# SPDX-License-Identifier: MIT
"""What a storm must not have done. Pure: it looks at the journals and at what is left, and returns what is wrong.

Nothing is said that may have another reason. A call that was never answered may have been done or not. Somebody holds a
lock for certain from the moment at which he was told of it until it ends by the engine's clock, or until he is about to
give it up; before and after that he may hold it or not. So two holders at once are only reported if both were certain.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.scenarios.storm_journal import Call

SETTLEMENTS = ("complete", "abandon", "bury")
CLOCK_S = 0.001
"""How exactly times are written down."""


class Fault(NamedTuple):
    """Something that must not be."""

    kind: str
    told: str


class Row(NamedTuple):
    """A message that is in the database."""

    queue: str
    sequence: int
    id: str
    body: str


@dataclass(frozen=True)
class Storm:
    """All there is to know about a storm.

    Attributes:
        calls: what the processes did.
        left: what was in the database when all had stopped.
        drained: what could be received of it afterwards.
        window: how long the queue of unique messages remembers an id, by queue.
    """

    calls: list[Call]
    left: list[Row]
    drained: list[Row]
    window: dict[str, float]


class Copy(NamedTuple):
    """One message in one call that sends."""

    call: Call
    id: str
    body: str
    session: str | None
    sequence: int | None  # None: it was recognised as a duplicate, or nobody knows

    @property
    def queue(self):
        return self.call.facts["queue"]


@dataclass
class Hold:
    """A lock on a message or a session, as long as it was certain."""

    who: str
    subject: object
    token: int
    call: Call
    since: float
    until: float
    count: int = 0
    session_token: int | None = None
    given_up: list[Call] = field(default_factory=list)

    @property
    def ends(self):
        """When it ended at the latest: by the clock, or because its holder was about to give it up."""
        return min([self.until, *(call.asked for call in self.given_up)])


def check(storm):
    """Return what is wrong."""
    facts = Facts(storm)
    rules = (lost, invented, doubled, returned, settled_twice, two_holders, stale, out_of_order, duplicates, miscounted)
    return [fault for rule in (*rules, stuck) for fault in rule(facts)]


class Facts:
    """A storm, put in order."""

    def __init__(self, storm):
        self.storm = storm
        self.by_do = defaultdict(list)
        for call in storm.calls:
            self.by_do[call.do].append(call)
        self.copies = [copy for call in self.by_do["send"] for copy in _copies(call)]
        self.acknowledged = {copy.sequence: copy for copy in self.copies if copy.sequence is not None}
        self.left = {row.sequence: row for row in storm.left}
        self.holds = sorted(_holds(self.by_do["receive"]), key=lambda hold: hold.since)
        self.sessions = sorted(_session_holds(self.by_do["accept"]), key=lambda hold: hold.since)
        self.by_message = _grouped(self.holds)
        self._settlements = defaultdict(list)
        for do in SETTLEMENTS:
            for call in self.by_do[do]:
                self._settlements[call.facts["sequence"]].append(call)
        self._apply_settlements()

    def _apply_settlements(self):
        """Note until when each lock was certain."""
        holds = {(hold.subject, hold.token): hold for hold in self.holds}
        sessions = {(hold.subject, hold.token): hold for hold in self.sessions}
        by_session = defaultdict(list)
        for hold in self.holds:
            by_session[hold.session_token].append(hold)
        for calls in self._settlements.values():
            for call in calls:
                holds[call.facts["sequence"], call.facts["token"]].given_up.append(call)
        for call in self.by_do["renew"]:
            _prolong(holds[call.facts["sequence"], call.facts["token"]], call)
        for call in self.by_do["renew session"]:
            _prolong(sessions[call.facts["session"], call.facts["session_token"]], call)
        for call in self.by_do["release"]:
            sessions[call.facts["session"], call.facts["session_token"]].given_up.append(call)
            for hold in by_session[call.facts["session_token"]]:
                hold.given_up.append(call)

    def seen(self):
        """Return every sight of a message: where it was sent, its number, id and body."""
        for row in self.storm.left:
            yield row.queue.removesuffix("/$dead"), row.sequence, row.id, row.body
        for call in self.by_do["receive"]:
            for each in call.result["messages"] if call.is_done else ():
                yield call.facts["queue"], each["sequence"], each["id"], each["body"]

    def settlements(self, sequence, *verbs):
        """Return the calls that settle a message."""
        return [call for call in self._settlements.get(sequence, ()) if call.do in verbs]


def _copies(call):
    numbers = call.result["sequences"] if call.is_done else [None] * len(call.facts["messages"])
    for (message_id, body, session), number in zip(call.facts["messages"], numbers, strict=True):
        yield Copy(call, message_id, body, session, number)


def _holds(calls):
    for call in calls:
        for each in call.result["messages"] if call.is_done else ():
            token = call.facts.get("session_token")
            yield Hold(
                call.who, each["sequence"], each["token"], call, call.answered, each["until"], each["count"], token
            )


def _session_holds(calls):
    for call in calls:
        if call.is_done and call.result["session"] is not None:
            result = call.result
            yield Hold(call.who, result["session"], result["session_token"], call, call.answered, result["until"])


def _prolong(hold, call):
    """A renewal that was answered shows that the lock had lasted until then, and for how long it lasts."""
    if call.is_done:
        hold.until = max(hold.until, call.result["until"])


def _grouped(holds):
    found = defaultdict(list)
    for hold in holds:
        found[hold.subject].append(hold)
    return dict(found)


# --- the rules


def lost(facts):
    """Everything acknowledged was received, and is there or was completed."""
    for sequence, copy in facts.acknowledged.items():
        if sequence in facts.left:
            continue
        completions = facts.settlements(sequence, "complete")
        if not any(call.is_done or call.is_open for call in completions):
            yield Fault("lost", f"{copy.queue} {sequence} ({copy.id}) was acknowledged to {copy.call.who} and is gone")


def invented(facts):
    """Nothing is there, or arrives, that was not sent like that."""
    sent = {(copy.queue, copy.id, copy.body) for copy in facts.copies}
    for queue, sequence, message_id, body in {*facts.seen()}:
        copy = facts.acknowledged.get(sequence)
        if (queue, message_id, body) not in sent:
            yield Fault("invented", f"{queue} {sequence} ({message_id}) was never sent like that: {body!r}")
        elif copy is not None and (copy.queue, copy.id, copy.body) != (queue, message_id, body):
            yield Fault("invented", f"{queue} {sequence} is {message_id}, and was sent as {copy.id} to {copy.queue}")


def doubled(facts):
    """Nothing is there under two numbers: each body was sent once."""
    numbers = defaultdict(set)
    for copy in facts.copies:
        if copy.sequence is not None:
            numbers[copy.queue, copy.body].add(copy.sequence)
    for queue, sequence, _, body in facts.seen():
        numbers[queue, body].add(sequence)
    for (queue, body), found in numbers.items():
        if len(found) > 1:
            yield Fault("doubled", f"{queue}: {body!r} was sent once and is there as {sorted(found)}")
    for sequence, times in Counter(row.sequence for row in facts.storm.left).items():
        if times > 1:
            yield Fault("doubled", f"{sequence} is in the database {times} times")


def returned(facts):
    """What was completed, or became a dead letter, does not come back."""
    for do in ("complete", "bury"):
        for call in facts.by_do[do]:
            sequence = call.facts["sequence"]
            if not call.is_done:
                continue
            if do == "complete" and sequence in facts.left:
                yield Fault("returned", f"{sequence} was completed by {call.who} and is there")
            for hold in facts.by_message.get(sequence, ()):
                if hold.call.asked > call.answered:
                    yield Fault(
                        "returned", f"{sequence} was settled ({do}) by {call.who}; {hold.who} received it later"
                    )


def settled_twice(facts):
    """One delivery of a message is settled once, and a message is completed or buried once."""
    ends = Counter()
    for do in ("complete", "bury"):
        ends.update(call.facts["sequence"] for call in facts.by_do[do] if call.is_done)
    for sequence, times in ends.items():
        if times > 1:
            yield Fault("settled twice", f"{sequence} was completed or buried {times} times")


def two_holders(facts):
    """Nobody is given what somebody else has for certain."""
    for kind, grouped in (("message", facts.by_message), ("session", _grouped(facts.sessions))):
        for subject, holds in grouped.items():
            for place, one in enumerate(holds):
                for other in holds[place + 1 :]:
                    together = min(one.ends, other.ends) - max(one.since, other.since)
                    if together > CLOCK_S:
                        told = f"{one.who} and {other.who} had {kind} {subject} together for {together:.3f} s"
                        yield Fault("two holders", told)


def stale(facts):
    """Nobody settles with a lock that had been given to somebody else before he asked."""
    for holds in facts.by_message.values():
        for one in holds:
            for other in holds:
                if other.call.asked < one.since:
                    continue  # it was not later
                for call in one.given_up:
                    if call.do != "release" and call.is_done and other.since < call.asked:
                        told = f"{one.who}: {call.do} {one.subject} was done, though {other.who} had received it before"
                        yield Fault("stale", told)


def out_of_order(facts):
    """Of a session, the first message that nobody has settled is delivered first; numbers go with time."""
    sent = defaultdict(list)
    for copy in facts.acknowledged.values():
        if copy.session is not None:
            sent[copy.session].append(copy)
    last = {}
    for copy in sorted(facts.acknowledged.values(), key=lambda copy: copy.call.asked):
        key = (copy.call.who, copy.session)
        if copy.session is not None and copy.sequence <= last.get(key, 0):
            yield Fault("out of order", f"{copy.session}: {copy.call.who} was given {copy.sequence} after {last[key]}")
        last[key] = copy.sequence
    for call in facts.by_do["receive"]:
        if call.is_done and call.result["messages"] and "session" in call.facts:
            yield from _passed_over(facts, call, sent[call.facts["session"]])


def _passed_over(facts, call, copies):
    numbers = [each["sequence"] for each in call.result["messages"]]
    if numbers != sorted(numbers):
        yield Fault("out of order", f"{call.who} received {numbers} of {call.facts['session']}")
    for copy in copies:
        is_earlier = copy.sequence < max(numbers) and copy.call.answered < call.asked
        if is_earlier and copy.sequence not in numbers and not _is_away(facts, copy.sequence, call):
            told = f"{call.who} received {numbers} of {call.facts['session']}, though {copy.sequence} was there"
            yield Fault("out of order", told)


def _is_away(facts, sequence, call):
    """Say whether a message may have been elsewhere: in the same hands, or settled for good."""
    for settlement in facts.settlements(sequence, "complete", "bury"):
        if settlement.asked < call.answered and (settlement.is_done or settlement.is_open):
            return True
    for hold in facts.by_message.get(sequence, ()):
        is_same = hold.session_token == call.facts["session_token"] and hold.since <= call.asked
        backs = [one for one in hold.given_up if one.do == "abandon" and (one.is_done or one.is_open)]
        if is_same and not backs:
            return True
    return False


def duplicates(facts):
    """Of copies with one id within the window one is stored, and it is never none."""
    by_id = defaultdict(list)
    for copy in facts.copies:
        if copy.queue in facts.storm.window:
            by_id[copy.queue, copy.id].append(copy)
    for (queue, message_id), copies in by_id.items():
        window = facts.storm.window[queue]
        stored = [copy for copy in copies if copy.sequence is not None]
        for place, one in enumerate(stored):
            for other in stored[place + 1 :]:
                first, second = sorted((one, other), key=lambda copy: copy.call.asked)
                if second.call.answered - first.call.asked < window - CLOCK_S:
                    told = f"{queue}: {message_id} was stored as {first.sequence} and as {second.sequence}"
                    yield Fault("duplicate", told)
        for copy in copies:
            if copy.call.is_done and copy.sequence is None and not _has_reason(copy, copies, window):
                yield Fault(
                    "swallowed", f"{queue}: {message_id} of {copy.call.who} was the first copy, and is not stored"
                )


def _has_reason(copy, copies, window):
    """Say whether there may have been another copy, stored within the window before this one."""
    for other in copies:
        may_be_stored = other.sequence is not None or other.call.is_open
        ended = float("inf") if other.call.answered is None or other.call.is_open else other.call.answered
        is_near = other.call.asked < copy.call.answered and ended > copy.call.asked - window - CLOCK_S
        if other is not copy and may_be_stored and is_near:
            return True
    return False


def miscounted(facts):
    """Every delivery is counted, and nothing else: but for receives of which nobody knows whether they were done."""
    unknown = defaultdict(list)
    for call in facts.by_do["receive"]:
        if call.is_open:
            unknown[call.facts["queue"]].append(call.asked)
    for sequence, holds in facts.by_message.items():
        counts = [hold.count for hold in sorted(holds, key=lambda hold: hold.count)]
        queue, last = holds[0].call.facts["queue"], max(hold.since for hold in holds)
        most = len(holds) + sum(asked < last for asked in unknown[queue])
        if len(set(counts)) < len(counts) or counts[0] < 1 or counts[-1] > most:
            yield Fault("miscounted", f"{sequence} was received {len(holds)} times and counted {counts}")


def stuck(facts):
    """All that is left can be received, once all locks have ended."""
    left, drained = Counter(facts.storm.left), Counter(facts.storm.drained)
    for row in (left - drained).elements():
        yield Fault("stuck", f"{row.queue} {row.sequence} ({row.id}) is left and cannot be received")
    for row in (drained - left).elements():
        yield Fault("stuck", f"{row.queue} {row.sequence} ({row.id}) was received and was not there before")
