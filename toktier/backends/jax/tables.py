"""Exact look-up tables in device memory: columns of 32-bit numbers, two probes a look-up.

JAX has no 64-bit integers unless they are switched on for the whole process, so a key is several columns of
``uint32``, compared in full.  The tables are cuckoo hash tables (Pagh and Rodler, 2004): a key lies in one of two
slots that its hash names, so that a look-up reads both, has no loop, and takes every key the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from ...bpe.tables import Merges

#: On the host while it is made, on the device when it is used.
Array: TypeAlias = jax.Array | NDArray[Any]

#: The rank of a pair that no rule merges: greater than every rank.
NO_RANK = 0x7FFFFFFF
#: No id and no symbol.
NOTHING = 0xFFFFFFFF

#: Two choices for each key fill a table up to a half; close to that, placing them takes long.
_MOST_FILLED = 0.45
_MOST_ROUNDS = 1000


@dataclass(frozen=True)
class DeviceTables:
    """The merge rules of a vocabulary.

    ``pair_left``, ``pair_right``: uint32 of a power-of-two length, the pairs of ids that are merged,
    :data:`NOTHING` in empty slots; ``pair_rank``: int32, their ranks.  ``result``: int32 (rules,), the id that a
    rule makes, by rank.  ``seed``: chooses the hash.
    """

    pair_left: Array
    pair_right: Array
    pair_rank: Array
    result: Array
    seed: int


jax.tree_util.register_dataclass(DeviceTables, ["pair_left", "pair_right", "pair_rank", "result"], ["seed"])


def take(array: Array, place: jax.Array) -> jax.Array:
    """The elements of a vector at these places; beyond either end the nearest.

    Indexing would count places below 0 from the end, which takes more steps, and more time to trace.
    """
    vector = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    found: jax.Array = lax.gather(jnp.asarray(array), place[..., None], vector, (1,), mode="clip")
    return found


def device_tables(merges: Merges) -> DeviceTables:
    """Lay the rules out and put them on the default device."""
    seed, slot, size = cuckoo([merges.left, merges.right])
    left, right = np.full((2, size), NOTHING, np.uint32)
    rank = np.full(size, NO_RANK, np.int32)
    left[slot], right[slot], rank[slot] = merges.left, merges.right, np.arange(len(slot))
    result = np.append(merges.result, 0).astype(np.int32)  # never empty, so that a look-up has something to read
    found: DeviceTables = jax.device_put(DeviceTables(left, right, rank, result, seed))
    return found


def find_ranks(left: jax.Array, right: jax.Array, tables: DeviceTables) -> jax.Array:
    """The ranks of pairs of symbols, int32; :data:`NO_RANK` where no rule merges them.

    ``left`` and ``right``: int32 of one shape, ids; -1 is the neighbour of none.
    """
    columns = [left.astype(jnp.uint32), right.astype(jnp.uint32)]
    one, two = slots(columns, len(tables.pair_left), tables.seed)

    def same(slot: jax.Array) -> jax.Array:
        return (take(tables.pair_left, slot) == columns[0]) & (take(tables.pair_right, slot) == columns[1])

    first = same(one)
    found = (first | same(two)) & (left >= 0)
    return jnp.where(found, take(tables.pair_rank, jnp.where(first, one, two)), NO_RANK)


# --- two slots for each key -------------------------------------------------------------


def slots(columns: list[Any], size: int, seed: int) -> tuple[Any, Any]:
    """The two slots of keys, int32: ``columns`` are uint32 arrays of numpy or of JAX, ``size`` a power of two.

    Multiply and shift, mixed twice (the constants are those of xxHash and MurmurHash3).
    """
    down = np.uint32(33 - size.bit_length())
    mixed = columns[0] * np.uint32(0x9E3779B1) + np.uint32(seed * 0x632BE5AB & NOTHING)
    for column in columns[1:]:
        mixed = (mixed ^ mixed >> np.uint32(15)) * np.uint32(0x85EBCA77) + column * np.uint32(0xC2B2AE3D)
    mixed = (mixed ^ mixed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    again = (mixed ^ mixed >> np.uint32(13)) * np.uint32(0x27D4EB2F)
    return (mixed >> down).astype(np.int32), ((again ^ again << np.uint32(15)) >> down).astype(np.int32)


def cuckoo(columns: list[NDArray[np.uint32]]) -> tuple[int, NDArray[np.int32], int]:
    """A slot for each of distinct keys: the seed of the hash, int32 slots, and the size of the table."""
    count = len(columns[0])
    size = 16
    while count > size * _MOST_FILLED:
        size *= 2
    for seed in range(100):
        found = _place(np.stack(slots(columns, size, seed)), size)
        if found is not None:
            return seed, found, size
    raise AssertionError("no hash of a hundred places all keys")  # each one does with a good chance


def _place(choices: NDArray[np.int32], size: int) -> NDArray[np.int32] | None:
    """One of two ``choices``, shape (2, keys), for each key; None if that takes too long.

    All keys without a place take their slot at once; who sat there, and who came second, try their other one.
    """
    keys = choices.shape[1]
    choice = np.zeros(keys, np.intp)
    owner = np.full(size, -1, np.intp)
    homeless = np.arange(keys)
    for _ in range(_MOST_ROUNDS):
        if len(homeless) == 0:
            return choices[choice, np.arange(keys)]
        wanted = choices[choice[homeless], homeless]
        before = owner[wanted]
        owner[wanted] = homeless
        won = owner[wanted] == homeless
        evicted = before[won]
        homeless = np.concatenate((homeless[~won], evicted[evicted >= 0]))
        choice[homeless] ^= 1
    return None
