"""Two ways to read a text, compared on all texts at once.

A *reader* marks the characters of a text that begin a piece.  What it knows at a position is a left state, a
function of what it has read so far, and a right state, about what comes.  Right states are guessed and then
verified step by step, so that a run of a reader over a text is a path in a finite graph:

    (left 0, right 0) --atom 0--> (left 1, right 1) --atom 1--> ...  (left n, right n)

with ``left 0`` the reader's start, ``right n`` its end, ``right i`` one of ``earlier(atom i, right i+1)`` and
``left i+1`` what ``step`` makes of the rest.  For every text there is exactly one such path.  Hence two readers
mark the same characters in every text, of any length, if and only if no path of the two side by side has an
edge at which their marks differ; and that is a search in a finite graph.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import count, product
from typing import Generic, NamedTuple, Protocol, TypeVar

from toktier.patterns.machine import Machine

L = TypeVar("L", bound=Hashable)
R = TypeVar("R", bound=Hashable)
M = TypeVar("M", bound=Hashable)
S = TypeVar("S", bound=Hashable)
N = TypeVar("N", bound=Hashable)


class Reader(Protocol[L, R]):
    """See the module."""

    start: L
    end: R

    def earlier(self, atom: int, later: R) -> Iterable[R]:
        """The right states that are possible before ``atom`` if ``later`` is the one after it."""

    def possible(self, left: L, right: R) -> bool:
        """Whether the two states can meet at a position, as far as that shows there."""

    def step(self, left: L, right: R, atom: int, later: R) -> tuple[L, bool] | None:
        """The left state after ``atom`` and whether it begins a piece; None if ``right`` was guessed wrongly."""


WalkStates = tuple[int, ...]
#: The oracles' states, and which stage is the first to begin a piece here (the last one, or none: the last).
Seen = tuple[tuple[int, ...], int]


class MachineReader:
    """The machines of one or several stages in a row.

    A later stage takes each piece of the earlier ones for a text of its own: its oracle sees the end of a text
    where they cut, and its walk starts afresh there.  Where they cut depends on what is to the left, so it is
    part of the right state as a guess, which the walks of the earlier stages then verify.
    """

    def __init__(self, machines: Iterable[Machine]) -> None:
        self._oracles = [machine.oracle.tolist() for machine in machines]
        self._walks = [machine.walk.tolist() for machine in machines]
        self._firsts = [machine.first for machine in machines]
        self._last = len(self._firsts) - 1
        self._stepped: dict[tuple[WalkStates, Seen], tuple[WalkStates, bool] | None] = {}
        self.start: WalkStates = (0,) * len(self._firsts)
        self.end: Seen = ((0,) * len(self._firsts), self._last)

    def earlier(self, atom: int, later: Seen) -> Iterable[Seen]:
        states, first = later
        now = tuple(
            oracle[0 if first < number else state][atom]
            for number, (oracle, state) in enumerate(zip(self._oracles, states, strict=True))
        )
        return [(now, guess) for guess in range(self._last + 1)]

    def possible(self, left: WalkStates, right: Seen) -> bool:
        return right == self.end or self.step(left, right, 0, right) is not None

    def step(self, left: WalkStates, right: Seen, atom: int, later: Seen) -> tuple[WalkStates, bool] | None:
        key = (left, right)
        if key not in self._stepped:
            self._stepped[key] = self._step(left, right)
        return self._stepped[key]

    def _step(self, left: WalkStates, right: Seen) -> tuple[WalkStates, bool] | None:
        states, guess = right
        walked: list[int] = []
        begins = False
        for number, walk in enumerate(self._walks):
            walked.append(walk[0 if begins else left[number]][states[number]])
            begins = begins or walked[-1] >= self._firsts[number]
            if number < self._last and begins != (guess <= number):
                return None
        return tuple(walked), begins


class FoldReader(Generic[L, R]):
    """A left fold, a right fold, and a rule about a character between the two."""

    def __init__(
        self,
        start: L,
        before: Callable[[L, int], L],
        end: R,
        after: Callable[[int, R], R],
        rule: Callable[[L, int, R], bool],
    ) -> None:
        self.start, self.end = start, end
        self._before, self._after, self._rule = before, after, rule

    def earlier(self, atom: int, later: R) -> Iterable[R]:
        return (self._after(atom, later),)

    def possible(self, left: L, right: R) -> bool:
        return True

    def step(self, left: L, right: R, atom: int, later: R) -> tuple[L, bool] | None:
        return self._before(left, atom), self._rule(left, atom, later)


# --- graphs ---------------------------------------------------------------------


class Edge(NamedTuple, Generic[N]):
    """One character read by one or two readers; ``differs``: they mark it differently."""

    source: N
    atom: int
    target: N
    differs: bool


class Graph(Generic[N]):
    """Everything reachable from some nodes, breadth first."""

    def __init__(self, starts: Iterable[N], edges: Callable[[N], Iterable[Edge[N]]]) -> None:
        self.came_by: dict[N, Edge[N] | None] = dict.fromkeys(starts)
        self.edges: list[Edge[N]] = []
        todo = deque(self.came_by)
        while todo:
            for edge in edges(todo.popleft()):
                self.edges.append(edge)
                if edge.target not in self.came_by:
                    self.came_by[edge.target] = edge
                    todo.append(edge.target)

    def path(self, node: N) -> tuple[N, list[int]]:
        """A start, and the atoms of a shortest way from it to ``node``."""
        atoms: list[int] = []
        while (edge := self.came_by[node]) is not None:
            atoms.append(edge.atom)
            node = edge.source
        return node, atoms[::-1]

    def suffixes(self, ends: Mapping[N, list[int]]) -> dict[N, list[int]]:
        """For each node from which one of ``ends`` can be reached, the atoms of a shortest way there.

        ``ends`` come with the atoms that follow each of them.
        """
        into: dict[N, list[Edge[N]]] = {}
        for edge in self.edges:
            into.setdefault(edge.target, []).append(edge)
        found: dict[N, list[int]] = {}
        tie = count()
        queue = [(len(atoms), next(tie), node, atoms) for node, atoms in ends.items() if node in self.came_by]
        heapify(queue)
        while queue:
            length, _, node, atoms = heappop(queue)
            if node not in found:
                found[node] = atoms
                for edge in into.get(node, ()):
                    if edge.source not in found:
                        heappush(queue, (length + 1, next(tie), edge.source, [edge.atom, *atoms]))
        return found

    def differences(self, suffixes: Mapping[N, list[int]]) -> dict[N, list[int]]:
        """The nodes from which a difference is ahead, and the atoms of a shortest text that shows it.

        ``suffixes``: those to the ends of texts; an edge from which no end can be reached is on no path.
        """
        shows: dict[N, list[int]] = {}
        for edge in self.edges:
            if edge.differs and edge.target in suffixes:
                text = [edge.atom, *suffixes[edge.target]]
                if edge.source not in shows or len(text) < len(shows[edge.source]):
                    shows[edge.source] = text
        return self.suffixes(shows)


# --- two readers of one text ------------------------------------------------------


class Comparison(NamedTuple):
    """``text``: a shortest one that two readers mark differently, None if there is none; ``nodes``: looked at."""

    text: list[int] | None
    nodes: int


def compare(one: Reader[L, R], other: Reader[M, S], atoms: int) -> Comparison:
    """Do two readers mark the same characters in every text over this many atoms?"""
    ends = (one.end, other.end)
    sources: dict[tuple[R, S], list[tuple[int, tuple[R, S]]]] = {ends: []}
    todo = [ends]
    while todo:
        later = todo.pop()
        for atom in range(atoms):
            for now in product(one.earlier(atom, later[0]), other.earlier(atom, later[1])):
                if now not in sources:
                    sources[now] = []
                    todo.append(now)
                sources[now].append((atom, later))

    def possible(lefts: tuple[L, M], rights: tuple[R, S]) -> bool:
        return one.possible(lefts[0], rights[0]) and other.possible(lefts[1], rights[1])

    def edges(node: tuple[tuple[L, M], tuple[R, S]]) -> Iterator[Edge[tuple[tuple[L, M], tuple[R, S]]]]:
        lefts, rights = node
        for atom, later in sources[rights]:
            a = one.step(lefts[0], rights[0], atom, later[0])
            b = other.step(lefts[1], rights[1], atom, later[1])
            if a is not None and b is not None and possible((a[0], b[0]), later):
                yield Edge(node, atom, ((a[0], b[0]), later), a[1] != b[1])

    starts = (one.start, other.start)
    graph = Graph([(starts, rights) for rights in sources if possible(starts, rights)], edges)
    if not any(edge.differs for edge in graph.edges):
        return Comparison(None, len(graph.came_by))
    suffixes = graph.suffixes({node: [] for node in graph.came_by if node[1] == ends})
    texts = [
        [*graph.path(edge.source)[1], edge.atom, *suffixes[edge.target]]
        for edge in graph.edges
        if edge.differs and edge.target in suffixes
    ]
    return Comparison(min(texts, key=len, default=None), len(graph.came_by))
