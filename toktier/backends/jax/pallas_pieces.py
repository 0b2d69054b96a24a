"""From pieces to tokens on a GPU, as one stretch of launches without a loop between them.

A GPU has lanes for every symbol of a text, so nothing is done in blocks of what there is work for: each step runs
over as many places as the text could need, and the loops of BPE are inside the kernels (:mod:`.pallas_bpe`).  Then
all of it goes in one CUDA graph, and the host takes no part in it.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import jax
import jax.numpy as jnp
from jax import lax

from .bits import bits
from .pallas_bpe import LONG, SHORT, merge_spans
from .pallas_tables import KernelTables

#: What stands in the output for a piece that the host encodes.
LEFT = -3
#: In place of an outcome: no piece begins here; the piece is merged.
_NONE, _MERGED = -1, -4


def merge_pieces(
    symbols: jax.Array,
    starts: jax.Array,
    counts: jax.Array,
    outcome: jax.Array,
    merges: KernelTables,
    *,
    interpret: bool = False,
) -> jax.Array:
    """The tokens of all pieces, the n-th of a piece where its n-th symbol is: int32, -1 elsewhere.

    ``symbols``: int32, the first symbols of the pieces, one piece after another, -1 for a byte that the vocabulary
    lacks.  ``starts``, ``counts``: int32 (pieces,), the symbols of each; those without any count for nothing.
    ``outcome``: int32 (pieces,), what stands for a piece that is not to be merged (an id, or below -1 anything but
    -4), and -1 for the others.  Of these, the ones with such a byte or with too many symbols for the kernels
    become :data:`LEFT`.  All are of a length that is a power of two and at least 32.  ``interpret``: see
    :func:`~.pallas_bpe.merge_spans`.
    """
    size = len(symbols)
    place = jnp.arange(size, dtype=jnp.int32)
    lacking = jnp.pad(jnp.cumsum(symbols < 0, dtype=jnp.int32), (1, 0))
    left = (counts > LONG[-1]) | (lacking[starts + counts] > lacking[starts])
    outcome = jnp.where(outcome == _NONE, jnp.where(left, LEFT, _MERGED), outcome)
    filled = counts > 0
    nowhere = size + jnp.arange(len(starts), dtype=jnp.int32)  # all different: no write waits for another
    outcomes = jnp.full(size, _NONE, jnp.int32)
    outcomes = outcomes.at[jnp.where(filled, starts, nowhere)].set(outcome, mode="drop", unique_indices=True)
    own_start = lax.cummax(jnp.where(outcomes != _NONE, place, 0))
    stop = jnp.max(jnp.where(filled, starts + counts, 0))

    # the words of all classes are found together, as if each class had a text of its own behind the last one's
    merged, classes = outcome == _MERGED, list(pairwise((1, *SHORT, *LONG)))
    marks = [merged & (counts > above) & (counts <= limit) for above, limit in classes]
    texts = 1 << (len(classes) - 1).bit_length()
    chosen = bits(jnp.pad(jnp.concatenate(marks), (0, (texts - len(classes)) * len(starts))))
    firsts = [chosen.before[i * len(starts) // 32] for i in range(len(classes))]
    numbers = [
        jnp.arange(-(-size // (above + 1)), dtype=jnp.int32) for above, _ in classes
    ]  # there cannot be more
    wanted = [first + number for first, number in zip(firsts, numbers, strict=True)]
    found = chosen.select(jnp.concatenate(wanted)) % len(starts)
    edges = [0, *accumulate(map(len, numbers))]
    lasts = [*firsts[1:], chosen.count]
    for number, (above, limit) in enumerate(classes):
        which = found[edges[number] : edges[number + 1]]
        lengths = jnp.where(wanted[number] < lasts[number], counts[which], 0)
        symbols, _ = merge_spans(symbols, starts[which], lengths, merges, above, limit, interpret=interpret)
    tokens = jnp.where(outcomes[own_start] == _MERGED, symbols, outcomes)
    return jnp.where(place < stop, tokens, _NONE)
