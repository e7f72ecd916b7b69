# SPDX-License-Identifier: MIT
"""The ack tree, by example and against a model that looks at all leaves again after every call."""

import gc
import random
from collections.abc import Iterable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule

from redrive.errors import InvalidSetting, UsageError
from redrive.routes.ack_tree import Ack, AckTree, Instructions, Leg, LegState, Nack, Reason

MODES = ("wait_all", "fail_fast")


def names(legs: Iterable[Leg]) -> str:
    return " ".join(map(str, legs))


def summary(done: Instructions) -> str:
    """Return instructions as a line: ``run b:0 b:1``, ``cancel c / nack b``, ``late``; nothing to do: ``-``."""
    parts = [f"run {names(done.run)}"] if done.run else []
    parts += [f"cancel {names(done.cancel)}"] if done.cancel else []
    if done.answer is not None:
        reasons = done.answer.reasons if isinstance(done.answer, Nack) else ()
        parts.append(f"nack {names(reason.leg for reason in reasons)}" if reasons else "ack")
    parts += [done.ignored] if done.ignored else []
    return " / ".join(parts) or "-"


def play(tree: AckTree, script: str) -> list[str]:
    """Make the calls of a script, such as ``split b 2, ack b:0, nack b:1``, and return what each of them returned."""
    legs = {str(leg): leg for leg in tree.legs.values()}
    results = []
    for step in script.split(", "):
        call, name, *parts = step.split()
        if call == "add":
            done = tree.add(name)
        elif call == "split":
            done = tree.split(legs[name], int(parts[0]))
        elif call == "ack":
            done = tree.ack(legs[name])
        else:
            done = getattr(tree, call)(legs[name], f"{name} is down")
        legs |= {str(leg): leg for leg in done.run}
        results.append(summary(done))
    return results


# --- the answer -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("routes", "script", "results"),
    [
        ("a", "ack a", ["ack"]),
        ("a", "nack a", ["nack a"]),
        ("a b c", "ack c, ack a, ack b", ["-", "-", "ack"]),
        ("a b c", "nack b, ack a, ack c", ["-", "-", "nack b"]),
        ("a b c", "nack c, ack b, nack a", ["-", "-", "nack c a"]),
        ("a b", "cancel a, ack b", ["cancel a", "nack a"]),
        ("a b", "ack b, cancel a", ["-", "cancel a / nack a"]),
        ("a b", "cancel a, nack b", ["cancel a", "nack a b"]),
        ("a b", "split b 2, ack a, ack b:1, ack b:0", ["run b:0 b:1", "-", "-", "ack"]),
        ("a b", "split b 2, ack b:0, ack b:1, ack a", ["run b:0 b:1", "-", "-", "ack"]),
        ("a b", "split b 2, nack b:0, ack a, ack b:1", ["run b:0 b:1", "-", "-", "nack b:0"]),
        ("a", "split a 1, split a:0 2, ack a:0:1, ack a:0:0", ["run a:0", "run a:0:0 a:0:1", "-", "ack"]),
        ("a", "split a 2, split a:1 1, nack a:1:0, nack a:0", ["run a:0 a:1", "run a:1:0", "-", "nack a:1:0 a:0"]),
        ("a", "split a 0", ["ack"]),
        ("a b", "split a 0, nack b", ["-", "nack b"]),
        ("a", "split a 2, split a:0 0, ack a:1", ["run a:0 a:1", "-", "ack"]),
        ("a", "add b, ack a, ack b", ["run b", "-", "ack"]),
        ("a", "split a 1, add b, ack a:0, nack b", ["run a:0", "run b", "-", "nack b"]),
    ],
)
def test_wait_all_answers_when_every_leg_is_settled(routes, script, results):
    assert play(AckTree(routes.split()), script) == results


