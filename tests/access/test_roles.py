# SPDX-License-Identifier: MIT
"""Each role may do what the one before it may, and a limit to queues is a limit."""

import pytest

from redrive.access import ACTIONS, Principal, Reach, Role, Trail, check
from redrive.errors import Forbidden


def somebody(role=Role.ADMIN, **more):
    return Principal(name="ann", role=role, **more)


def test_each_role_includes_those_before_it():
    order = [Role.VIEWER, Role.OPERATOR, Role.ADMIN]
    for at, role in enumerate(order):
        assert [role.includes(other) for other in order] == [True] * (at + 1) + [False] * (2 - at)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("role", Role)
def test_an_action_is_for_its_role_and_those_above(action, role):
    if role.includes(action.role):
        check(somebody(role), action, None)
    else:
        with pytest.raises(Forbidden, match=f"{action.name} is not allowed: ann is {role.value}, and this needs"):
            check(somebody(role), action, None)


def test_nothing_that_is_called_read_changes_anything():
    for action in ACTIONS.values():
        if action.name.endswith(".read"):
            assert action.trail is Trail.NONE
            assert not action.is_change
        if action.role is Role.VIEWER and action.reach is not Reach.NOTHING:
            assert not action.is_change, action


def test_whoever_is_limited_may_do_it_to_their_queues_only():
    limited = somebody(queues=("orders", "shop.*"))
    for queue in ("orders", "orders/$dead", "shop.eu", "shop."):
        check(limited, ACTIONS["queues.delete"], [queue])
    for queue in ("orders2", "shop", "billing", "order", "orders/eu"):
        with pytest.raises(Forbidden, match="limited to orders, shop"):
            check(limited, ACTIONS["queues.delete"], ["orders", queue])


def test_whoever_is_limited_may_not_do_what_is_about_everything():
    limited = somebody(queues=("orders",))
    with pytest.raises(Forbidden, match="about more than queues"):
        check(limited, ACTIONS["users.write"], None)
    with pytest.raises(Forbidden, match="about more than queues"):
        check(limited, ACTIONS["routes.read"], ["orders"], narrowed=True)
    with pytest.raises(Forbidden, match="about more than queues"):
        check(limited, ACTIONS["queues.read"], None)
    check(limited, ACTIONS["queues.read"], None, narrowed=True)
    check(limited, ACTIONS["own.read"], None)


def test_a_limit_to_nothing_is_not_no_limit():
    with pytest.raises(Forbidden):
        check(somebody(queues=()), ACTIONS["queues.read"], ["orders"])


def test_the_trail_names_who_and_from_where():
    assert somebody(address="10.0.0.7").actor == "ann (10.0.0.7)"
    assert somebody().actor == "ann"
