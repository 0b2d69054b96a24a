"""Running the machines of a pre-tokenizer over a whole text with numpy.

Each stage is decided by windows of a few symbols where they suffice (:mod:`~toktier.patterns.windows`).  What
even the wider ones leave open lies in stretches between two places at which the stage may be run apart.  Each
stretch is a lane, and all lanes take their steps together: first the oracle from the right, then the walk from
the left.

Added tokens are marked by the end atom, which ends one text and begins the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, islice, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..records import record
from .bimachine import Machine
from .windows import BEGINS, CLOSES, UNKNOWN, Windows

#: Lanes that are run together; more would not fit the processor's cache.
_MOST_LANES = 8192
#: A longer lane is left to the standard library's ``re``, and so are the longest of the others: a step costs about
#: the same however few lanes take it, and a lane that is left to ``re`` costs as much as so many steps.
_LONGEST_LANE = 512
_STEPS = 2
#: Symbols whose windows are looked up in one go.
_BLOCK = 1 << 15
#: Flags so near are looked for step by step, unless that is for one of so many places.
_NEAR, _MANY = 64, 8


@record
class Stage:
    """One pre-tokenizer stage, ready to run.

    ``oracle`` and ``walk`` are flat, of dtype int64, and indexed by oracle state times a stride plus a symbol
    (``oracle``) or a walk state (``walk``), so that a step is one addition and one look-up; oracle states are
    stored multiplied.  Symbols from ``atoms`` on mean the same atoms, where an earlier stage begins a piece at
    the next character; the walk table from ``restart`` on is for characters at which one does.
    ``needs``: the atoms with which its matches may begin, if they are few: without them the stage cuts nothing.
    """

    oracle: NDArray[np.int64]
    walk: NDArray[np.int64]
    atoms: int
    restart: int
    first: int  # least walk state that begins a piece
    pattern: re.Pattern[bytes]  # the same stage for ``re``, over atoms
    closes: NDArray[np.bool_]  # see :func:`~toktier.patterns.windows.closing_symbols`
    windows: Windows | None
    needs: Sequence[int] | None


def make_stage(
    machine: Machine,
    pattern: re.Pattern[bytes],
    closes: NDArray[np.bool_],
    windows: Windows | None,
    needs: Sequence[int] | None,
) -> Stage:
    """Lay the machine's tables out for stepping."""
    states, atoms = machine.oracle.shape
    stride = max(2 * atoms, len(machine.walk))
    oracle = np.zeros((states, stride), np.int64)
    oracle[:, :atoms] = machine.oracle
    oracle[:, atoms : 2 * atoms] = machine.oracle[0]
    walk = np.zeros((2, states, stride), np.int64)
    walk[0, :, : len(machine.walk)] = machine.walk.T
    walk[1] = machine.walk[0][:, None]
    flat = (oracle * stride).ravel(), walk.ravel()
    return Stage(*flat, atoms, states * stride, machine.first, pattern, closes, windows, needs)


