"""Several threads for several parts.  The arrays' work releases the interpreter's lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from .arguments import check_natural

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Part = TypeVar("Part")
Result = TypeVar("Result")


def usable_cores() -> int:
    """The cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def check_threads(wanted: int | None) -> None:
    """Raise :class:`~toktier.errors.OptionError` for a number of threads that makes no sense."""
    check_natural("threads", wanted, 1)


def groups(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    """Consecutive texts of about ``size`` characters together; a longer text is a group of its own."""
    group: list[str] = []
    length = 0
    for text in texts:
        if group and length + len(text) > size:
            yield group
            group, length = [], 0
        group.append(text)
        length += len(text)
    if group:
        yield group


def map_parts(function: Callable[[Part], Result], parts: Sequence[Part], threads: int | None) -> list[Result]:
    """``function`` of each part, in order, on up to ``threads`` threads, or one for each usable core.

    The calling thread takes parts like the others and waits for none that has not begun, so that calls may stand
    in one another, and one that gets no help does all by itself.
    """
    workers = min(len(parts), usable_cores() if threads is None else threads)
    if workers < 2:
        return [function(part) for part in parts]
    left = deque(enumerate(parts))
    results: dict[int, Result] = {}

    def work() -> None:
        try:
            for number, part in _taken(left):
                results[number] = function(part)
        finally:
            left.clear()  # after an error nothing more is begun

    try:
        helpers = _helpers(work, workers - 1)
        if helpers is None:
            left.clear()
            return [function(part) for part in parts]
        work()
        for helper in helpers:
            if not helper.cancel():
                helper.result()
    finally:
        left.clear()  # nor after an interrupt
    return [results[number] for number in range(len(parts))]


def _taken(left: deque[tuple[int, Part]]) -> Iterator[tuple[int, Part]]:
    """What is left, each for one thread only."""
    while left:
        try:
            item = left.popleft()
        except IndexError:  # another thread was faster
            return
        yield item


def _helpers(work: Callable[[], None], count: int) -> list[Future[None]] | None:
    """``work`` on other threads; None if one cannot be had, as while the interpreter shuts down.

    The pool may have kept what it could not start a thread for, and begin it later.
    """
    try:
        return [_pool().submit(work) for _ in range(count)]
    except RuntimeError:
        return None


@cache
def _pool() -> ThreadPoolExecutor:
    """The threads of this process.

    They stay: the C library's allocator keeps memory for each thread, and what new ones of every call leave behind
    grows (0.2 to 0.3 MB for each text of a million characters).
    """
    # late: with the module for logging, which nothing else needs
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(thread_name_prefix="toktier")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
