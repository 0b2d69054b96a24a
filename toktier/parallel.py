"""Several threads for several parts.  The arrays' work releases the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .errors import OptionError

Part = TypeVar("Part")
Result = TypeVar("Result")


def usable_cores() -> int:
    """The cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def thread_count(wanted: int | None) -> int:
    """``wanted``, or one for each usable core."""
    if wanted is None:
        return usable_cores()
    if not isinstance(wanted, int) or wanted < 1:
        raise OptionError(f"threads must be an integer of at least 1, or None, but is {wanted!r}")
    return wanted


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


def map_parts(function: Callable[[Part], Result], parts: Sequence[Part], threads: int) -> list[Result]:
    """``function`` of each part, in order, on up to ``threads`` threads."""
    workers = min(threads, len(parts))
    if workers < 2:
        return [function(part) for part in parts]
    # A pool for this call alone: one that lives on would not survive a fork.
    with ThreadPoolExecutor(workers, thread_name_prefix="toktier") as pool:
        return list(pool.map(function, parts))
