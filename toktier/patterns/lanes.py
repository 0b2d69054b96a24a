"""Running the machine over a whole text with numpy: many lanes, one step at a time.

The text is cut at closing pairs (:func:`~toktier.patterns.machine.closing_pairs`) into a few thousand lanes,
each a text of its own, and all lanes take their steps together: first the oracle from the right, then the
walk from the left.  Added tokens are marked by the end atom, which ends one text and begins the next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .machine import Machine

#: Characters a lane should have: few in short texts, so that there are few steps, and in long ones as many
#: as it takes for the lanes to be as many as numpy handles well at a time.
_LANE = (24, 160)
_LANES = 1024
_MOST_LANES = 8192
#: A lane without a cut this long is left to the standard library's ``re`` (the text is one long run).
_LONGEST_LANE = 4096
#: How far from its target a cut is looked for at first; widened where there is none.
_SEARCH = (16, 256, _LONGEST_LANE)


@dataclass(frozen=True, slots=True)
class Stage:
    """One pre-tokenizer stage, ready to run.

    Both tables are flat, of dtype int64, and indexed by oracle state times ``stride`` plus a symbol
    (``oracle``) or a walk state (``walk``), so that a step is one addition and one look-up.  Oracle states
    are stored multiplied.  Symbols from ``atoms`` on mean the same atoms, where an earlier stage begins a
    piece at the next character; the walk table from ``restart`` on is for characters at which one does.
    """

    oracle: NDArray[np.int64]
    walk: NDArray[np.int64]
    atoms: int
    restart: int
    first: int  # least walk state that begins a piece
    pattern: re.Pattern[bytes]  # the same stage for ``re``, over atoms


def make_stage(machine: Machine, pattern: re.Pattern[bytes]) -> Stage:
    """Lay the machine's tables out for stepping."""
    states, atoms = machine.oracle.shape
    stride = max(2 * atoms, len(machine.walk))
    oracle = np.zeros((states, stride), np.int64)
    oracle[:, :atoms] = machine.oracle
    oracle[:, atoms : 2 * atoms] = machine.oracle[0]
    walk = np.zeros((2, states, stride), np.int64)
    walk[0, :, : len(machine.walk)] = machine.walk.T
    walk[1] = machine.walk[0][:, None]
    return Stage((oracle * stride).ravel(), walk.ravel(), atoms, states * stride, machine.first, pattern)


@dataclass(frozen=True, slots=True)
class Splitter:
    """All stages of a pre-tokenizer and the pairs at which lanes may be cut.

    ``closes`` is the flat (atoms + 1, atoms + 1) table of closing pairs, the end atom included: a text may
    always be cut next to an added token.
    """

    stages: tuple[Stage, ...]
    closes: NDArray[np.bool_]
    end: int

    def piece_starts(self, atoms: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Where pieces begin: bool array of the shape of ``atoms``.

        Every end atom begins a piece; the caller removes those inside an added token.
        """
        begins = np.zeros(len(atoms), np.bool_)
        if len(atoms) == 0:
            return begins
        edges = self.cut(atoms)
        lengths = np.diff(edges)
        long = lengths > _LONGEST_LANE
        for start, length in zip(edges[:-1][long].tolist(), lengths[long].tolist(), strict=True):
            begins[start : start + length] = self.run_alone(atoms[start : start + length])
        lanes = np.flatnonzero(~long)
        if len(lanes):
            order = lanes[np.argsort(lengths[lanes], kind="stable")[::-1]]
            self.run_lanes(atoms, begins, edges[:-1][order], lengths[order])
        return begins

    def cut(self, atoms: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Lane edges: 0, closing positions near multiples of the lane length, and the text's length."""
        count = len(atoms)
        lanes = min(_MOST_LANES, count // min(max(count // _LANES, _LANE[0]), _LANE[1]))
        edges = np.linspace(0, count, lanes + 1).astype(np.int64)[1:-1] if lanes > 1 else np.empty(0, np.int64)
        found = [np.array([0, count])]
        for reach in _SEARCH:
            if len(edges) == 0:
                break
            # the edges still open, thinned so that the search costs at most one pass over the text
            edges = edges[:: max(1, len(edges) * reach // (4 * count))]
            position = np.minimum(edges[:, None] + np.arange(reach), count - 1)
            closing = self.closes[atoms[position - 1].astype(np.int64) * (self.end + 1) + atoms[position]]
            first = closing.argmax(axis=1)
            hit = closing[np.arange(len(edges)), first]
            found.append(position[np.arange(len(edges)), first][hit])
            edges = edges[~hit]
        return np.unique(np.concatenate(found))

    def run_lanes(
        self,
        atoms: NDArray[np.uint8],
        begins: NDArray[np.bool_],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
    ) -> None:
        """Fill ``begins`` for the lanes, which come longest first."""
        steps = int(lengths[0])
        live = np.searchsorted(-lengths, -np.arange(steps), side="left").tolist()  # lanes with a step t
        count = len(starts)
        symbols = np.empty((steps, count), np.uint8)
        position = starts.copy()
        for t, n in enumerate(live):
            atoms.take(position[:n], out=symbols[t, :n], mode="clip")
            position += 1
        later = np.zeros((steps, count), np.bool_)  # an earlier stage begins a piece here
        path = np.zeros((steps, count), np.int64)  # oracle states, then walk states
        index = np.empty(count, np.int64)
        for number, stage in enumerate(self.stages):
            if number:  # tell the oracle where an earlier stage ends the text
                symbols[:-1] += later[1:] * np.uint8(stage.atoms)
            state = np.zeros(count, np.int64)
            for t in range(steps - 1, -1, -1):
                n = live[t]
                np.add(state[:n], symbols[t, :n], out=index[:n])
                stage.oracle.take(index[:n], out=state[:n], mode="clip")
                path[t, :n] = state[:n]
            if number:
                symbols[:-1] -= later[1:] * np.uint8(stage.atoms)
                path += later * np.int64(stage.restart)
            state = np.zeros(count, np.int64)
            for t, n in enumerate(live):
                np.add(state[:n], path[t, :n], out=index[:n])
                state = path[t]
                stage.walk.take(index[:n], out=state[:n], mode="clip")
            np.greater_equal(path, stage.first, out=later)
        position = starts.copy()
        for t, n in enumerate(live):
            begins[position[:n]] = later[t, :n]
            position += 1

    def run_alone(self, atoms: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """The same for one stretch, by the standard library's ``re`` over the atoms' bytes."""
        data = atoms.tobytes()
        ends = np.flatnonzero(atoms == self.end)
        bounds = np.unique(np.concatenate(([0], ends, ends + 1, [len(data)]))).tolist()
        for stage in self.stages:
            # added tokens, and the pieces of an earlier stage, are texts of their own
            refined = [0]
            for start, stop in pairwise(bounds):
                if data[start] == self.end:
                    refined.append(stop)
                else:
                    refined += [start + match.end() for match in stage.pattern.finditer(data[start:stop])]
            bounds = refined
        begins = np.zeros(len(data), np.bool_)
        begins[bounds[:-1]] = True
        return begins
