"""Where a text may be cut: *restarts* and *closes* for every pair of atoms, by their definitions.

With x any text that ends in an atom a, and y any that begins with b, the pair a|b *restarts* if

1. a piece begins between x and y in every xy;
2. the pieces of y in xy are those of y as a text of its own;
3. the pieces of x in xy are the same for every y that begins with b,

and *closes* if also

4. the pieces of x in xy are those of x as a text of its own.

1 is a question about the paths of one reader, 2 to 4 about two that read the same characters
(:mod:`proofs.readers`): in 2 the second starts where the first already is, in 3 and 4 the first and the second
end differently.  All are searches in finite graphs, so the answers hold for texts of any length, and a search
that finds something has found texts that show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toktier.patterns.machine import Machine

from .readers import Edge, Graph, MachineReader, Seen, WalkStates

NO_BOUNDARY, RIGHT_SIDE, LEFT_SIDE, END_OF_TEXT = "no boundary", "right side", "left side", "end of text"


@dataclass(frozen=True)
class Witness:
    """Why a pair is not in a relation: texts x, y and, where the reason speaks of two right sides, ``other``.

    ``reason`` is one of the four constants of this module, each the failure of the condition of that number.
    """

    reason: str
    x: tuple[int, ...]
    y: tuple[int, ...]
    other: tuple[int, ...] = ()


@dataclass(frozen=True)
class Cuts:
    """``restarts`` and ``closes``: bool, shape (atoms, atoms); a witness for every pair outside of each."""

    restarts: NDArray[np.bool_]
    closes: NDArray[np.bool_]
    not_restarting: dict[tuple[int, int], Witness]
    not_closing: dict[tuple[int, int], Witness]
    nodes: int


# --- the search -----------------------------------------------------------------


class _Place(NamedTuple):
    """A position of a text: what the reader knows there, and the atom before it (-1 at the start)."""

    left: WalkStates
    right: Seen
    atom: int


class _Two(NamedTuple):
    """Two readers at a position, of texts that are the same up to here or the same from here on.

    ``atom`` is the one before, ``differed`` says whether they have marked one of the characters before it
    differently; both only where they are of use.
    """

    left: WalkStates
    right: Seen
    other_left: WalkStates
    other_right: Seen
    atom: int = -1
    differed: bool = False


_Pair = tuple[int, int]


def derive_cuts(machines: Sequence[Machine], atoms: int) -> Cuts:
    """Decide every pair of atoms."""
    search = _Search(MachineReader(machines), atoms)
    unbroken = search.without_boundary()
    candidates = search.pairs() - unbroken.keys()
    left, ends = search.left_side(candidates)
    found = left | search.right_side(candidates) | unbroken
    restarts, closes = np.zeros((2, atoms, atoms), np.bool_)
    for a, b in candidates:
        restarts[a, b] = (a, b) not in found
        closes[a, b] = restarts[a, b] and (a, b) not in ends
    return Cuts(restarts, closes, found, ends | found, len(search.rest))


class _Search:
    def __init__(self, reader: MachineReader, atoms: int) -> None:
        self.reader = reader
        self.graph = Graph(*self._places(reader, atoms))
        #: places that occur in some text, and what a shortest one goes on with
        self.rest = self.graph.suffixes({p: [] for p in self.graph.came_by if p.right == reader.end})
        self.edges = [edge for edge in self.graph.edges if edge.target in self.rest]
        #: what may follow these states: the next atom, and a shortest text that begins with it
        self.next: dict[tuple[WalkStates, Seen], dict[int, list[int]]] = {}
        #: right state -> atom before it -> right states before that, as they occur in texts
        self.earlier: dict[Seen, dict[int, set[Seen]]] = {}
        for edge in self.edges:
            source, target = edge.source, edge.target
            here = self.next.setdefault((source.left, source.right), {})
            here.setdefault(edge.atom, [edge.atom, *self.rest[target]])
            self.earlier.setdefault(target.right, {}).setdefault(edge.atom, set()).add(source.right)

    @staticmethod
    def _places(
        reader: MachineReader, atoms: int
    ) -> tuple[list[_Place], Callable[[_Place], Iterator[Edge[_Place]]]]:
        sources: dict[Seen, list[tuple[int, Seen]]] = {reader.end: []}
        todo = [reader.end]
        while todo:
            later = todo.pop()
            for atom in range(atoms):
                for now in reader.earlier(atom, later):
                    if now not in sources:
                        sources[now] = []
                        todo.append(now)
                    sources[now].append((atom, later))

        def edges(place: _Place) -> Iterator[Edge[_Place]]:
            for atom, later in sources[place.right]:
                stepped = reader.step(place.left, place.right, atom, later)
                if stepped is not None and reader.possible(stepped[0], later):
                    yield Edge(place, atom, _Place(stepped[0], later, atom), not stepped[1])

        starts = [_Place(reader.start, right, -1) for right in sources if reader.possible(reader.start, right)]
        return starts, edges

    def pairs(self) -> set[_Pair]:
        return {(edge.source.atom, edge.atom) for edge in self.edges if edge.source.atom >= 0}

    def without_boundary(self) -> dict[_Pair, Witness]:
        """Condition 1: a step from a to b that does not begin a piece."""
        found: dict[_Pair, Witness] = {}
        for edge in self.edges:
            pair = edge.source.atom, edge.atom
            if edge.differs and edge.source.atom >= 0 and pair not in found:
                found[pair] = self._witness(NO_BOUNDARY, edge.source, [edge.atom, *self.rest[edge.target]])
        return found

    def _witness(self, reason: str, place: _Place, y: list[int], other: Sequence[int] = ()) -> Witness:
        return Witness(reason, tuple(self.graph.path(place)[1]), tuple(y), tuple(other))

    def right_side(self, candidates: set[_Pair]) -> dict[_Pair, Witness]:
        """Condition 2: one reader arrives from x, another starts at y, and they read y together."""
        reader = self.reader
        together = self._together()
        partners: dict[Seen, list[Seen]] = {}
        for one, other in together:
            partners.setdefault(one, []).append(other)
        starts: dict[_Two, dict[_Pair, _Place]] = {}
        for edge in self.edges:
            pair = edge.source.atom, edge.atom
            if pair not in candidates:
                continue
            for later in partners[edge.target.right]:
                for right in self.earlier[later].get(edge.atom, ()):
                    fresh = reader.step(reader.start, right, edge.atom, later)
                    if fresh is not None:
                        two = _Two(edge.target.left, edge.target.right, fresh[0], later)
                        starts.setdefault(two, {}).setdefault(pair, edge.source)

        def edges(two: _Two) -> Iterator[Edge[_Two]]:
            if two.left == two.other_left:
                return  # from here on both are the same
            for atom, later, other_later in together[two.right, two.other_right]:
                one = reader.step(two.left, two.right, atom, later)
                other = reader.step(two.other_left, two.other_right, atom, other_later)
                if one is not None and other is not None:
                    yield Edge(two, atom, _Two(one[0], later, other[0], other_later), one[1] != other[1])

        graph = Graph(starts, edges)
        ends = {
            two: self._after(two.left, two.right)
            for two in graph.came_by
            if two.right == two.other_right and (two.left == two.other_left or two.right == reader.end)
        }
        found: dict[_Pair, Witness] = {}
        shows = graph.differences(graph.suffixes({two: rest for two, rest in ends.items() if rest is not None}))
        for two, ending in shows.items():
            for pair, place in starts.get(two, {}).items():
                found.setdefault(pair, self._witness(RIGHT_SIDE, place, [pair[1], *ending]))
        return found

    def _after(self, left: WalkStates, right: Seen) -> list[int] | None:
        """What a text may go on with from these states on; None if they occur in no text."""
        if right == self.reader.end:
            return []
        ways = self.next.get((left, right))
        return None if ways is None else min(ways.values(), key=len)

    def _together(self) -> dict[tuple[Seen, Seen], list[tuple[int, Seen, Seen]]]:
        """Right states of two readers before the same text, and how each pair comes about."""
        both_end = (self.reader.end, self.reader.end)
        found: dict[tuple[Seen, Seen], list[tuple[int, Seen, Seen]]] = {both_end: []}
        todo = [both_end]
        while todo:
            later, other_later = todo.pop()
            for atom, now in self._before_both(later, other_later):
                if now not in found:
                    found[now] = []
                    todo.append(now)
                found[now].append((atom, later, other_later))
        return found

    def _before_both(self, one: Seen, other: Seen) -> Iterator[tuple[int, tuple[Seen, Seen]]]:
        """Each atom before two right states, and the two states before that."""
        ways, others = self.earlier.get(one, {}), self.earlier.get(other, {})
        for atom in ways.keys() & others.keys():
            for now in product(ways[atom], others[atom]):
                yield atom, now

    def left_side(self, candidates: set[_Pair]) -> tuple[dict[_Pair, Witness], dict[_Pair, Witness]]:
        """Conditions 3 and 4: two readers of the same x go on with different texts, or one ends there.

        Searched backwards first: where the oracles' states are equal, everything farther left is, too.
        """
        reader = self.reader
        nexts: dict[Seen, set[int]] = {reader.end: set()}
        for (_, right), ways in self.next.items():
            nexts.setdefault(right, set()).update(ways)
        todo = [
            (one, other)
            for one, other in product(nexts, repeat=2)
            if one[0] != other[0] and (nexts[one] & nexts[other] or other == reader.end)
        ]
        ahead: dict[tuple[Seen, Seen], list[tuple[int, tuple[Seen, Seen]]]] = {pair: [] for pair in todo}
        starts: dict[_Two, _Place | None] = {
            _Two(reader.start, one, reader.start, other): None for one, other in ahead
        }
        places: dict[Seen, dict[WalkStates, _Place]] = {}
        for place in self.rest:
            places.setdefault(place.right, {}).setdefault(place.left, place)
        while todo:
            later = todo.pop()
            for atom, now in self._before_both(*later):
                if now[0] == now[1]:
                    for place in places[now[0]].values():
                        stepped = reader.step(place.left, place.right, atom, later[0])
                        if stepped is not None:
                            two = _Two(stepped[0], later[0], stepped[0], later[1], atom)
                            starts.setdefault(two, place)
                elif now[0][0] != now[1][0]:
                    if now not in ahead:
                        ahead[now] = []
                        todo.append(now)
                        starts[_Two(reader.start, now[0], reader.start, now[1])] = None
                    ahead[now].append((atom, later))

        def edges(two: _Two) -> Iterator[Edge[_Two]]:
            for atom, (later, other_later) in ahead[two.right, two.other_right]:
                one = reader.step(two.left, two.right, atom, later)
                other = reader.step(two.other_left, two.other_right, atom, other_later)
                if one is not None and other is not None:
                    differs = one[1] != other[1]
                    target = _Two(one[0], later, other[0], other_later, atom, two.differed or differs)
                    yield Edge(two, atom, target, differs)

        graph = Graph(starts, edges)
        left: dict[_Pair, Witness] = {}
        ends: dict[_Pair, Witness] = {}
        for two in graph.came_by:
            if not two.differed:
                continue
            ways = self.next.get((two.left, two.right), {})
            others = self.next.get((two.other_left, two.other_right), {})
            for b, y in ways.items():
                if (two.atom, b) not in candidates:
                    continue
                if two.other_right == reader.end:
                    ends.setdefault((two.atom, b), Witness(END_OF_TEXT, self._before(graph, starts, two), tuple(y)))
                elif b in others and (two.atom, b) not in left:
                    x = self._before(graph, starts, two)
                    left[two.atom, b] = Witness(LEFT_SIDE, x, tuple(y), tuple(others[b]))
        return left, ends

    def _before(self, graph: Graph[_Two], starts: Mapping[_Two, _Place | None], two: _Two) -> tuple[int, ...]:
        """A text that leads two readers to where they are."""
        first, atoms = graph.path(two)
        place = starts[first]
        return tuple(atoms) if place is None else (*self.graph.path(place)[1], first.atom, *atoms)
