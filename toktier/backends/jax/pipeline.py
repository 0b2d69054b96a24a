"""From bytes to ids: all stages as one function, which XLA compiles for one size of text.

Every token is written at a byte of its own: the n-th token of a piece at the n-th byte of the piece.  So the
output is in order without any count of tokens before it, and compacting it is the last step.

Work that depends on the text (how many pieces, how many words to merge) is done in blocks of fixed size, as many
as there is work for.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from .bits import Bits, bits, pack
from .merging import merge_words
from .pieces import LONG, WholeTables, find_whole, words_of
from .splitting import SplitTables, piece_starts
from .symbols import SymbolTables, first_symbols
from .tables import DeviceTables
from .utf8 import ADDED, PADDING, decode

#: What stands in the output for an added token, and for a piece that the host encodes.
ADDED_TOKEN, LEFT = -2, -3
_NONE = -1
#: The most bytes of the words that are merged together; longer ones are left to the host.
WIDTHS = (16, 32, 128, 1024)
#: The ids of a text come in so many arrays, so that a host need not fetch what is empty.
PARTS = 8


@dataclass(frozen=True)
class Tables:
    """All tables of a tokenizer."""

    split: SplitTables
    whole: WholeTables
    symbols: SymbolTables
    merges: DeviceTables


jax.tree_util.register_dataclass(Tables, ["split", "whole", "symbols", "merges"], [])


@dataclass(frozen=True)
class Sizes:
    """How much is done at once: lanes of a pre-tokenizer stage, and bytes of words that are merged together."""

    lanes: int
    merged: int


@dataclass(frozen=True)
class Encoded:
    """What :func:`encode` gives, all int32.

    ``header``: the number of tokens, that of the pieces left to the host, and the longest lane.  ``parts``: the
    ids, :data:`PARTS` arrays one after another; -2 for an added token and -3 for a piece that the host encodes.
    ``places``: likewise, the bytes at which the tokens were written: where a piece left to the host begins.
    """

    header: jax.Array
    parts: tuple[jax.Array, ...]
    places: tuple[jax.Array, ...]


jax.tree_util.register_dataclass(Encoded, ["header", "parts", "places"], [])


def starts_of(data: jax.Array, tables: SplitTables, sizes: Sizes) -> tuple[jax.Array, jax.Array]:
    """Where pieces begin, a bit for each byte in uint32 words; and the longest lane."""
    begins, longest = piece_starts(data, decode(data), tables, sizes.lanes)
    return pack(begins), longest


def encode(data: jax.Array, tables: Tables, sizes: Sizes) -> Encoded:
    """Encode a text: uint8, UTF-8 with :data:`~.utf8.ADDED` for each added token, padded with PADDING."""
    size = len(data)
    begins, longest = piece_starts(data, decode(data), tables.split, sizes.lanes)
    stop = jnp.sum(data != PADDING, dtype=jnp.int32)
    out = _encode_pieces(data, bits(begins), stop, tables, sizes)
    written = bits(out != _NONE)
    left = jnp.sum(out == LEFT, dtype=jnp.int32)

    part = size // PARTS

    def fill(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        done, places = state
        some = written.select(done + jnp.arange(part, dtype=jnp.int32))
        return done + part, lax.dynamic_update_slice(places, some, (done,))

    start = (jnp.int32(0), jnp.full(size, size, jnp.int32))
    _, places = lax.while_loop(lambda state: state[0] < written.count, fill, start)
    parts = places.reshape(PARTS, part)
    ids = [out[jnp.minimum(some, size - 1)] for some in parts]
    return Encoded(jnp.stack((written.count, left, longest)), tuple(ids), tuple(parts))


def _encode_pieces(data: jax.Array, begins: Bits, stop: jax.Array, tables: Tables, sizes: Sizes) -> jax.Array:
    """The tokens of all pieces, each at a byte of its own: int32 of the shape of ``data``, -1 elsewhere."""
    size = len(data)
    block = size // 4
    words = words_of(data)

    def some(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        done, out = state
        starts = jnp.minimum(begins.select(done + jnp.arange(block + 1, dtype=jnp.int32)), stop)
        starts, lengths = starts[:-1], starts[1:] - starts[:-1]
        found = find_whole(words, starts, lengths, tables.whole)
        added = (lengths > 0) & (data[jnp.minimum(starts, size - 1)] == ADDED)
        missing = (found < 0) & (lengths > 0) & ~added
        found = jnp.where(added, ADDED_TOKEN, found)
        found = jnp.where((found == LONG) | (missing & (lengths > WIDTHS[-1])), LEFT, found)
        out = _write(out, starts, found, found != _NONE)
        least = 0
        for width in WIDTHS:
            wanted = bits(missing & (lengths > least) & (lengths <= width))
            out = _merge_pieces(data, starts, lengths, wanted, width, tables, sizes, out)
            least = width
        return done + block, out

    start = (jnp.int32(0), jnp.full(size, _NONE, jnp.int32))
    return lax.while_loop(lambda state: state[0] < begins.count, some, start)[1]


def _merge_pieces(
    data: jax.Array,
    starts: jax.Array,
    lengths: jax.Array,
    wanted: Bits,
    width: int,
    tables: Tables,
    sizes: Sizes,
    out: jax.Array,
) -> jax.Array:
    """BPE of the ``wanted`` among the pieces, none of which is longer than ``width``."""
    count = max(1, min(sizes.merged // width, len(data) // width))

    def some(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        done, out = state
        number = done + jnp.arange(count, dtype=jnp.int32)
        which = jnp.minimum(wanted.select(number), len(starts) - 1)
        begin, length = starts[which], jnp.where(number < wanted.count, lengths[which], 0)
        symbols, counts = first_symbols(data, begin, length, width, tables.symbols)
        place = jnp.arange(width, dtype=jnp.int32)
        unknown = jnp.any((symbols < 0) & (place < counts[:, None]), axis=1)  # a byte that the vocabulary lacks
        symbols, counts = merge_words(symbols, jnp.where(unknown, 0, counts), tables.merges)
        symbols = jnp.where(unknown[:, None], LEFT, symbols)
        counts = jnp.where(unknown, 1, counts)
        out = _write(out, (begin[:, None] + place).ravel(), symbols.ravel(), (place < counts[:, None]).ravel())
        return done + count, out

    return lax.while_loop(lambda state: state[0] < wanted.count, some, (jnp.int32(0), out))[1]


def _write(out: jax.Array, place: jax.Array, values: jax.Array, where: jax.Array) -> jax.Array:
    nowhere = len(out) + jnp.arange(len(place), dtype=jnp.int32)  # all different: no write waits for another
    return out.at[jnp.where(where, place, nowhere)].set(values, mode="drop", unique_indices=True)
