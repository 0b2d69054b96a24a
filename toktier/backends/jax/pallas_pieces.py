"""From pieces to tokens on a GPU: what :mod:`.pipeline` does in blocks, as one stretch of launches without a loop.

A GPU has lanes for every byte of a text, so nothing is done in blocks of what there is work for: each step runs
over as many places as the text could need, and the loops of BPE are inside the kernels (:mod:`.pallas_bpe`).  Then
all of it goes in one CUDA graph, and the host takes no part in it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from . import pieces
from .bits import bits
from .pallas_bpe import LONG, SHORT, merge_spans
from .pallas_tables import KernelTables
from .pieces import WholeTables, find_whole, words_of
from .symbols import SymbolTables, _has_bit
from .utf8 import ADDED, behind, decode, of_character, of_next

#: What stands in the output for an added token, and for a piece that the host encodes.
ADDED_TOKEN, LEFT = -2, -3
_NONE, _MERGED = -1, -4


def encode_pieces(
    data: jax.Array,
    begins: jax.Array,
    stop: jax.Array,
    whole: WholeTables,
    symbols: SymbolTables,
    merges: KernelTables,
    *,
    interpret: bool = False,
) -> jax.Array:
    """The tokens of all pieces, the n-th of a piece at its n-th byte: int32 of ``data``'s shape, -1 elsewhere.

    ``data``: uint8, UTF-8 with :data:`~.utf8.ADDED` for each added token, and padding behind it; ``begins``: bool,
    where pieces begin; ``stop``: int32, where the text ends.  ``interpret``: see
    :func:`~.pallas_bpe.merge_spans`.
    """
    size = len(data)
    place = jnp.arange(size, dtype=jnp.int32)
    edges = jnp.minimum(bits(begins).select(jnp.arange(size + 1, dtype=jnp.int32)), stop)
    starts, lengths = edges[:-1], edges[1:] - edges[:-1]
    symbol, present = _first_symbols(data, begins, stop, symbols)
    before = jnp.pad(jnp.cumsum(present, dtype=jnp.int32), (1, 0))
    lacking = jnp.pad(jnp.cumsum(present & (symbol < 0), dtype=jnp.int32), (1, 0))
    counts = before[edges[1:]] - before[starts]

    found = find_whole(words_of(data), starts, lengths, whole)
    added = data[jnp.minimum(starts, size - 1)] == ADDED
    left = (lengths > LONG[-1]) | (lacking[edges[1:]] > lacking[starts])  # too long; a byte that is no symbol
    outcome = jnp.where(found >= 0, found, jnp.where(left, LEFT, _MERGED))
    outcome = jnp.where(found == pieces.LONG, LEFT, outcome)
    outcome = jnp.where(added, ADDED_TOKEN, outcome)
    outcome_at = _scattered(starts, outcome, lengths > 0, size)

    own_start = lax.cummax(jnp.where(begins, place, 0))
    flat = _scattered(own_start + before[:-1] - before[own_start], symbol, present, size)
    to_merge = (outcome == _MERGED) & (lengths > 0)
    above = 1
    for limit in (*SHORT, *LONG):
        chosen = bits(to_merge & (counts > above) & (counts <= limit))
        number = jnp.arange(-(-size // (above + 1)), dtype=jnp.int32)  # there cannot be more of them
        which = jnp.minimum(chosen.select(number), size - 1)
        numbers = jnp.where(number < chosen.count, counts[which], 0)
        flat, _ = merge_spans(flat, starts[which], numbers, merges, above, limit, interpret=interpret)
        above = limit

    own = outcome_at[own_start]
    tokens = jnp.where(own == _MERGED, flat, jnp.where(begins, own, _NONE))
    return jnp.where(place < stop, tokens, _NONE)


def _first_symbols(
    data: jax.Array, begins: jax.Array, stop: jax.Array, tables: SymbolTables
) -> tuple[jax.Array, jax.Array]:
    """For every byte the symbol that begins there, int32, and whether one does.

    See :func:`.symbols.first_symbols`, which does the same for words side by side.
    """
    characters = decode(data)
    first, size = characters.first, characters.size
    place = jnp.arange(len(data), dtype=jnp.int32)
    whole = tables.of_character[characters.point]
    row = tables.row[characters.point]
    asked = jnp.maximum(row, 0) * 32
    allowed = begins | _has_bit(tables.before, asked, behind(data, 1, 0).astype(jnp.int32))
    ends = of_next(size, begins.astype(jnp.int32), 1) != 0
    allowed &= (
        ends | (place + size >= stop) | _has_bit(tables.after, asked, of_next(size, data, 0).astype(jnp.int32))
    )
    broken = of_character(first, (whole < 0) | ((row >= 0) & ~allowed))
    symbol = jnp.where(broken, tables.of_byte[data.astype(jnp.int32)], whole)
    return symbol, (first | broken) & (place < stop)


def _scattered(at: jax.Array, values: jax.Array, where: jax.Array, size: int) -> jax.Array:
    nowhere = size + jnp.arange(len(at), dtype=jnp.int32)  # all different: no write waits for another
    empty = jnp.full(size, _NONE, jnp.int32)
    return empty.at[jnp.where(where, at, nowhere)].set(values, mode="drop", unique_indices=True)