@pytest.mark.parametrize(
    ("routes", "script", "results"),
    [
        ("a", "ack a", ["ack"]),
        ("a", "nack a", ["nack a"]),
        ("a b", "ack b, ack a", ["-", "ack"]),
        ("a b c", "nack b, ack a, nack c", ["cancel a c / nack b", "late", "late"]),
        ("a b c", "ack a, nack b, ack a, ack c", ["-", "cancel c / nack b", "repeated", "late"]),
        ("a b", "ack a, nack b", ["-", "nack b"]),
        ("a b c", "cancel a, ack b", ["cancel a b c / nack a", "late"]),
        ("a b", "split b 3, ack b:1, nack b:0", ["run b:0 b:1 b:2", "-", "cancel a b:2 / nack b:0"]),
        ("a b", "split b 2, nack a, split b:0 2", ["run b:0 b:1", "cancel b:0 b:1 / nack a", "late"]),
        ("a b", "split a 0, ack b", ["-", "ack"]),
        ("a", "add b, nack a", ["run b", "cancel b / nack a"]),
    ],
)
def test_fail_fast_answers_the_first_nack_and_cancels_what_is_unsettled(routes, script, results):
    assert play(AckTree(routes.split(), on_nack="fail_fast"), script) == results


def test_a_tree_waits_for_all_unless_it_should_fail_fast():
    tree = AckTree(["a", "b"])
    assert tree.nack(tree.legs["a"], "down") == Instructions()


def test_a_nack_has_the_reason_of_each_leg():
    tree = AckTree(["a", "b", "c"])
    a, b, c = tree.legs.values()
    tree.nack(c, "connection refused")
    tree.ack(a)
    done = tree.cancel(b, "no answer for 30 s")
    assert done.answer == Nack((Reason(c, "connection refused"), Reason(b, "no answer for 30 s")))


@pytest.mark.parametrize("on_nack", MODES)
def test_the_answer_can_be_looked_up_afterwards(on_nack):
    tree = AckTree(["a", "b"], on_nack=on_nack)
    play(tree, "ack a")
    assert tree.answer is None
    done = tree.ack(tree.legs["b"])
    assert tree.answer is done.answer
    assert tree.answer == Ack()


# --- what each call does, by the state of its leg ---------------------------------------------------------------------


def leg_in(state: LegState) -> tuple[AckTree, Leg]:
    """Return a leg in a state, and its tree, which waits for another leg."""
    tree = AckTree(["it", "other"])
    call = {
        LegState.ACKED: "ack it",
        LegState.NACKED: "nack it",
        LegState.CANCELLED: "cancel it",
        LegState.SPLIT: "split it 2",
    }
    if state in call:
        play(tree, call[state])
    leg = tree.legs["it"]
    assert leg.state is state
    return tree, leg


@pytest.mark.parametrize(
    ("call", "result", "after"),
    [
        ("ack it", "-", "acked"),
        ("nack it", "-", "nacked"),
        ("cancel it", "cancel it", "cancelled"),
        ("split it 1", "run it:0", "split"),
        ("split it 0", "-", "acked"),
    ],
)
def test_an_unsettled_leg_becomes_what_is_reported(call, result, after):
    tree, leg = leg_in(LegState.UNSETTLED)
    assert play(tree, call) == [result]
    assert leg.state is LegState(after)
    assert (tree.late, tree.repeated) == (0, 0)


@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize(
    ("state", "call", "result"),
    [
        ("acked", "ack it", "repeated"),
        ("acked", "nack it", "repeated"),
        ("acked", "cancel it", "repeated"),
        ("nacked", "ack it", "repeated"),
        ("nacked", "nack it", "repeated"),
        ("nacked", "cancel it", "repeated"),
        ("cancelled", "ack it", "late"),
        ("cancelled", "nack it", "late"),
        ("cancelled", "cancel it", "repeated"),
        ("cancelled", "split it 2", "late"),
        ("cancelled", "split it 0", "late"),
    ],
)
def test_a_report_of_a_settled_leg_is_ignored_and_counted(state, call, result, is_answered):
    tree, leg = leg_in(LegState(state))
    if is_answered:
        play(tree, "ack other")
    before = (tree.unsettled(), tree.delivered(), tree.answer, leg.state)
    assert play(tree, call) == [result]
    assert (tree.unsettled(), tree.delivered(), tree.answer, leg.state) == before
    assert (tree.late, tree.repeated) == (result == "late", result == "repeated")


