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
from .bits import Bits, bits, once
from .tables import Array, take
from .utf8 import PADDING, Characters, behind, of_character, of_next


@dataclass(frozen=True)
class SymbolTables:
    """``of_byte``: int32 (256,); ``of_character``: int32 by code point, ASCII included; -1 where there is none,
    as for the last one and all beyond it.

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


@dataclass(frozen=True)
class Stream:
    """The first symbols of a text, one after another.

    ``symbols``: int32, a byte that the vocabulary lacks is -1; ``at``: int32, the byte at which each begins;
    ``marks``: the bytes at which one does.  What lies behind the last symbol is without meaning.
    """

    symbols: jax.Array
    at: jax.Array
    marks: Bits


jax.tree_util.register_dataclass(Stream, ["symbols", "at", "marks"], [])


def stream(data: jax.Array, characters: Characters, begins: jax.Array, part: int, tables: SymbolTables) -> Stream:
    """The first symbols of a text, uint8, whose pieces begin at the bytes ``begins``, bool.

    ``part``: of so many symbols are the blocks that are moved together at once; all, if that is the whole size.
    """
    size = len(data)

    def of_ascii() -> tuple[jax.Array, jax.Array]:
        whole = take(tables.of_character, characters.point)
        of_bytes = take(tables.of_byte, data.astype(jnp.int32))
        return jnp.where(whole < 0, of_bytes, whole), jnp.ones(size, jnp.bool_)

    def of_any() -> tuple[jax.Array, jax.Array]:
        return _symbols(data, characters, begins, tables)

    if part == size:
        symbols, present = once(of_any())
    else:
        symbols, present = lax.cond(jnp.all((data < 0x80) | (data >= PADDING)), of_ascii, of_any)
    marks = bits(present)

    def together() -> tuple[jax.Array, jax.Array]:
        def some(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            done, at = state
            found = marks.select(done + jnp.arange(part, dtype=jnp.int32))
            return done + part, lax.dynamic_update_slice(at, found, (done,))

        start = (jnp.int32(0), jnp.zeros(size, jnp.int32))
        _, at = lax.while_loop(lambda state: state[0] < marks.count, some, start)
        return take(symbols, at), at

    if part == size:
        at = marks.select(jnp.arange(size, dtype=jnp.int32))
        return Stream(take(symbols, at), at, marks)
    found: tuple[jax.Array, jax.Array] = lax.cond(
        marks.count == size, lambda: (symbols, jnp.arange(size, dtype=jnp.int32)), together
    )
    return Stream(*found, marks)


def _symbols(
    data: jax.Array, characters: Characters, begins: jax.Array, tables: SymbolTables
) -> tuple[jax.Array, jax.Array]:
    """A symbol for each byte, and whether there is one: whole characters have theirs at their first byte."""
    first, point, size = characters.first, characters.point, characters.size
    whole, row = once((take(tables.of_character, point), take(tables.row, point)))
    edge = begins | (data == PADDING)
    asked = jnp.maximum(row, 0) * 32
    allowed = edge | _has_bit(tables.before, asked, behind(data, 1, 0))
    allowed &= of_next(size, edge, 1) | _has_bit(tables.after, asked, of_next(size, data, 0))
    broken = of_character(first, (whole < 0) | ((row >= 0) & ~allowed))
    symbols = jnp.where(broken, take(tables.of_byte, data.astype(jnp.int32)), whole)
    return symbols, first | broken


def _has_bit(sets: Array, at: jax.Array, data: jax.Array) -> jax.Array:
    byte = data.astype(jnp.int32)
    return take(sets, at + (byte >> 3)) >> (byte & 7).astype(jnp.uint8) & 1 != 0
