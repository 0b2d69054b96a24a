"""The walk over what windows leave open of a pre-tokenizer stage, as a kernel: a thread has a lane.

The steps are those of :mod:`.splitting`; there each is a launch, and the host asks after each whether to go on.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .compat import Memory, kernel, program_id
from .tables import Array

#: Threads of a program, and lanes: one warp.
_LANES = 32


def walk_lanes(
    begins: jax.Array,
    seen: jax.Array,
    restarts: jax.Array,
    starts: jax.Array,
    stops: jax.Array,
    oracle: Array,
    walk: Array,
    first: int,
    *,
    interpret: bool = False,
) -> jax.Array:
    """``begins``, bool over the bytes of a text, with where pieces begin in lanes that do not overlap.

    ``seen``: int32, the oracle's symbol of each byte, -1 inside a character; ``restarts``: int32, what is added to
    the oracle's state at a byte before the walk looks it up.  ``starts``, ``stops``: int32 (lanes,), the bytes of
    each, none where they are equal.  ``oracle``, ``walk``, ``first``: see :class:`~.splitting.StageTables`.
    """
    size = begins.shape
    call = kernel(
        partial(_walk, first),
        (size, size),  # the second is for the oracle's states
        name="lanes",
        programs=-(-len(starts) // _LANES),
        warps=1,
        in_place={0: 0},
        interpret=interpret,
    )
    arrays = (begins.astype(jnp.int32), seen, restarts, starts, stops, oracle, walk)
    walked: jax.Array = call(*arrays)[0]
    return walked != 0


def _walk(first: int, device: Memory, *refs: Any) -> None:
    """32 lanes: the oracle from the right, which leaves its states in memory; then the walk along them."""
    _, seen, restarts, starts, stops, oracle, walk, begins, path = refs
    lane = program_id(0) * _LANES + jnp.arange(_LANES, dtype=jnp.int32)
    here = lane < starts.shape[0]
    start, stop = device.load(starts, lane, here, 0), device.load(stops, lane, here, 0)
    longest = jnp.max(stop - start)

    def back(count: jax.Array, state: jax.Array) -> jax.Array:
        place = stop - 1 - count
        symbol = device.load(seen, place, place >= start, -1)
        live = (place >= start) & (symbol >= 0)
        state = jnp.where(live, device.load(oracle, state + symbol, live, 0), state)
        device.store(path, place, state, live)
        return state

    def forth(count: jax.Array, state: jax.Array) -> jax.Array:
        place = start + count
        live = (place < stop) & (device.load(seen, place, place < stop, -1) >= 0)
        looked_up = state + device.load(path, place, live, 0) + device.load(restarts, place, live, 0)
        state = jnp.where(live, device.load(walk, looked_up, live, 0), state)
        device.store(begins, place, (state >= first).astype(jnp.int32), live)
        return state

    lax.fori_loop(0, longest, back, jnp.zeros_like(start))
    device.wait()
    lax.fori_loop(0, longest, forth, jnp.zeros_like(start))