@record
class Splitter:
    """All stages of a pre-tokenizer.  ``end`` is the number of the end atom."""

    stages: tuple[Stage, ...]
    end: int

    def piece_starts(self, atoms: NDArray[np.uint8], begins: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Where pieces begin: bool array of the shape of ``atoms``.

        Every end atom begins a piece; the caller removes those inside an added token.  ``begins``: where stages
        before these begin pieces, if there are any.
        """
        if len(atoms) == 0:
            return np.zeros(0, np.bool_)
        for stage in self.stages:
            if _may_cut(stage, atoms):
                begins = self._run(stage, atoms, begins)
        if begins is None:  # only added tokens cut
            begins = atoms == self.end
            begins[1:] |= begins[:-1]
            begins[0] = True
        return begins

    def _run(self, stage: Stage, atoms: NDArray[np.uint8], earlier: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """One stage; ``earlier``: where the stages before it begin pieces."""
        symbols = atoms if earlier is None else atoms + earlier * np.uint8(stage.atoms)
        if stage.windows is None:
            begins = np.zeros(len(atoms), np.bool_)
            starts = np.flatnonzero(_look_up(stage.closes, symbols, self.end) != 0)
            lengths = np.diff(starts, append=len(atoms))
        else:
            verdict = _look_up(stage.windows.near, symbols, self.end)
            unknown = np.flatnonzero(_has(verdict, UNKNOWN))
            farther = _look_farther(stage.windows, symbols, unknown, self.end)
            verdict[unknown] |= farther
            begins = (verdict & BEGINS).view(np.bool_)
            unknown = unknown[farther == UNKNOWN]
            if len(unknown) == 0:
                return begins
            closes = np.append(_has(verdict, CLOSES), np.True_)
            starts = _nearest(closes, unknown, -1)
            first = np.flatnonzero(np.diff(starts, prepend=-1))
            starts = starts[first]
            lengths = _nearest(closes, unknown[first] + 1, 1) - starts
        order = np.argsort(lengths, kind="stable")[::-1]
        starts, lengths = starts[order], lengths[order]
        longest = int(np.searchsorted(-lengths, -_LONGEST_LANE))
        long = max(longest, int(np.argmin(np.append(lengths, 0) + _STEPS * np.arange(len(lengths) + 1))))
        for start, length in zip(starts[:long].tolist(), lengths[:long].tolist(), strict=True):
            stretch = slice(start, start + length)
            bounds = [0, length] if earlier is None else [*np.flatnonzero(earlier[stretch]).tolist(), length]
            found = _refine(stage, atoms[stretch].tobytes(), bounds if bounds[0] == 0 else [0, *bounds], self.end)
            begins[stretch] = False
            begins[start + np.array(found[:-1])] = True
        for batch in range(long, len(starts), _MOST_LANES):
            lanes = slice(batch, batch + _MOST_LANES)
            _run_lanes(stage, atoms, earlier, begins, starts[lanes], lengths[lanes])
        return begins

    def run_alone(self, atoms: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """:meth:`piece_starts` by the standard library's ``re`` alone, over the atoms' bytes."""
        data = atoms.tobytes()
        ends = np.flatnonzero(atoms == self.end)
        bounds = sorted({0, *ends.tolist(), *(ends + 1).tolist(), len(data)})
        for stage in self.stages:
            bounds = _refine(stage, data, bounds, self.end)
        begins = np.zeros(len(data), np.bool_)
        begins[bounds[:-1]] = True
        return begins


def _may_cut(stage: Stage, atoms: NDArray[np.uint8]) -> bool:
    """Whether the text has any of the atoms that the stage needs."""
    if stage.needs is None:
        return True
    data = atoms.tobytes()  # in which an atom is found fastest
    return any(atom in data for atom in stage.needs)


def _refine(stage: Stage, data: bytes, bounds: list[int], end: int) -> list[int]:
    """Cut the pieces between ``bounds``, each a text of its own, by the stage's pattern."""
    refined = [0]
    for start, stop in pairwise(bounds):
        if data[start] == end:
            refined.append(stop)
        else:
            lengths = map(len, stage.pattern.findall(data[start:stop]))
            refined += islice(accumulate(lengths, initial=start), 1, None)
    return refined


def _look_up(
    table: NDArray[np.uint8] | NDArray[np.bool_], symbols: NDArray[np.uint8], end: int
) -> NDArray[np.uint8]:
    """The entries of ``table`` at every place; beyond either end of the text there are end markers.

    A table of two dimensions is over the symbols before and from a place, one of three has one more after
    these, and one of four one more on either side.
    """
    count, width, reach = len(symbols), len(table), table.ndim
    padded = np.full(count + 3, end, np.uint8)
    padded[2:-1] = symbols
    flat = table.ravel().view(np.uint8)
    found = np.empty(count, np.uint8)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        block = padded[start : start + size + 3].astype(np.uint16)
        pair = block[:-1] * np.uint16(width)
        pair += block[1:]  # [p]: the symbols before and from place p - 1
        index = pair[1:-1].astype(np.uint32)
        if reach == 3:
            index *= np.uint32(width)
            index += block[3:]
        elif reach == 4:
            pairs = pair.astype(np.uint32)
            index = pairs[:-2] * np.uint32(width * width)
            index += pairs[2:]
        flat.take(index.astype(np.intp), out=found[start : start + size], mode="clip")
    return found


def _has(verdict: NDArray[np.uint8], bit: np.uint8) -> NDArray[np.bool_]:
    """Which verdicts have a bit."""
    found: NDArray[np.bool_] = verdict & bit != 0
    return found


def _look_farther(
    windows: Windows, symbols: NDArray[np.uint8], places: NDArray[np.int64], end: int
) -> NDArray[np.uint8]:
    """The verdicts of wider windows on some places, which are no end markers."""
    padded = np.full(len(symbols) + 4, end, np.uint8)
    padded[3:-1] = symbols
    before = windows.before[padded[places], padded[places + 1], padded[places + 2]]
    places = places + 3
    after = _nearest(padded[1:] != padded[:-1], places, 1) + 1
    longer = (after - places > 1).view(np.int8)
    return windows.far[before, windows.ahead[padded[places], padded[after], longer]]


def _nearest(flags: NDArray[np.bool_], places: NDArray[np.int64], step: int) -> NDArray[np.int64]:
    """The first flag from each of ``places`` on, to the right (``step`` 1) or left (-1); there must be one."""
    found = places.copy()
    move, advance = (~flags).view(np.int8), np.add if step > 0 else np.subtract
    pending = np.arange(len(places))
    near = _NEAR if len(places) <= len(flags) // _MANY else 0  # else many are in one long run, say
    for _ in range(near // 8):
        now = found[pending]
        for _ in range(8):
            advance(now, move.take(now), out=now)
        found[pending] = now
        pending = pending[move.take(now) != 0]
        if len(pending) == 0:
            return found
    flagged = np.flatnonzero(flags)
    side: Literal["left", "right"] = "left" if step > 0 else "right"
    found[pending] = flagged[np.searchsorted(flagged, found[pending], side) - (step < 0)]
    return found


def _run_lanes(
    stage: Stage,
    atoms: NDArray[np.uint8],
    earlier: NDArray[np.bool_] | None,
    begins: NDArray[np.bool_],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Fill ``begins`` for lanes, which come longest first."""
    count, steps = len(starts), int(lengths[0])
    live = np.searchsorted(-lengths, -np.arange(steps), side="left").tolist()  # lanes that have a step t
    symbols = np.empty((steps, count), np.uint8)
    cut = np.zeros((steps, count), np.bool_) if earlier is not None else None
    position = starts.copy()
    for t, n in enumerate(live):
        atoms.take(position[:n], out=symbols[t, :n], mode="clip")
        if earlier is not None and cut is not None:
            earlier.take(position[:n], out=cut[t, :n], mode="clip")
        position += 1
    if cut is not None:  # tell the oracle where an earlier stage ends the text
        symbols[:-1] += cut[1:] * np.uint8(stage.atoms)
    path = np.zeros((steps, count), np.int64)  # oracle states, then walk states
    index = np.empty(count, np.int64)
    state = np.zeros(count, np.int64)
    for t in range(steps - 1, -1, -1):
        n = live[t]
        np.add(state[:n], symbols[t, :n], out=index[:n])
        stage.oracle.take(index[:n], out=state[:n], mode="clip")
        path[t, :n] = state[:n]
    if cut is not None:
        path += cut * np.int64(stage.restart)
    state = np.zeros(count, np.int64)
    position = starts.copy()
    for t, n in enumerate(live):
        np.add(state[:n], path[t, :n], out=index[:n])
        state = path[t]
        stage.walk.take(index[:n], out=state[:n], mode="clip")
        begins[position[:n]] = state[:n] >= stage.first
        position += 1
