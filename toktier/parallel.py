"""Several threads for several parts.  The arrays' work releases the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from .arguments import check_natural

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
    """``function`` of each part, in order, on up to ``threads`` threads, or one for each usable core."""
    workers = min(len(parts), usable_cores() if threads is None else threads)
    if workers < 2:
        return [function(part) for part in parts]
    from concurrent.futures import (
        ThreadPoolExecutor,  # late: with the module for logging, which nothing else needs
    )

    # A pool for this call alone: one that lives on would not survive a fork.
    with ThreadPoolExecutor(workers, thread_name_prefix="toktier") as pool:
        return list(pool.map(function, parts))