@pytest.mark.parametrize(
    ("state", "call", "problem"),
    [
        ("acked", "split it 2", "leg it was acked before; split a leg once, and settle it last"),
        ("acked", "split it 0", "leg it was acked before; split a leg once, and settle it last"),
        ("nacked", "split it 2", "leg it was nacked before; split a leg once, and settle it last"),
        ("split", "split it 2", "leg it was split before; split a leg once, and settle it last"),
        ("split", "split it 0", "leg it was split before; split a leg once, and settle it last"),
        ("split", "ack it", "leg it was split; settle its children"),
        ("split", "nack it", "leg it was split; settle its children"),
        ("split", "cancel it", "leg it was split; settle its children"),
    ],
)
def test_a_call_that_is_always_a_mistake_is_an_error_and_changes_nothing(state, call, problem):
    tree, leg = leg_in(LegState(state))
    before = (tree.unsettled(), tree.delivered(), tree.late, tree.repeated, leg.state)
    with pytest.raises(UsageError) as raised:
        play(tree, call)
    assert str(raised.value) == problem
    assert (tree.unsettled(), tree.delivered(), tree.late, tree.repeated, leg.state) == before


def test_a_split_leg_stays_split_when_its_children_are_settled():
    tree = AckTree(["a", "b"])
    play(tree, "split a 1")
    tree.ack(tree.unsettled()[1])
    with pytest.raises(UsageError, match="settle its children"):
        tree.ack(tree.legs["a"])


def test_every_ignored_report_is_counted():
    tree = AckTree(["a", "b"], on_nack="fail_fast")
    assert play(tree, "nack a, ack b, nack b, nack a, cancel b") == [
        "cancel b / nack a",
        "late",
        "late",
        "repeated",
        "repeated",
    ]
    assert (tree.late, tree.repeated) == (2, 2)


@pytest.mark.parametrize(("on_nack", "end"), [("wait_all", "ack a"), ("wait_all", "nack a"), ("fail_fast", "nack a")])
def test_a_leg_cannot_be_added_after_the_answer(on_nack, end):
    tree = AckTree(["a"], on_nack=on_nack)
    play(tree, end)
    with pytest.raises(UsageError) as raised:
        tree.add("b")
    assert str(raised.value) == "the source has its answer; add route 'b' before the last leg is settled"
    assert list(tree.legs) == ["a"]
    assert tree.unsettled() == ()


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("routes", [[], (), "billing", "", iter([])])
def test_a_tree_needs_a_list_of_routes(routes):
    with pytest.raises(InvalidSetting, match="must be a list of names, at least one"):
        AckTree(routes)


@pytest.mark.parametrize("route", ["", None, 7])
def test_a_route_has_a_name(route):
    with pytest.raises(InvalidSetting, match="must be the name of a route"):
        AckTree(["a", route])


def test_a_route_has_one_leg():
    with pytest.raises(InvalidSetting, match="must be a route that has no leg"):
        AckTree(["a", "b", "a"])
    tree = AckTree(["a"])
    with pytest.raises(InvalidSetting, match="must be a route that has no leg"):
        tree.add("a")
    assert tree.unsettled() == (tree.legs["a"],)


@pytest.mark.parametrize("on_nack", ["", "fail-fast", None])
def test_on_nack_is_one_of_two(on_nack):
    with pytest.raises(InvalidSetting, match="must be 'wait_all' or 'fail_fast'"):
        AckTree(["a"], on_nack=on_nack)


@pytest.mark.parametrize("reason", ["", None, 404])
@pytest.mark.parametrize("call", ["nack", "cancel"])
def test_a_leg_is_given_up_for_a_reason(call, reason):
    tree = AckTree(["a"], on_nack="fail_fast")
    with pytest.raises(InvalidSetting, match="must be a text that says why"):
        getattr(tree, call)(tree.legs["a"], reason)
    assert tree.unsettled() == (tree.legs["a"],)
    assert tree.answer is None


@pytest.mark.parametrize("parts", [-1, 1.5, True, None, "2"])
def test_parts_are_a_whole_number(parts):
    tree = AckTree(["a"])
    with pytest.raises(InvalidSetting, match="parts"):
        tree.split(tree.legs["a"], parts)
    assert tree.unsettled() == (tree.legs["a"],)


CALLS = {
    "ack": lambda tree, leg: tree.ack(leg),
    "nack": lambda tree, leg: tree.nack(leg, "down"),
    "cancel": lambda tree, leg: tree.cancel(leg, "over"),
    "split": lambda tree, leg: tree.split(leg, 2),
}


