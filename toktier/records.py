"""Frozen classes of named fields that are quick to import.

They are written like frozen dataclasses with slots, and behave like them.  But the standard library writes the
source code of six methods for every such class and compiles it: half of what loading a tokenizer took besides
numpy.  Here all classes share their methods.  Modules that loading does not import use ``dataclasses``.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, Signature, get_annotations
from typing import Any, NoReturn, TypeVar, dataclass_transform

_Class = TypeVar("_Class")
_Record = TypeVar("_Record")


@dataclass_transform(frozen_default=True)
def record(cls: type[_Class]) -> type[_Class]:
    """Make a class a record: its annotations are the fields, and values given to them in its body are defaults."""
    names = tuple(get_annotations(cls))
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    defaults = {name: body.pop(name) for name in names if name in body}
    last = tuple(defaults.values())  # they belong to the last fields, as everywhere in Python
    tails = {len(names) - count: last[len(last) - count :] for count in range(len(last) + 1)}
    setters: list[Any] = []
    own = {"_defaults": defaults, "_tails": tails, "_setters": setters}
    make: Any = type(cls)
    made: type[_Class] = make(
        cls.__name__, cls.__bases__, _METHODS | body | {"__slots__": names, "__match_args__": names} | own
    )
    made.__qualname__ = cls.__qualname__
    setters += [vars(made)[name].__set__ for name in names]
    return made


def fields(record: Any) -> tuple[str, ...]:
    """The names of the fields of a record, or a dataclass."""
    names: tuple[str, ...] = record.__match_args__
    return names


def replace(record: _Record, **changes: Any) -> _Record:
    """A copy of a record, or a dataclass, with some fields changed."""
    names = fields(record)
    if not changes.keys() <= {*names}:
        raise TypeError(f"{type(record).__name__} has the fields {', '.join(names)}, not {', '.join(changes)}")
    return type(record)(*[changes[name] if name in changes else getattr(record, name) for name in names])


# --- what records share -------------------------------------------------------


def _init(self: Any, *values: Any, **named: Any) -> None:
    tail = None if named else self._tails.get(len(values))
    values = _in_order(self, values, named) if tail is None else values + tail
    for put, value in zip(self._setters, values, strict=True):
        put(self, value)


def _in_order(self: Any, values: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """One value for each field, of those given and the defaults."""
    names = fields(self)
    rest = names[len(values) :]
    found = self._defaults | named
    if len(values) > len(names) or not named.keys() <= {*rest} <= found.keys():
        given = [*map(repr, values), *(f"{name}={value!r}" for name, value in named.items())]
        raise TypeError(f"{type(self).__name__} takes {', '.join(names)}, and was given {', '.join(given)}")
    return (*values, *[found[name] for name in rest])


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in fields(self)])


def _repr(self: Any) -> str:
    values = [f"{name}={value!r}" for name, value in zip(fields(self), _values(self), strict=True)]
    return f"{type(self).__qualname__}({', '.join(values)})"


def _eq(self: Any, other: object) -> bool:
    return all(map(_equal, _values(self), _values(other))) if type(other) is type(self) else NotImplemented


def _equal(one: Any, other: Any) -> bool:
    """Arrays are equal as a whole, or not."""
    shape, other_shape = getattr(one, "shape", None), getattr(other, "shape", None)
    if shape is None and other_shape is None:
        return bool(one == other)
    return bool(shape == other_shape and (one == other).all())


def _hash(self: Any) -> int:
    return hash(_values(self))


def _reduce(self: Any) -> tuple[Any, ...]:
    return type(self), _values(self)


def _refuse(self: Any, name: str, value: Any = None) -> NoReturn:
    raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot change")


class _Signature:
    """What ``inspect`` shows of a record's class: its fields."""

    def __get__(self, instance: object, owner: Any) -> Signature:
        types = get_annotations(owner)
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.POSITIONAL_OR_KEYWORD,
                    default=owner._defaults.get(name, Parameter.empty),
                    annotation=types.get(name, Parameter.empty),
                )
                for name in fields(owner)
            ]
        )


_METHODS = {
    "__signature__": _Signature(),
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__reduce__": _reduce,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
}
