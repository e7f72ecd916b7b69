# SPDX-License-Identifier: MIT
"""Immutable values: equal by their fields, printed as their constructor call, never changed."""

import copy
import pickle

import pytest

from redrive.value import Value


class Point(Value):
    __slots__ = ("x", "y")

    def __init__(self, x, y=0):
        if x is None:
            raise ValueError("x is missing")
        self._fill(x, y)


class Pixel(Value):
    __slots__ = ("x", "y")

    def __init__(self, x, y=0):
        self._fill(x, y)


class Origin(Value):
    __slots__ = ()


class Tagged(Point):
    """A subclass that declares no slots of its own has a dictionary."""

    def __init__(self, x, y=0):
        super().__init__(x, y)
        object.__setattr__(self, "tag", f"{x}/{y}")


class Loose(Value):
    """Has nothing but a dictionary."""

    def __init__(self):
        object.__setattr__(self, "tag", "loose")


def test_values_with_equal_fields_are_equal_and_hash_alike():
    assert Point(1, 2) == Point(1, 2)
    assert hash(Point(1, 2)) == hash(Point(1, 2))
    assert len({Point(1, 2), Point(1, 2), Point(2, 1)}) == 2


def test_values_with_different_fields_differ():
    assert Point(1, 2) != Point(1, 3)


def test_values_of_different_classes_differ():
    assert Point(1, 2) != Pixel(1, 2)
    assert hash(Point(1, 2)) != hash(Pixel(1, 2))
    assert Point(1, 2) != (1, 2)


def test_value_compares_with_whoever_knows_how():
    class Anything:
        __hash__ = None

        def __eq__(self, other):
            return True

    assert Point(1, 2) == Anything()


def test_value_prints_as_its_constructor_call():
    assert repr(Point(1, "two")) == "Point(x=1, y='two')"
    assert repr(Origin()) == "Origin()"


def test_value_refuses_assignment_and_names_replace():
    point = Point(1, 2)
    with pytest.raises(AttributeError, match=r"Point never changes; build another one with \.replace\(x=\.\.\.\)"):
        point.x = 3
    assert point.x == 1


def test_value_refuses_a_new_attribute():
    with pytest.raises(AttributeError, match="Point never changes"):
        Point(1).z = 3


def test_value_refuses_deletion():
    point = Point(1, 2)
    with pytest.raises(AttributeError, match="Point never changes; y stays"):
        del point.y
    assert point.y == 2


def test_replace_returns_a_changed_copy_and_leaves_the_original():
    point = Point(1, 2)
    assert point.replace(y=5) == Point(1, 5)
    assert point == Point(1, 2)
    assert point.replace() == point


def test_replace_checks_like_the_constructor():
    with pytest.raises(ValueError, match="x is missing"):
        Point(1).replace(x=None)


def test_replace_refuses_an_unknown_field():
    with pytest.raises(TypeError, match="'z'"):
        Point(1).replace(z=3)


def test_value_matches_by_position_in_the_order_of_its_constructor():
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_fill_refuses_a_wrong_number_of_fields():
    class Short(Value):
        __slots__ = ("x", "y")

        def __init__(self):
            self._fill(1)

    with pytest.raises(ValueError, match="zip"):
        Short()


def pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("value", [Point(1, [2]), Origin(), Tagged(1, 2), Loose()], ids=repr)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_value_survives_copy_and_pickle(value, copied):
    assert copied(value) == value
    assert getattr(copied(value), "tag", None) == getattr(value, "tag", None)
    with pytest.raises(AttributeError, match="never changes"):
        copied(value).x = 3
