"""Shortest texts that show why a pair of neighbours is no certified cut.

Every pair of atoms that is not in a relation of :mod:`~toktier.certificates.relation` is out for one of the
four reasons listed there, and the search that found it knows the texts.  Here they are put together: of all
reasons, the one with the fewest characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..lazy import lazy
from ..patterns.bimachine import Machine
from .pairs import FAR, Futures, Layer, distances, futures, pasts
from .positions import positions
from .relation import arrivals

Kind = Literal["no boundary", "right side", "left side", "end of text"]

_Texts = tuple[int, ...]  # atoms

#: The fewest characters in which anything but a missing boundary can show.
_LEAST = 3


@dataclass(frozen=True, slots=True)
class AtomWitness:
    """A witness over atoms.  ``x`` ends in the first of the pair, ``y`` and ``other`` begin with the second.

    ``kind`` says what is shown: ``"no boundary"`` between x and y in xy; the boundaries inside y in xy are not
    those of y alone (``"right side"``); those inside x in xy are not those in x + ``other`` (``"left side"``) or
    not those of x alone (``"end of text"``).
    """

    kind: Kind
    x: _Texts
    y: _Texts
    other: _Texts | None

    @property
    def size(self) -> int:
        """Characters of all its texts."""
        return len(self.x) + len(self.y) + len(self.other or ())


@dataclass(frozen=True, slots=True)
class Witness:
    """An :class:`AtomWitness` written as texts; ``other`` is None unless ``kind`` is ``"left side"``."""

    kind: Kind
    x: str
    y: str
    other: str | None

    def confirmed(self, boundaries: Callable[[str], Sequence[int]]) -> bool:
        """Whether a tokenizer behaves as the witness says.

        ``boundaries`` gives the positions, in characters, at which pieces of a text begin.
        """
        cut = len(self.x)
        whole = set(boundaries(self.x + self.y))
        if self.kind == "no boundary":
            return cut not in whole
        if self.kind == "right side":
            alone = {cut + p for p in boundaries(self.y)}
            return {p for p in whole if p > cut} != {p for p in alone if p > cut}
        compared = boundaries(self.x if self.other is None else self.x + self.other)
        return {p for p in whole if p < cut} != {p for p in compared if p < cut}

    def __str__(self) -> str:
        whole, cut = f"{self.x + self.y!r}", f"between {self.x!r} and {self.y!r}"
        if self.kind == "no boundary":
            return f"{whole} has no boundary {cut}"
        if self.kind == "right side":
            return f"{whole} is not cut inside {self.y!r} as {self.y!r} alone is"
        compared = repr(self.x) + " alone" if self.other is None else repr(self.x + self.other)
        return f"{whole} is not cut inside {self.x!r} as {compared} is"


class WitnessSearch:
    """Looks up witnesses for pairs of atoms of stages in a row.

    Everything that is the same for all pairs is computed at once; ``characters[a]`` stands for atom a in texts.
    """

    def __init__(self, machines: Sequence[Machine], characters: Sequence[str]) -> None:
        self._characters = characters
        graph = self._graph = positions(machines, len(characters))
        self._to_end = distances(np.where(graph.last, 0, FAR), graph.source, graph.target)
        self._from_start = distances(np.where(graph.first, 0, FAR), graph.target, graph.source)
        self._arriving = np.full((len(graph), graph.atoms), FAR)
        np.minimum.at(self._arriving, (graph.target, graph.atom), self._from_start[graph.source] + 1)
        self._leaving = np.full((len(graph), graph.atoms), FAR)
        np.minimum.at(self._leaving, (graph.source, graph.atom), self._to_end[graph.target] + 1)

    @lazy
    def _layers(self) -> list[Layer]:
        return list(pasts(self._graph))

    @lazy
    def _apart(self) -> list[NDArray[np.int64]]:
        """For each atom: the least length of a left side that ends in it at two states, cut in two ways.

        Columns: length, states x and y.
        """
        rows = [np.empty((4, 0), np.int64)]
        for depth, layer in enumerate(self._layers, 1):
            steps = np.stack((layer.atom, layer.x, layer.y))[:, layer.differ]
            rows.append(np.concatenate((np.full((1, steps.shape[1]), depth), steps)))
        length, atom, x, y = np.concatenate(rows, axis=1)
        code = (atom * len(self._graph) + x) * len(self._graph) + y
        order = np.argsort(code, kind="stable")  # lengths ascend, so the first of equals is the shortest
        kept = order[np.diff(code[order], prepend=-1) != 0]
        ends = np.searchsorted(atom[kept], np.arange(1, self._graph.atoms))
        return np.split(np.stack((length, x, y))[:, kept], ends, axis=1)

    @lazy
    def _futures(self) -> Futures:
        _, _, one, other = self._arrivals
        return futures(self._graph, one, other)

    @lazy
    def _arrivals(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        return arrivals(self._graph, np.arange(len(self._graph)))

    @lazy
    def _surprises(self) -> list[NDArray[np.int64]]:
        """For each atom read after some state: the least length of a right side cut otherwise than alone.

        Columns: the state before, the length without the atom, the place in ``_futures``.
        """
        state, atom, one, other = self._arrivals
        at = np.searchsorted(self._futures.codes, one * len(self._graph) + other)
        length = self._futures.differ[at]
        kept = np.flatnonzero(length < FAR)
        kept = kept[np.argsort(atom[kept], kind="stable")]
        ends = np.searchsorted(atom[kept], np.arange(1, self._graph.atoms))
        return np.split(np.stack((state, length, at))[:, kept], ends, axis=1)

    def against_restarts(self, a: int, b: int) -> Witness | None:
        """A shortest witness that the pair does not restart, or None if it does."""
        return self._shortest(a, b, (self._no_boundary, self._right_side, self._left_side))

    def against_closes(self, a: int, b: int) -> Witness | None:
        """A shortest witness that the pair does not close, or None if it does."""
        reasons = (self._no_boundary, self._end_of_text, self._right_side, self._left_side)
        return self._shortest(a, b, reasons)

    def _shortest(
        self, a: int, b: int, reasons: Sequence[Callable[[int, int], AtomWitness | None]]
    ) -> Witness | None:
        best: AtomWitness | None = None
        for reason in reasons:
            found = reason(a, b)
            if found is not None and (best is None or found.size < best.size):
                best = found
            if best is not None and best.size <= _LEAST:
                break
        if best is None:
            return None
        return Witness(
            best.kind,
            self._text(best.x),
            self._text(best.y),
            None if best.other is None else self._text(best.other),
        )

    def _text(self, atoms: _Texts) -> str:
        return "".join(self._characters[atom] for atom in atoms)

    # --- the four reasons ---------------------------------------------------------------------

    def _no_boundary(self, a: int, b: int) -> AtomWitness | None:
        length = np.where(self._graph.begins, FAR, self._arriving[:, a] + self._leaving[:, b])
        state = int(length.argmin())
        if length[state] >= FAR:
            return None
        return AtomWitness("no boundary", self._before(state, a), self._after(state, b), None)

    def _right_side(self, a: int, b: int) -> AtomWitness | None:
        state, rest, at = self._surprises[b]
        length = self._arriving[state, a] + rest
        row = int(length.argmin()) if len(length) else 0
        if not len(length) or length[row] >= FAR:
            return None
        y = (b, *self._differing(int(at[row])))
        return AtomWitness("right side", self._before(int(state[row]), a), y, None)

    def _left_side(self, a: int, b: int) -> AtomWitness | None:
        depth, x, y = self._apart[a]
        length = depth + self._leaving[x, b] + self._leaving[y, b]
        row = int(length.argmin()) if len(length) else 0
        if not len(length) or length[row] >= FAR:
            return None
        past = self._past(int(depth[row]), a, int(x[row]), int(y[row]))
        return AtomWitness("left side", past, self._after(int(x[row]), b), self._after(int(y[row]), b))

    def _end_of_text(self, a: int, b: int) -> AtomWitness | None:
        depth, x, y = self._apart[a]
        one = np.where(self._graph.last[y], self._leaving[x, b], FAR)
        other = np.where(self._graph.last[x], self._leaving[y, b], FAR)
        length = depth + np.minimum(one, other)
        row = int(length.argmin()) if len(length) else 0
        if not len(length) or length[row] >= FAR:
            return None
        past = self._past(int(depth[row]), a, int(x[row]), int(y[row]))
        goes_on = x[row] if one[row] <= other[row] else y[row]
        return AtomWitness("end of text", past, self._after(int(goes_on), b), None)

    # --- texts from paths ---------------------------------------------------------------------

    def _before(self, state: int, last: int) -> _Texts:
        """A shortest text that leads to ``state`` by ``last``."""
        graph, text = self._graph, [last]
        edges = (graph.target == state) & (graph.atom == last)
        state = int(_nearest(graph.source[edges], self._from_start))
        while self._from_start[state]:
            arriving = np.flatnonzero(graph.target == state)
            edge = arriving[self._from_start[graph.source[arriving]].argmin()]
            text.append(int(graph.atom[edge]))
            state = int(graph.source[edge])
        return tuple(reversed(text))

    def _after(self, state: int, first: int) -> _Texts:
        """A shortest text that leads from ``state`` to the end and begins with ``first``."""
        graph, text = self._graph, [first]
        edges = (graph.source == state) & (graph.atom == first)
        state = int(_nearest(graph.target[edges], self._to_end))
        while self._to_end[state]:
            leaving = np.flatnonzero(graph.source == state)
            edge = leaving[self._to_end[graph.target[leaving]].argmin()]
            text.append(int(graph.atom[edge]))
            state = int(graph.target[edge])
        return tuple(text)

    def _differing(self, pair: int) -> _Texts:
        """A shortest text that leads a pair of positions to the end, cut in two ways."""
        found, text = self._futures, list[int]()
        differ = True
        while True:
            x, y = divmod(int(found.codes[pair]), len(self._graph))
            if self._graph.begins[x] != self._graph.begins[y] and found.differ[pair] == found.complete[pair]:
                differ = False
            distance = found.differ if differ else found.complete
            if distance[pair] == 0:
                return tuple(text)
            steps = np.flatnonzero((found.source == pair) & (distance[found.target] == distance[pair] - 1))
            text.append(int(found.atom[steps[0]]))
            pair = int(found.target[steps[0]])

    def _past(self, depth: int, atom: int, x: int, y: int) -> _Texts:
        """The text of a row of ``_apart``."""
        text, apart = [atom], True
        while True:
            layer = self._layers[depth - 1]
            rows = (layer.atom == text[-1]) & (layer.x == x) & (layer.y == y) & (layer.differ == apart)
            pair = layer.pair[np.flatnonzero(rows)[0]]
            x, y, apart = int(layer.one[pair]), int(layer.other[pair]), bool(layer.apart[pair])
            depth -= 1
            if depth == 0:
                return tuple(reversed(text))
            last = self._layers[depth - 1]
            arriving = (last.x == x) & (last.y == y) & (last.differ == apart)
            text.append(int(last.atom[np.flatnonzero(arriving)[0]]))


def _nearest(states: NDArray[np.int64], distance: NDArray[np.int64]) -> np.int64:
    nearest: np.int64 = states[distance[states].argmin()]
    return nearest


def representatives(atom_of: NDArray[np.uint8], atoms: int, allowed: NDArray[np.bool_] | None = None) -> list[str]:
    """A character of each atom, a printable one in ASCII if there is one; ``allowed`` narrows the choice."""
    printable = [*range(0x21, 0x7F), 0x20, 0x0A, 0x0D, 0x09]
    rest = np.ones(len(atom_of), np.bool_)
    rest[[*printable, *range(0xD800, 0xE000)]] = False
    codes = np.concatenate((printable, np.flatnonzero(rest)))
    if allowed is not None:
        codes = np.concatenate((codes[allowed[codes]], codes[~allowed[codes]]))
    found, first = np.unique(atom_of[codes], return_index=True)
    chosen = dict(zip(found.tolist(), codes[first].tolist(), strict=True))
    return [chr(chosen[atom]) for atom in range(atoms)]
