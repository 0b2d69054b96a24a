"""Which neighbours a text may be cut between: *restarts* and *closes* (DESIGN section 3; paper 3.2 and A.2).

Write x for any text that ends in an atom a, and y, y' for any that begin with an atom b.  The pair (a, b) is in
*restarts* unless one of these can be found:

1. an xy with no boundary between x and y;
2. an xy whose boundaries inside y are not those of y as a text of its own;
3. an xy and an xy' that differ in their boundaries inside x.

It is in *closes*, too, unless

4. there is an xy whose boundaries inside x are not those of x as a text of its own.

Each is a search for a path, or for two paths that read the same characters, in the graph of all positions
(:mod:`~toktier.certificates.positions`).  The graph is finite and every text is a path in it.  So a search that
finds nothing proves the pair for texts of any length, and one that finds something gives a
witness (:mod:`~toktier.certificates.witness`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..patterns.bimachine import Machine
from .pairs import FAR, distinct, futures, joint_edges, pasts
from .positions import Positions, positions, with_fewer_atoms


@dataclass(frozen=True, slots=True)
class Relation:
    """``restarts`` and ``closes``: bool, shape (atoms, atoms); ``states``: how many a position can have."""

    restarts: NDArray[np.bool_]
    closes: NDArray[np.bool_]
    states: int


def derive_relation(machines: Sequence[Machine], atoms: int) -> Relation:
    """Decide every pair of atoms for stages in a row.

    Raises :class:`~toktier.errors.UnsupportedPatternError` where the search would be too large.
    """
    if not machines:  # the whole text is one piece
        return Relation(np.zeros((atoms, atoms), np.bool_), np.zeros((atoms, atoms), np.bool_), 1)
    reduced, kind = with_fewer_atoms(machines, atoms)
    found = _decided(positions(reduced, int(kind.max()) + 1))
    every = np.ix_(kind, kind)
    return Relation(found.restarts[every], found.closes[every], found.states)


def _decided(graph: Positions) -> Relation:
    arriving, leaving = arriving_atoms(graph), leaving_atoms(graph)
    wrong = _compose(arriving[~graph.begins].T, leaving[~graph.begins])
    wrong |= _right_side(graph, arriving, ~wrong)
    left, end = _left_side(graph, leaving)
    restarts = ~(wrong | left)
    return Relation(restarts, restarts & ~end, len(graph))


def arriving_atoms(graph: Positions) -> NDArray[np.bool_]:
    """``[state, atom]``: the atom may stand before such a position."""
    found = np.zeros((len(graph), graph.atoms), np.bool_)
    found[graph.target, graph.atom] = True
    return found


def leaving_atoms(graph: Positions) -> NDArray[np.bool_]:
    """``[state, atom]``: the atom may stand after such a position."""
    found = np.zeros((len(graph), graph.atoms), np.bool_)
    found[graph.source, graph.atom] = True
    return found


def _compose(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """``[i, k]`` if some j has ``one[i, j]`` and ``other[j, k]``."""
    product: NDArray[np.float32] = one.astype(np.float32) @ other.astype(np.float32)
    return product > 0


def arrivals(
    graph: Positions, before: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """One character read after each of the states ``before``, and the same one at the start of a text.

    Returns (state before, atom, state after it, state after it in the text that it begins), where the last two
    are not the same.
    """
    firsts = np.flatnonzero(graph.first)
    onward = np.array([walk for walk, _ in graph.states])
    onward[graph.source] = onward[graph.target]
    pairs = np.argwhere(graph.agree[np.ix_(before, firsts)])
    arrived, first = before[pairs[:, 0]], firsts[pairs[:, 1]]
    unlike = (onward[arrived] != onward[first]).any(axis=1)  # the others read the same text in the same states
    arrived, first = arrived[unlike], first[unlike]
    which, atom, one, other = joint_edges(graph, arrived, first)
    differ = np.flatnonzero((one != other) & graph.agree[one, other])
    return arrived[which[differ]], atom[differ], one[differ], other[differ]


def _right_side(graph: Positions, arriving: NDArray[np.bool_], candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pairs (a, b) with an xy that is cut otherwise within y than y alone."""
    arrived, b, one, other = arrivals(graph, np.flatnonzero((arriving & candidates.any(axis=1)).any(axis=1)))
    asked = _compose(arriving, candidates)[arrived, b]
    arrived, b, one, other = arrived[asked], b[asked], one[asked], other[asked]
    found = futures(graph, one, other)
    bad = found.differ[np.searchsorted(found.codes, one * len(graph) + other)] < FAR
    result = np.zeros_like(candidates)
    for a in range(graph.atoms):
        result[a, b[bad & arriving[arrived, a]]] = True
    return result & candidates


def _left_side(graph: Positions, leaving: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Pairs (a, b) with an x that is cut otherwise before a y than before another, or than alone."""
    size = len(graph)
    left = np.zeros((graph.atoms, graph.atoms), np.bool_)
    end = np.zeros_like(left)
    for layer in pasts(graph):
        code = distinct(((layer.atom * size + layer.x) * size + layer.y)[layer.differ])
        atom, x, y = code // (size * size), code // size % size, code % size
        both = leaving[x] & leaving[y]
        ended = graph.last[x] | graph.last[y]
        for a in distinct(atom).tolist():
            here = atom == a
            left[a] |= both[here].any(axis=0)
            here &= ended
            end[a] |= (leaving[x[here]] | leaving[y[here]]).any(axis=0)
    return left, end
