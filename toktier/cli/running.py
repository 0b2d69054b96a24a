"""Several inputs at once, results in order; and a bar on the terminal when that takes long."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, TypeVar

from .reading import STANDARD_INPUT

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Result = TypeVar("Result")

_POLL = 0.1  # seconds
_BAR_AFTER = 1.0  # seconds; shorter work needs no bar


def in_order(
    work: Callable[[str], Result], names: Sequence[str], jobs: int, bar: Bar
) -> Iterator[tuple[str, Future[Result]]]:
    """``work`` of each name, on up to ``jobs`` threads; each with its finished future, in the order given.

    Only a few results wait for their turn, so that memory does not grow with the number of inputs.
    """
    pool = ThreadPoolExecutor(min(jobs, len(names)), thread_name_prefix="toktier")
    pending: deque[tuple[str, Future[Result]]] = deque()
    try:
        for name in names:
            pending.append((name, pool.submit(work, name)))
            if len(pending) > 2 * jobs:
                yield _finished(*pending.popleft(), bar)
        while pending:
            yield _finished(*pending.popleft(), bar)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _finished(name: str, future: Future[Result], bar: Bar) -> tuple[str, Future[Result]]:
    # A wait without end could not be interrupted everywhere.
    while not wait([future], _POLL).done:
        bar.tick()
    bar.advance(name)
    return name, future


class Bar:
    """A progress bar on standard error, by bytes of input: on a terminal only, and only for long work.

    Without the optional package ``rich`` there is none.  A context manager; nothing of it stays on the screen.
    """

    def __init__(self, title: str, names: Sequence[str]) -> None:
        self._title = title
        self._names = names
        # Where somebody types the input a bar would run into it.
        typed = STANDARD_INPUT in names and sys.stdin is not None and sys.stdin.isatty()
        self._wanted = sys.stderr is not None and sys.stderr.isatty() and not typed
        self._began = time.monotonic()
        self._done = 0
        self._bytes = 0
        self._shown: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._shown:
            self._shown[0].stop()

    def tick(self) -> None:
        """Show the bar if it is time to."""
        if not self._wanted or self._shown or time.monotonic() - self._began < _BAR_AFTER:
            return
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        except ImportError:
            self._wanted = False
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        # `transient`: nothing of it stays.  Output never goes through it: see `making_way`.
        progress = Progress(
            *columns,
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        # Of one input nothing is known until it is done.
        total = None
        if len(self._names) > 1 and STANDARD_INPUT not in self._names:
            total = sum(map(_size, self._names))
        task = progress.add_task(self._description(), total=total, completed=self._bytes)
        progress.start()
        self._shown = progress, task

    def advance(self, name: str) -> None:
        """``name`` is done."""
        self._done += 1
        self._bytes += _size(name)
        if self._shown:
            progress, task = self._shown
            progress.update(task, completed=self._bytes, description=self._description())

    @contextmanager
    def making_way(self, stream: IO[str]) -> Iterator[None]:
        """Take the bar off the screen while something is written to ``stream``, if that is a terminal."""
        if self._shown is None or not stream.isatty():
            yield
            return
        progress, _ = self._shown
        progress.stop()
        try:
            yield
        finally:
            progress.start()

    def _description(self) -> str:
        if len(self._names) == 1:
            return self._title
        return f"{self._title}: {self._done} of {len(self._names)} files"


def _size(name: str) -> int:
    try:
        return 0 if name == STANDARD_INPUT else os.path.getsize(name)
    except OSError:
        return 0
