"""Records are like frozen dataclasses."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from toktier.records import fields, record, replace


@record
class Point:
    """A place."""

    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        return self.x + self.y


@record
class Other:
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Model:
    x: int
    y: int = 2


GOOD: tuple[tuple[tuple[int, ...], dict[str, int]], ...] = (
    ((1,), {}),
    ((1, 3), {}),
    ((), {"x": 1}),
    ((1,), {"y": 5}),
    ((), {"y": 1, "x": 7}),
)
BAD: tuple[tuple[tuple[int, ...], dict[str, int]], ...] = (
    ((), {}),
    ((1, 2, 3), {}),
    ((), {"y": 1}),
    ((1,), {"x": 1}),
    ((1,), {"z": 1}),
    ((1, 2), {"y": 2}),
)


@pytest.mark.parametrize(("values", "named"), GOOD)
def test_fields_are_what_a_dataclass_makes_of_the_same_arguments(
    values: tuple[int, ...], named: dict[str, int]
) -> None:
    made, expected = Point(*values, **named), Model(*values, **named)
    assert (made.x, made.y, made.sum) == (expected.x, expected.y, expected.x + expected.y)
    assert repr(made) == repr(expected).replace("Model", "Point")


@pytest.mark.parametrize(("values", "named"), BAD)
def test_arguments_that_a_dataclass_refuses_are_refused(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Model(*values, **named)
    with pytest.raises(TypeError, match="Point takes x, y, and was given"):
        Point(*values, **named)


def test_nothing_changes() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match="'x' cannot change"):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del point.x
    with pytest.raises(AttributeError):
        point.z = 3  # type: ignore[attr-defined]
    assert point == Point(1) and not hasattr(point, "__dict__")


def test_equal_are_those_of_one_class_with_equal_fields() -> None:
    assert Point(1) == Point(1, 2) != Point(1, 3)
    assert Point(1, 2) != Other(1, 2) and Point(1, 2) != (1, 2)
    assert hash(Point(1)) == hash(Point(1, 2)) and len({Point(1), Point(1, 2), Other(1, 2)}) == 2


def test_arrays_are_compared_as_a_whole() -> None:
    one, same, other = Point(np.arange(3)), Point(np.arange(3)), Point(np.array([0, 1, 3]))  # type: ignore[arg-type]
    assert one == same and one != other
    assert one != Point(np.arange(2)) and one != Point(0) and Point(0) != one  # type: ignore[arg-type]


def test_the_signature_shows_the_fields() -> None:
    parameters = inspect.signature(Point).parameters
    assert [*parameters] == ["x", "y"]
    assert (parameters["x"].default, parameters["y"].default) == (inspect.Parameter.empty, 2)


def test_copies() -> None:
    point = Point(1, 5)
    assert pickle.loads(pickle.dumps(point)) == copy.copy(point) == copy.deepcopy(point) == point
    assert replace(point, x=4) == Point(4, 5) and replace(Model(1), x=4) == Model(4)
    assert fields(point) == fields(Model(1)) == ("x", "y")
    with pytest.raises(TypeError):
        replace(point, z=1)


def test_patterns_match_by_position() -> None:
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)
