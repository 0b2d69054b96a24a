"""The symbols that the words of a text start from: bytes, and whole characters where that is certified.

See :mod:`toktier.bpe.symbols`, which says why and does the same with numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...bpe.symbols import FirstSymbols
from .tables import Array
from .utf8 import PADDING, behind, decode, of_character, of_next


@dataclass(frozen=True)
class SymbolTables:
    """``of_byte``: int32 (256,); ``of_character``: int32 (0x110000,), ASCII included; -1 where there is none.

    ``row``, ``before``, ``after``: see :class:`~toktier.bpe.symbols.Neighbours`, the bit sets flat.
    """

    of_byte: Array
    of_character: Array
    row: Array
    before: Array
    after: Array


jax.tree_util.register_dataclass(SymbolTables, ["of_byte", "of_character", "row", "before", "after"], [])


def symbol_tables(first: FirstSymbols) -> SymbolTables:
    """The tables of a tokenizer, on the host."""
    of_byte = first.of_byte.astype(np.int32)
    of_character = first.of_character.astype(np.int32)
    row = np.full(len(of_character), -1, np.int32)
    before = after = np.zeros(32, np.uint8)
    if first.neighbours is not None:
        of_character[:0x80] = of_byte[:0x80]
        row = first.neighbours.row
        # never empty, so that a look-up has something to read
        before = np.append(first.neighbours.before.ravel(), before)
        after = np.append(first.neighbours.after.ravel(), after)
    return SymbolTables(of_byte, of_character, row, before, after)


def first_symbols(
    data: jax.Array, starts: jax.Array, lengths: jax.Array, width: int, tables: SymbolTables
) -> tuple[jax.Array, jax.Array]:
    """The first symbols of words: int32 (words, ``width``), and how many each has, int32 (words,).

    ``data``: uint8, the text; ``starts``, ``lengths``: int32, the words in bytes, of which none is longer than
    ``width``.  A byte that the vocabulary lacks is symbol -1.
    """
    place = jnp.arange(width, dtype=jnp.int32)
    inside = place < lengths[:, None]
    at = jnp.minimum(starts[:, None] + place, len(data) - 1)
    window = jnp.where(inside, data[at], PADDING)
    characters = decode(window)
    first, size = characters.first, characters.size
    whole = tables.of_character[characters.point]

    row = tables.row[characters.point]
    edge_before = place == 0
    edge_after = place + size >= lengths[:, None]
    asked = jnp.maximum(row, 0) * 32
    last_before = behind(window, 1, 0).astype(jnp.int32)
    first_after = of_next(size, window, 0).astype(jnp.int32)
    allowed = edge_before | _has_bit(tables.before, asked, last_before)
    allowed &= edge_after | _has_bit(tables.after, asked, first_after)
    broken = of_character(first, (whole < 0) | ((row >= 0) & ~allowed))

    symbols = jnp.where(broken, tables.of_byte[window.astype(jnp.int32)], whole)
    present = inside & (first | broken)
    together: tuple[jax.Array, jax.Array] = lax.cond(
        jnp.all(present == inside), lambda: (symbols, lengths), lambda: _together(symbols, present)
    )
    return together


def _together(symbols: jax.Array, present: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The symbols that are present, without the holes between them."""
    words, width = symbols.shape
    rank = jnp.cumsum(present, axis=1, dtype=jnp.int32)
    column = jnp.where(present, rank - 1, width)
    dense = jnp.zeros_like(symbols)
    dense = dense.at[jnp.arange(words)[:, None], column].set(symbols, mode="drop")
    return dense, rank[:, -1]


def _has_bit(sets: Array, at: jax.Array, byte: jax.Array) -> jax.Array:
    found: jax.Array = jnp.asarray(sets)[at + (byte >> 3)] >> (byte & 7).astype(jnp.uint8) & 1 != 0
    return found
