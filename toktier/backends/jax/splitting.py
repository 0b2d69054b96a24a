"""Piece starts on the device: windows of a few characters, and lanes for what they leave open.

The steps are those of :mod:`toktier.patterns.lanes`, on bytes instead of characters: a byte inside a character is
a step that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...compiled import Split
from ...patterns import lanes
from ...patterns.windows import BEGINS, CLOSES, UNKNOWN
from .bits import bits_of_words, first_after, first_of_stretches, last_at, once, pack
from .tables import Array, take
from .utf8 import PADDING, Characters, of_next, of_previous

#: A longer stretch that windows leave open is not walked, and the text is left to another backend.
LONGEST_LANE = 1 << 13


#: A kernel that walks lanes: :func:`.pallas_lanes.walk_lanes`.
Walk: TypeAlias = Callable[..., jax.Array]


@dataclass(frozen=True)
class StageTables:
    """One stage of a pre-tokenizer; see :class:`~toktier.patterns.lanes.Stage`.

    ``windows``: uint8, flat, over ``reach`` symbols.
    """

    oracle: Array
    walk: Array
    windows: Array
    reach: int
    symbols: int
    atoms: int
    restart: int
    first: int


jax.tree_util.register_dataclass(
    StageTables, ["oracle", "walk", "windows"], ["reach", "symbols", "atoms", "restart", "first"]
)


@dataclass(frozen=True)
class SplitTables:
    """All stages.  ``atom_of``: uint8 (0x110000,); ``end``: the number of the end atom."""

    atom_of: Array
    stages: tuple[StageTables, ...]
    end: int


jax.tree_util.register_dataclass(SplitTables, ["atom_of", "stages"], ["end"])


def split_tables(split: Split) -> SplitTables:
    """The tables of a tokenizer, on the host."""
    stages = tuple(map(_stage_tables, split.splitter.stages))
    return SplitTables(split.atom_of, stages, split.splitter.end)


def _stage_tables(stage: lanes.Stage) -> StageTables:
    if stage.windows is not None:
        windows = stage.windows.near
    else:  # all that is known is where the stage may be run apart
        windows = np.where(stage.closes, CLOSES | UNKNOWN, UNKNOWN).astype(np.uint8)
    return StageTables(
        stage.oracle.astype(np.int32),
        stage.walk.astype(np.int32),
        windows.ravel(),
        windows.ndim,
        len(windows),
        stage.atoms,
        stage.restart,
        stage.first,
    )


def piece_starts(
    data: jax.Array, characters: Characters, tables: SplitTables, lane_count: int, walk: Walk | None = None
) -> tuple[jax.Array, jax.Array]:
    """Where pieces begin, bool over the bytes, and the length of the longest lane, an int32 scalar.

    An added token is one piece.  The starts are right if no lane was longer than :data:`LONGEST_LANE`.
    ``lane_count``: how many lanes are run together; ``walk``: the kernel that runs all of them at once.
    """
    first, text = characters.first, data < PADDING
    atoms = once(jnp.where(text, take(tables.atom_of, once(characters.point)).astype(jnp.int32), tables.end))
    inside = data != PADDING
    begins: jax.Array | None = None
    longest = jnp.int32(0)
    for stage in tables.stages:
        begins, lane = _run(atoms, characters, begins, inside, stage, tables.end, lane_count, walk)
        longest = jnp.maximum(longest, lane)
    if begins is None:  # no stages: only added tokens cut
        added = first & ~text
        begins = first & (added | of_previous(first, added, 1))
    return begins & inside, longest


def _run(
    atoms: jax.Array,
    characters: Characters,
    earlier: jax.Array | None,
    inside: jax.Array,
    stage: StageTables,
    end: int,
    lane_count: int,
    walk: Walk | None,
) -> tuple[jax.Array, jax.Array]:
    """One stage; ``earlier``: where the stages before it begin pieces."""
    first, size = characters.first, characters.size
    symbols = atoms if earlier is None else atoms + jnp.where(earlier, stage.atoms, 0)
    before = once(of_previous(first, symbols, end))
    index = before * stage.symbols + symbols
    if stage.reach == 4:
        index += of_previous(first, before, end) * stage.symbols**2
    if stage.reach > 2:
        index = index * stage.symbols + of_next(size, symbols, end)
    verdict = once(jnp.where(first & inside, take(stage.windows, index), 0))
    begins = verdict & BEGINS != 0
    closes = pack(verdict & CLOSES != 0)
    open_ = pack(verdict & UNKNOWN != 0)
    found = bits_of_words(first_of_stretches(open_, closes))

    seen = atoms  # by the oracle: an earlier stage ends the text behind this character
    if earlier is not None:
        seen = atoms + jnp.where(of_next(size, earlier, 0), stage.atoms, 0)
    seen = once(jnp.where(first, seen, -1))
    restarts = None if earlier is None else jnp.where(earlier, stage.restart, 0)
    stop = jnp.sum(inside, dtype=jnp.int32)

    def lanes_from(number: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Where the lanes with these numbers begin and end, and the length of the longest."""
        place = found.select(number)
        lane = number < found.count
        starts = jnp.where(lane, last_at(closes, place), 0)
        stops = jnp.where(lane, jnp.minimum(first_after(closes, place), stop), 0)
        return starts, stops, jnp.max(stops - starts)

    if walk is not None:
        # where a stage closes a piece begins for sure, so no lane has less than two places
        starts, stops, longest = lanes_from(jnp.arange(len(atoms) // 2, dtype=jnp.int32))
        stops = jnp.where(longest > LONGEST_LANE, starts, stops)
        restart = jnp.zeros_like(seen) if restarts is None else restarts
        begins = walk(begins, seen, restart, starts, stops, stage.oracle, stage.walk, stage.first)
        return begins, jnp.where(found.count > len(atoms) // 2, LONGEST_LANE + 1, longest)

    State = tuple[jax.Array, jax.Array, jax.Array, jax.Array]

    def run_some(state: State) -> State:
        done, begins, path, longest = state
        starts, stops, most = lanes_from(done + jnp.arange(lane_count, dtype=jnp.int32))
        steps = jnp.minimum(most, LONGEST_LANE)
        path = _back(stage, seen, starts, stops, steps, path)
        begins = _forth(stage, first, restarts, path, starts, stops, steps, begins)
        return done + lane_count, begins, path, jnp.maximum(longest, most)

    start = (jnp.int32(0), begins, jnp.zeros(len(atoms), jnp.int32), jnp.int32(0))
    _, begins, _, longest = lax.while_loop(lambda state: state[0] < found.count, run_some, start)
    return begins, longest


def _back(
    stage: StageTables, seen: jax.Array, starts: jax.Array, stops: jax.Array, steps: jax.Array, path: jax.Array
) -> jax.Array:
    """The oracle, from the right: its states are written into ``path``."""
    size = len(path)

    def step(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        count, now, path = state
        place = stops - 1 - count
        symbol = take(seen, place)
        live = (place >= starts) & (symbol >= 0)
        now = jnp.where(live, take(stage.oracle, now + symbol), now)
        return count + 1, now, _put(path, place, live, now, size)

    return lax.while_loop(lambda state: state[0] < steps, step, (jnp.int32(0), jnp.zeros_like(starts), path))[2]


def _forth(
    stage: StageTables,
    first: jax.Array,
    restarts: jax.Array | None,
    path: jax.Array,
    starts: jax.Array,
    stops: jax.Array,
    steps: jax.Array,
    begins: jax.Array,
) -> jax.Array:
    """The walk, from the left, along the oracle's ``path``."""
    size = len(path)

    def step(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        count, now, begins = state
        place = starts + count
        live = (place < stops) & take(first, place)
        seen = take(path, place) if restarts is None else take(path, place) + take(restarts, place)
        now = jnp.where(live, take(stage.walk, now + seen), now)
        return count + 1, now, _put(begins, place, live, now >= stage.first, size)

    return lax.while_loop(lambda state: state[0] < steps, step, (jnp.int32(0), jnp.zeros_like(starts), begins))[2]


def _put(array: jax.Array, place: jax.Array, where: jax.Array, values: jax.Array, size: int) -> jax.Array:
    nowhere = size + jnp.arange(len(place), dtype=jnp.int32)  # all different, so that no write waits for another
    return array.at[jnp.where(where, place, nowhere)].set(values, mode="drop", unique_indices=True)
