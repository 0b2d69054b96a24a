"""Two texts read side by side: pairs of positions, and where such pairs come from and lead to.

Two paths in the graph of positions that read the same characters are one path in the graph of pairs.  Texts with
the same left side and different right sides start together and grow apart (:func:`pasts`); texts with the same
right side end together (:func:`futures`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedPatternError
from .positions import Positions

_MAX_PAIRS = 3_000_000
#: A distance that no path has.
FAR = np.int64(1 << 40)


def joint_edges(
    graph: Positions, one: NDArray[np.int64], other: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All ways to read one character in both of two states, for arrays of such pairs.

    Returns (index of the pair, atom, next state of the one, next state of the other).
    """
    every = np.arange(graph.atoms)
    keys = (one[:, None] * graph.atoms + every).ravel()
    others = (other[:, None] * graph.atoms + every).ravel()
    counts = np.diff(graph.offsets)
    left, right = counts[keys], counts[others]
    total = left * right
    key = np.repeat(np.arange(len(keys)), total)
    within = np.arange(len(key)) - np.repeat(np.cumsum(total) - total, total)
    i, j = np.divmod(within, right[key])
    return (
        key // graph.atoms,
        key % graph.atoms,
        graph.target[graph.offsets[keys[key]] + i],
        graph.target[graph.offsets[others[key]] + j],
    )


def distinct(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different values, in order; by sorting, since ``numpy.unique`` hashes, which is slow for millions."""
    codes = np.sort(codes)
    different: NDArray[np.int64] = codes[np.diff(codes, prepend=-1) != 0]
    return different


def distances(
    initial: NDArray[np.int64], source: NDArray[np.int64], target: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The least of ``initial[t]`` plus the length of a path from each node to t."""
    found = initial.copy()
    while True:
        before = found.copy()
        np.minimum.at(found, source, found[target] + 1)
        if (found == before).all():
            return found


@dataclass(frozen=True, slots=True)
class Layer:
    """Pairs of positions that are equally far from the start, and the ways to read one more character.

    The pairs are ``one``, ``other`` (states, ``one <= other``) and ``apart`` (their boundaries differ
    somewhere before the position).  Steps: from pair number ``pair`` by ``atom`` to the states ``x``, ``y``,
    whose pasts differ if ``differ``.
    """

    one: NDArray[np.int64]
    other: NDArray[np.int64]
    apart: NDArray[np.bool_]
    pair: NDArray[np.int64]
    atom: NDArray[np.int64]
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    differ: NDArray[np.bool_]


def pasts(graph: Positions) -> Iterator[Layer]:
    """All pairs of positions that one left side leads to, by its length: breadth first from the starts."""
    size = len(graph)
    seen = np.zeros(2 * size * size, np.bool_)
    firsts = np.flatnonzero(graph.first)
    code = (firsts[:, None] * size + firsts)[np.triu_indices(len(firsts))]
    reached = 0
    while len(code):
        reached += len(code)
        if reached > _MAX_PAIRS:
            raise UnsupportedPatternError(f"its search has over {_MAX_PAIRS} pairs of positions", 0)
        apart, pair = code >= size * size, code % (size * size)
        one, other = pair // size, pair % size
        which, atom, x, y = joint_edges(graph, one, other)
        differ = (apart | (graph.begins[one] != graph.begins[other]))[which]
        x, y = np.minimum(x, y), np.maximum(x, y)
        yield Layer(one, other, apart, which, atom, x, y, differ)
        code = distinct(differ * (size * size) + x * size + y)
        code = code[~seen[code]]
        seen[code] = True


@dataclass(frozen=True, slots=True)
class Futures:
    """Pairs of positions that one right side leads on from.

    ``codes``: sorted, state of the one times the number of states plus state of the other.  Steps ``source``,
    ``atom``, ``target`` are between places in ``codes``.  ``complete``, ``differ``: length of a shortest text
    that leads from the pair to the end, and of one on whose way the boundaries differ; FAR if there is none.
    """

    codes: NDArray[np.int64]
    source: NDArray[np.int64]
    atom: NDArray[np.int64]
    target: NDArray[np.int64]
    complete: NDArray[np.int64]
    differ: NDArray[np.int64]


def futures(graph: Positions, one: NDArray[np.int64], other: NDArray[np.int64]) -> Futures:
    """Explore what can follow the given pairs."""
    size = len(graph)
    known = frontier = distinct(one * size + other)
    steps = [np.empty((3, 0), np.int64)]
    while len(frontier):
        which, atom, x, y = joint_edges(graph, frontier // size, frontier % size)
        kept = np.flatnonzero(graph.agree[x, y])
        which, atom, x, y = which[kept], atom[kept], x[kept], y[kept]
        steps.append(np.stack((frontier[which], atom, x * size + y)))
        target = distinct(x * size + y)
        frontier = target[known.take(np.searchsorted(known, target), mode="clip") != target]
        known = np.sort(np.concatenate((known, frontier)))
        if len(known) > _MAX_PAIRS:
            raise UnsupportedPatternError(f"its search has over {_MAX_PAIRS} pairs of positions", 0)
    sources, atom, targets = np.concatenate(steps, axis=1)
    source, target = np.searchsorted(known, sources), np.searchsorted(known, targets)
    x, y = known // size, known % size
    complete = distances(np.where(graph.last[x] & graph.last[y], 0, FAR), source, target)
    differ = distances(np.where(graph.begins[x] != graph.begins[y], complete, FAR), source, target)
    return Futures(known, source, atom, target, complete, differ)
