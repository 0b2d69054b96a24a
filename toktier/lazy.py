"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):
    """What ``functools.cached_property`` is from Python 3.12 on; before that it holds a lock.

    There is one lock for a property of all objects, and a fork while another thread holds it leaves it locked in
    the child for ever.  Here two threads may compute a value at the same time; the first one counts for both.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> lazy[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Value: ...

    def __get__(self, instance: object | None, owner: type[Any]) -> lazy[Value] | Value:
        if instance is None:
            return self
        found: Value = vars(instance).setdefault(self._name, self._compute(instance))
        return found
