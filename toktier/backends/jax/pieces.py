"""Whole pieces that are one token: exact keys of four 32-bit words and the length."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ...bpe.hashing import ABSENT
from ...bpe.pieces import PieceTables
from .bits import once
from .tables import Array, cuckoo, slots, take
from .utf8 import ahead

#: The bytes of a piece that its key holds.
KEY_BYTES = 16
#: What stands for the id of a piece that is a token, but not one that merging makes, where the key does not hold
#: all of it: the host looks it up.
LONG = 0xFFFFFF
_ID_BITS = 24
_LONGEST = 255


@dataclass(frozen=True)
class WholeTables:
    """A cuckoo hash table of the pieces that are one token.

    ``words``: four columns of uint32, the first 16 bytes, little-endian, zeros behind the end; ``value``: uint32,
    the id and above it the length in bytes, at most 255; 0 in empty slots.
    """

    words: tuple[Array, Array, Array, Array]
    value: Array
    seed: int


jax.tree_util.register_dataclass(WholeTables, ["words", "value"], ["seed"])


def whole_tables(pieces: PieceTables) -> WholeTables:
    """The table of a tokenizer, on the host."""
    table = pieces.whole
    filled = np.flatnonzero(table.ids != ABSENT)
    low, high = table.low[filled], table.high[filled]
    lengths = (high >> np.uint64(56)).astype(np.uint32)
    high = high & np.uint64((1 << 56) - 1)
    long = np.array(sorted({_key(token) for token in pieces.whole_long}), np.uint32).reshape(-1, 5)
    halves = [half.astype(np.uint32) for word in (low, high) for half in (word, word >> np.uint64(32))]
    columns = [np.append(column, long[:, i]) for i, column in enumerate((*halves, lengths))]
    ids = np.append(table.ids[filled], np.full(len(long), LONG, np.uint32))
    seed, slot, size = cuckoo(columns)
    words = np.zeros((4, size), np.uint32)
    value = np.zeros(size, np.uint32)
    words[:, slot] = columns[:4]
    value[slot] = ids | columns[4] << np.uint32(_ID_BITS)
    return WholeTables((words[0], words[1], words[2], words[3]), value, seed)


def _key(token: bytes) -> tuple[int, ...]:
    first = np.frombuffer(token[:KEY_BYTES].ljust(KEY_BYTES, b"\0"), "<u4")
    return (*first.tolist(), min(len(token), _LONGEST))


def words_of(data: jax.Array) -> jax.Array:
    """For every place the four bytes from there on, uint32, little-endian."""
    byte = data.astype(jnp.uint32)
    return byte | ahead(byte, 1, 0) << 8 | ahead(byte, 2, 0) << 16 | ahead(byte, 3, 0) << 24


def find_whole(words: jax.Array, starts: jax.Array, lengths: jax.Array, tables: WholeTables) -> jax.Array:
    """The ids of pieces that are one token, int32; -1 for others and :data:`LONG` for what the host looks up.

    ``words``: what :func:`words_of` gives; ``starts``, ``lengths``: int32, the pieces in bytes.
    """
    key = []
    for column in range(4):
        kept = jnp.clip(lengths - 4 * column, 0, 4)
        mask = jnp.where(
            kept > 0, jnp.uint32(0xFFFFFFFF) >> (8 * (4 - jnp.maximum(kept, 1))).astype(jnp.uint32), 0
        )
        key.append(take(words, starts + 4 * column) & mask)
    size = jnp.minimum(lengths, _LONGEST).astype(jnp.uint32)
    key = once(key)
    choices = once(slots([*key, size], len(tables.value), tables.seed))

    def id_at(slot: jax.Array) -> jax.Array:
        value = take(tables.value, slot)
        same = value >> _ID_BITS == size
        for own, column in zip(key, tables.words, strict=True):
            same &= take(column, slot) == own
        return jnp.where(same & (lengths > 0), (value & LONG).astype(jnp.int32), -1)

    first, second = map(id_at, choices)
    return jnp.maximum(first, second)