@pytest.mark.parametrize("before", ["", "ack a", "cancel a", "split a 2"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_leg_of_another_tree_is_refused(call, before):
    tree, other = AckTree(["a"]), AckTree(["a"])
    if before:
        play(other, before)
    with pytest.raises(InvalidSetting, match="must be a leg of this tree"):
        call(tree, other.legs["a"])
    assert tree.unsettled() == (tree.legs["a"],)
    assert (tree.late, tree.repeated, tree.answer) == (0, 0, None)


def test_a_name_is_not_a_leg():
    with pytest.raises(InvalidSetting, match="must be a leg of this tree"):
        AckTree(["a"]).ack("a")


def test_a_leg_is_read_only():
    leg = AckTree(["a"]).legs["a"]
    for name in ("route", "path", "state"):
        with pytest.raises(AttributeError):
            setattr(leg, name, None)
    with pytest.raises(AttributeError):
        leg.other = None


def test_the_legs_of_a_tree_are_read_only():
    with pytest.raises(TypeError):
        AckTree(["a"]).legs["b"] = None


def test_a_leg_says_which_one_it_is():
    tree = AckTree(["a", "b"])
    assert [(leg.route, leg.path) for leg in tree.legs.values()] == [("a", ()), ("b", ())]
    first, second = tree.split(tree.legs["b"], 2).run
    (below,) = tree.split(second, 1).run
    assert [(leg.route, leg.path) for leg in (first, second, below)] == [("b", (0,)), ("b", (1,)), ("b", (1, 0))]
    assert [repr(leg) for leg in (first, second, below)] == [
        "<Leg b:0, unsettled>",
        "<Leg b:1, split>",
        "<Leg b:1:0, unsettled>",
    ]


# --- what was delivered -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_nack", "script", "delivered"),
    [
        ("wait_all", "nack a", ""),
        ("wait_all", "ack a", "a"),
        ("wait_all", "ack a, nack b", "a"),
        ("wait_all", "ack a, ack b", "a b"),
        ("wait_all", "cancel a, ack b", "b"),
        ("wait_all", "cancel a, ack a", ""),
        ("wait_all", "split a 0", "a"),
        ("wait_all", "split a 3, ack a:2, ack a:0", "a:0 a:2"),
        ("wait_all", "split a 3, ack a:2, ack a:0, nack a:1", "a:0 a:2"),
        ("wait_all", "split a 3, ack a:2, ack a:0, ack a:1", "a"),
        ("wait_all", "split a 3, nack a:2, cancel a:0, nack a:1", ""),
        ("wait_all", "split a 2, split a:0 2, ack a:0:1, ack a:0:0", "a:0"),
        ("wait_all", "split a 2, split a:0 2, ack a:0:1, ack a:0:0, nack a:1", "a:0"),
        ("wait_all", "split a 2, split a:0 2, ack a:0:1, nack a:0:0, ack a:1", "a:0:1 a:1"),
        ("wait_all", "split a 2, split a:0 2, ack a:0:1, ack a:0:0, ack a:1, ack b", "a b"),
        ("fail_fast", "split a 3, ack a:2, nack a:1", "a:2"),
        ("fail_fast", "split a 3, ack a:2, nack a:1, ack a:0, ack b", "a:2"),
        ("fail_fast", "split a 2, split b 1, ack a:0, ack b:0, nack a:1", "a:0 b"),
    ],
)
def test_what_was_acknowledged_is_left_out_of_a_replay(on_nack, script, delivered):
    tree = AckTree(["a", "b"], on_nack=on_nack)
    play(tree, script)
    assert sorted(map(str, tree.delivered())) == delivered.split()


# --- size -------------------------------------------------------------------------------------------------------------

LEVELS = 10_000


def staircase(tree: AckTree, leg: Leg) -> Leg:
    """Split a leg, acknowledge one child, split the other, and so on; return the last."""
    for _ in range(LEVELS):
        leg, done = tree.split(leg, 2).run
        tree.ack(done)
    return leg


@pytest.mark.parametrize("on_nack", MODES)
def test_ten_thousand_levels_do_not_overflow_the_stack(on_nack):
    tree = AckTree(["a", "b"], on_nack=on_nack)
    deepest = staircase(tree, tree.legs["a"])
    assert deepest.path == (0,) * LEVELS
    assert repr(deepest) == f"<Leg a{':0' * LEVELS}, unsettled>"
    assert len(tree.delivered()) == LEVELS
    tree.ack(deepest)
    assert tree.delivered() == (tree.legs["a"],)
    assert tree.ack(tree.legs["b"]).answer == Ack()


@pytest.mark.parametrize("on_nack", MODES)
def test_a_nack_ten_thousand_levels_down_is_answered(on_nack):
    tree = AckTree(["a"], on_nack=on_nack)
    deepest = staircase(tree, tree.legs["a"])
    assert tree.nack(deepest, "down").answer == Nack((Reason(deepest, "down"),))
    delivered = tree.delivered()
    assert len(delivered) == LEVELS
    assert {leg.path[-1] for leg in delivered[:10]} == {1}


@pytest.mark.torture
def test_a_million_settles_take_linear_time():
    # No clock: what looks at all legs at every settle would take hours, and the time limit of all tests ends it.
    tree = AckTree(["a"])
    legs = tree.split(tree.legs["a"], 1_000_000).run
    from_both_ends = (leg for pair in zip(legs[:500_000], reversed(legs[500_000:]), strict=True) for leg in pair)
    answers = [done.answer for done in map(tree.ack, from_both_ends) if done.answer]
    assert answers == [Ack()]
    assert tree.delivered() == (tree.legs["a"],)


def test_a_nack_cancels_a_hundred_thousand_legs_at_once():
    tree = AckTree(["a"], on_nack="fail_fast")
    legs = tree.split(tree.legs["a"], 100_000).run
    for leg in legs[:1_000]:
        tree.ack(leg)
    done = tree.nack(legs[-1], "down")
    assert done == Instructions(cancel=legs[1_000:-1], answer=Nack((Reason(legs[-1], "down"),)))
    assert {tree.ack(leg) for leg in done.cancel} == {Instructions(ignored="late")}
    assert tree.late == len(done.cancel)
    assert len(tree.delivered()) == 1_000


def legs_in_memory() -> int:
    return sum(type(found) is Leg for found in gc.get_objects())


def test_the_memory_of_settled_children_is_freed():
    gc.collect()
    before = legs_in_memory()
    tree = AckTree(["a"])
    for child in tree.split(tree.legs["a"], 10).run[1:]:
        for below in tree.split(child, 1_000).run:
            tree.ack(below)
    del child, below
    assert legs_in_memory() - before == 1 + 10
    assert len(tree.delivered()) == 9
    assert tree.ack(*tree.unsettled()).answer == Ack()
    assert legs_in_memory() - before == 1


@pytest.mark.parametrize("script", ["ack a, ack b", "split a 2, ack a:0, nack a:1", "ack a", "split a 1, cancel b"])
@pytest.mark.parametrize("on_nack", MODES)
def test_a_tree_is_freed_without_the_garbage_collector(on_nack, script):
    gc.collect()
    before = legs_in_memory()
    gc.disable()
    try:
        play(AckTree(["a", "b"], on_nack=on_nack), script)
        assert legs_in_memory() == before
    finally:
        gc.enable()


# --- against a model --------------------------------------------------------------------------------------------------


class Node:
    """A leg, as plainly as possible."""

    def __init__(self, name):
        self.name, self.state, self.children = name, "unsettled", []


class Model:
    """What an ack tree is: a list of all legs ever, looked at as a whole after every call."""

    def __init__(self, on_nack):
        self.on_nack = on_nack
        self.routes, self.nodes, self.refused = [], [], []

    def add(self, name):
        self.routes.append(Node(name))
        self.nodes.append(self.routes[-1])
        return f"run {name}"

    def unsettled(self):
        return [node for node in self.nodes if node.state == "unsettled"]

    def answer(self):
        if self.unsettled() and not (self.refused and self.on_nack == "fail_fast"):
            return None
        return "nack " + " ".join(self.refused) if self.refused else "ack"

    def delivered(self, nodes=None):
        found = []
        for node in self.routes if nodes is None else nodes:
            found += [node.name] if self.is_done(node) else self.delivered(node.children)
        return found

    def is_done(self, node):
        if node.state == "split":
            return all(self.is_done(child) for child in node.children)
        return node.state == "acked"

    def report(self, node, call, parts=0):
        """Return what a call returns; None: an error."""
        if node.state == "split" or (node.state in ("acked", "nacked") and call == "split"):
            return None
        if node.state != "unsettled":
            return "late" if node.state == "cancelled" and call != "cancel" else "repeated"
        if call == "split" and parts:
            node.state = "split"
            node.children = [Node(f"{node.name}:{index}") for index in range(parts)]
            self.nodes += node.children
            return "run " + " ".join(child.name for child in node.children)
        node.state = {"nack": "nacked", "cancel": "cancelled"}.get(call, "acked")
        return self.settled(node)

    def settled(self, node):
        cancelled = [node] if node.state == "cancelled" else []
        if node.state != "acked":
            self.refused.append(node.name)
        answer = self.answer()
        if answer:
            cancelled += self.unsettled()
        for other in cancelled:
            other.state = "cancelled"
        parts = ["cancel " + " ".join(other.name for other in cancelled)] if cancelled else []
        return " / ".join([*parts, *([answer] if answer else [])]) or "-"


class AckTreeAgainstModel(RuleBasedStateMachine):
    """Drives a tree and its model with the same calls, for legs in any state, in any order."""

    legs = Bundle("legs")

    @initialize(target=legs, routes=st.integers(1, 4), on_nack=st.sampled_from(MODES))
    def start(self, routes, on_nack):
        self.tree = AckTree([f"r{number}" for number in range(routes)], on_nack=on_nack)
        self.model = Model(on_nack)
        for name in self.tree.legs:
            self.model.add(name)
        self.answers, self.late, self.repeated = [], 0, 0
        return multiple(*zip(self.tree.legs.values(), self.model.routes, strict=True))

    @rule(target=legs)
    def add(self):
        name = f"r{len(self.tree.legs)}"
        if self.answers:
            with pytest.raises(UsageError):
                self.tree.add(name)
            return multiple()
        done = self.tree.add(name)
        assert summary(done) == self.model.add(name)
        return multiple((*done.run, self.model.routes[-1]))

    @rule(both=legs)
    def ack(self, both):
        self.call("ack", both)

    @rule(both=legs)
    def nack(self, both):
        self.call("nack", both, "down")

    @rule(both=legs)
    def cancel(self, both):
        self.call("cancel", both, "over")

    @rule(target=legs, both=legs, parts=st.integers(0, 4))
    def split(self, both, parts):
        _, node = both
        return multiple(*zip(self.call("split", both, parts), node.children, strict=False))

    @precondition(lambda self: not self.answers)
    @rule(seed=st.integers(0, 1_000), acks=st.sampled_from([0.5, 0.9, 1.0]))
    def settle_all(self, seed, acks):
        chance = random.Random(seed)
        while left := self.model.unsettled():
            node = chance.choice(left)
            (leg,) = (leg for leg in self.tree.unsettled() if str(leg) == node.name)
            if chance.random() < acks:
                self.call("ack", (leg, node))
            else:
                self.call("nack", (leg, node), "down")
        assert len(self.answers) == 1

    def call(self, name, both, *argument):
        leg, node = both
        expected = self.model.report(node, name, *(argument if name == "split" else ()))
        if expected is None:
            with pytest.raises(UsageError):
                getattr(self.tree, name)(leg, *argument)
            return ()
        done = getattr(self.tree, name)(leg, *argument)
        assert summary(done) == expected
        self.answers += [done.answer] if done.answer is not None else []
        self.late += done.ignored == "late"
        self.repeated += done.ignored == "repeated"
        return done.run

    @invariant()
    def the_source_gets_one_answer_at_its_time(self):
        assert len(self.answers) == (self.model.answer() is not None)
        assert self.answers == [answer for answer in [self.tree.answer] if answer is not None]

    @invariant()
    def an_ack_means_that_every_leaf_was_acknowledged(self):
        states = {node.state for node in self.model.nodes}
        assert (self.answers == [Ack()]) == (states <= {"acked", "split"})

    @invariant()
    def both_know_the_same(self):
        assert [str(leg) for leg in self.tree.unsettled()] == [node.name for node in self.model.unsettled()]
        assert sorted(map(str, self.tree.delivered())) == sorted(self.model.delivered())
        assert (self.tree.late, self.tree.repeated) == (self.late, self.repeated)
        assert [leg.state.value for leg in self.tree.legs.values()] == [node.state for node in self.model.routes]


TestAckTreeAgainstModel = AckTreeAgainstModel.TestCase
