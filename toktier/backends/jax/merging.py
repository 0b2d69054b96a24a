"""BPE of many words at once, as array operations that XLA compiles for any device.

A round merges, in every word, the leftmost occurrence of its pair of least rank, which is one step of the
reference's algorithm in each (:mod:`toktier.bpe.batch` does the same with numpy).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from .tables import NO_RANK, DeviceTables, find_ranks, take


def merge_words(symbols: jax.Array, lengths: jax.Array, tables: DeviceTables) -> tuple[jax.Array, jax.Array]:
    """Merge words until no rule applies.

    ``symbols``: int32 (words, width), the first symbols of a word in each row; ``lengths``: int32 (words,), how
    many it has.  What lies beyond is not looked at.  Returns the symbols left, and how many they are, of the same
    shapes; what lies beyond those is without meaning.
    """
    width = symbols.shape[1]
    place = jnp.arange(width, dtype=jnp.int32)[:, None]
    row = symbols.T  # words side by side, so that a step over the places of a word is one over vectors

    def shifted(array: jax.Array, filler: int) -> jax.Array:
        return jnp.pad(array[1:], ((0, 1), (0, 0)), constant_values=filler)

    def at_place(array: jax.Array, at: jax.Array) -> jax.Array:
        return jnp.take_along_axis(array, jnp.clip(at, 0, width - 1)[None], axis=0)[0]

    State = tuple[jax.Array, jax.Array, jax.Array, jax.Array]

    def merge_one(state: State) -> State:
        row, ranks, lengths, least = state
        merging = least < NO_RANK
        at = jnp.min(jnp.where((ranks == least) & merging, place, width), axis=0)
        merged = take(tables.result, jnp.where(merging, least, 0))
        left, right = at_place(row, at - 1), at_place(row, at + 2)
        lengths = lengths - merging
        new = find_ranks(jnp.stack((left, merged)), jnp.stack((merged, right)), tables)
        before = jnp.where(at > 0, new[0], NO_RANK)
        after = jnp.where(at + 1 < lengths, new[1], NO_RANK)
        row = jnp.where(place == at, merged, jnp.where(place > at, shifted(row, 0), row))
        ranks = jnp.where(place > at, shifted(ranks, NO_RANK), ranks)
        ranks = jnp.where(place == at, after, jnp.where(place == at - 1, before, ranks))
        ranks = jnp.where(merging, ranks, NO_RANK)
        return row, ranks, lengths, jnp.min(ranks, axis=0)

    ranks = find_ranks(row, shifted(row, -1), tables)
    ranks = jnp.where(place + 1 < lengths, ranks, NO_RANK)
    state = (row, ranks, lengths, jnp.min(ranks, axis=0))
    row, _, lengths, _ = lax.while_loop(lambda state: jnp.any(state[3] < NO_RANK), merge_one, state)
    return row.T, lengths
