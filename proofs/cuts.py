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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .engine import Engine
from .readers import Edge, Graph, MachineReader, Seen, WalkStates
from .stages import Stages

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


def shows(engine: Engine, stages: Stages, witness: Witness) -> bool:
    """Whether the reference engine cuts the witness's texts as the witness says."""
    x, y, other = (stages.write(atoms) for atoms in (witness.x, witness.y, witness.other))
    whole, left, right, changed = engine.starts([x + y, x, y, x + other])
    here = len(x)
    match witness.reason:
        case "no boundary":
            return here not in whole
        case "right side":
            return [p for p in whole if p >= here] != [here + p for p in right]
        case "left side":
            return other[:1] == y[:1] and [p for p in whole if p < here] != [p for p in changed if p < here]
    return [p for p in whole if p < here] != left


# --- the search -----------------------------------------------------------------


class _Place(NamedTuple):
    """A position of a text: what the reader knows there."""

    left: WalkStates
    right: Seen


class _Two(NamedTuple):
    """Two readers at a position, of texts that are the same up to here or the same from here on.

    ``differed``: they have marked one of the characters before it differently.
    """

    left: WalkStates
    right: Seen
    other_left: WalkStates
    other_right: Seen
    differed: bool = False


_Pair = tuple[int, int]


@lru_cache(maxsize=16)
def cuts_of(stages: Stages) -> Cuts:
    """Decide every pair of atoms."""
    atoms = stages.atoms.count
    search = _Search(MachineReader(stages.machines), atoms)
    unbroken = search.without_boundary()
    candidates = {pair for pair, _, _ in search.neighbours()} - unbroken.keys()
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
        #: place -> atom that may follow -> a shortest text that begins with it
        self.next: dict[_Place, dict[int, list[int]]] = {}
        #: place -> atom that may stand before it -> the edge that reads it
        self.into: dict[_Place, dict[int, Edge[_Place]]] = {}
        #: right state -> atom before it -> right states before that, as they occur in texts
        self.earlier: dict[Seen, dict[int, set[Seen]]] = {}
        for edge in self.edges:
            self.next.setdefault(edge.source, {}).setdefault(edge.atom, [edge.atom, *self.rest[edge.target]])
            self.into.setdefault(edge.target, {}).setdefault(edge.atom, edge)
            before = self.earlier.setdefault(edge.target.right, {})
            before.setdefault(edge.atom, set()).add(edge.source.right)

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
                    yield Edge(place, atom, _Place(stepped[0], later), not stepped[1])

        starts = [_Place(reader.start, right) for right in sources if reader.possible(reader.start, right)]
        return starts, edges

    def neighbours(self) -> Iterator[tuple[_Pair, Edge[_Place], Edge[_Place]]]:
        """Every a and b at every place between them, with the edges that read them."""
        for edge in self.edges:
            for a, before in self.into.get(edge.source, {}).items():
                yield (a, edge.atom), before, edge

    def without_boundary(self) -> dict[_Pair, Witness]:
        """Condition 1: a step from a to b that does not begin a piece."""
        found: dict[_Pair, Witness] = {}
        for pair, before, edge in self.neighbours():
            if edge.differs and pair not in found:
                found[pair] = Witness(NO_BOUNDARY, self.ending_in(before), (edge.atom, *self.rest[edge.target]))
        return found

    def ending_in(self, edge: Edge[_Place]) -> tuple[int, ...]:
        """A text whose last character is read by ``edge``."""
        return (*self.graph.path(edge.source)[1], edge.atom)

    def right_side(self, candidates: set[_Pair]) -> dict[_Pair, Witness]:
        """Condition 2: one reader arrives from x, another starts at y, and they read y together."""
        reader = self.reader
        together = self._together()
        partners: dict[Seen, list[Seen]] = {}
        for one, other in together:
            partners.setdefault(one, []).append(other)
        starts: dict[_Two, dict[_Pair, Edge[_Place]]] = {}
        for pair, before, edge in self.neighbours():
            if pair not in candidates:
                continue
            for later in partners[edge.target.right]:
                for right in self.earlier[later].get(edge.atom, ()):
                    fresh = reader.step(reader.start, right, edge.atom, later)
                    if fresh is not None:
                        two = _Two(edge.target.left, edge.target.right, fresh[0], later)
                        starts.setdefault(two, {}).setdefault(pair, before)

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
            two: self.rest.get(_Place(two.left, two.right))
            for two in graph.came_by
            if two.right == two.other_right and (two.left == two.other_left or two.right == reader.end)
        }
        found: dict[_Pair, Witness] = {}
        shows = graph.differences(graph.suffixes({two: rest for two, rest in ends.items() if rest is not None}))
        for two, ending in shows.items():
            for pair, before in starts.get(two, {}).items():
                found.setdefault(pair, Witness(RIGHT_SIDE, self.ending_in(before), (pair[1], *ending)))
        return found

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
        for place, ways in self.next.items():
            nexts.setdefault(place.right, set()).update(ways)
        todo = [
            (one, other)
            for one, other in product(nexts, repeat=2)
            if one[0] != other[0] and (nexts[one] & nexts[other] or other == reader.end)
        ]
        ahead: dict[tuple[Seen, Seen], list[tuple[int, tuple[Seen, Seen]]]] = {pair: [] for pair in todo}
        starts: dict[_Two, tuple[int, ...]] = {  # with a text that leads there
            _Two(reader.start, one, reader.start, other): () for one, other in ahead
        }
        places: dict[Seen, list[_Place]] = {}
        for place in self.rest:
            places.setdefault(place.right, []).append(place)
        while todo:
            later = todo.pop()
            for atom, now in self._before_both(*later):
                if now[0] == now[1]:
                    for place in places[now[0]]:
                        stepped = reader.step(place.left, place.right, atom, later[0])
                        if stepped is not None:
                            two = _Two(stepped[0], later[0], stepped[0], later[1])
                            if two not in starts:
                                starts[two] = (*self.graph.path(place)[1], atom)
                elif now[0][0] != now[1][0]:
                    if now not in ahead:
                        ahead[now] = []
                        todo.append(now)
                        starts[_Two(reader.start, now[0], reader.start, now[1])] = ()
                    ahead[now].append((atom, later))

        def edges(two: _Two) -> Iterator[Edge[_Two]]:
            for atom, (later, other_later) in ahead[two.right, two.other_right]:
                one = reader.step(two.left, two.right, atom, later)
                other = reader.step(two.other_left, two.other_right, atom, other_later)
                if one is not None and other is not None:
                    differs = one[1] != other[1]
                    target = _Two(one[0], later, other[0], other_later, two.differed or differs)
                    yield Edge(two, atom, target, differs)

        graph = Graph(starts, edges)
        left: dict[_Pair, Witness] = {}
        ends: dict[_Pair, Witness] = {}
        for edge in graph.edges:  # no start has differed
            two = edge.target
            if not two.differed:
                continue
            ways = self.next.get(_Place(two.left, two.right), {})
            others = self.next.get(_Place(two.other_left, two.other_right), {})
            for b, y in ways.items():
                pair = edge.atom, b
                if pair not in candidates:
                    continue
                if two.other_right == reader.end and pair not in ends:
                    ends[pair] = Witness(END_OF_TEXT, self._before(graph, starts, edge), tuple(y))
                elif b in others and pair not in left:
                    x = self._before(graph, starts, edge)
                    left[pair] = Witness(LEFT_SIDE, x, tuple(y), tuple(others[b]))
        return left, ends

    @staticmethod
    def _before(graph: Graph[_Two], starts: Mapping[_Two, tuple[int, ...]], edge: Edge[_Two]) -> tuple[int, ...]:
        """A text whose last character two readers read by this edge."""
        first, atoms = graph.path(edge.source)
        return (*starts[first], *atoms, edge.atom)
