"""From bytes to ids: all stages as one function, which XLA compiles for one size of text.

Every token is written at a place of its own: the n-th token of a piece where the n-th of its first symbols is.  So
the output is in order without any count of the tokens before it, and compacting it is the last step.

Work that depends on the text (how many pieces, how many words to merge) is done in blocks of fixed size, as many
as there is work for.  Where kernels run (:class:`Sizes`) nothing is: there a step costs little more for all places
that a text could need, and a loop that the host looks after costs much.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from .bits import Bits, bits, once, pack
from .delivering import ADDED_TOKEN
from .forms import active
from .merging import merge_words
from .pallas_tables import KernelTables
from .pieces import LONG, WholeTables, find_whole, words_of
from .runs import RunTables, run_starts
from .splitting import SplitTables, Walk, piece_starts
from .symbols import Stream, SymbolTables, stream
from .tables import Array, DeviceTables, take
from .utf8 import ADDED, PADDING, Characters, decode

#: What stands in the output for a piece that the host encodes.
LEFT = -3
_NONE = -1
#: Words of up to so many symbols are merged together; longer ones are left to the host.
WIDTHS = (16, 64, 512)
#: The ids of a text come in so many arrays, so that a host need not fetch what is empty.
PARTS = 8


@dataclass(frozen=True)
class Tables:
    """All tables of a tokenizer.

    ``split``: of runs, where its pre-tokenizer is of such a family; ``active``: :func:`.forms.active_table`, None
    where the host normalizes.
    """

    split: SplitTables | RunTables
    whole: WholeTables
    symbols: SymbolTables
    merges: DeviceTables | KernelTables
    active: Array | None = None


jax.tree_util.register_dataclass(Tables, ["split", "whole", "symbols", "merges", "active"], [])


@dataclass(frozen=True)
class Sizes:
    """How much is done at once: lanes of a pre-tokenizer stage, and symbols of words that are merged together.

    ``kernels``: all is, by the kernels for a GPU; ``interpreted``: which XLA runs, to test them on any device.
    """

    lanes: int
    merged: int
    kernels: bool = False
    interpreted: bool = False


@dataclass(frozen=True)
class Encoded:
    """What :func:`encode` gives, int32 unless told otherwise.

    ``header``: the number of tokens, that of the pieces left to the host, the longest lane, and the number of the
    characters that a Unicode form may change.  ``parts``: the ids, :data:`PARTS` arrays one after another; -2 for
    an added token and -3 for a piece that the host encodes.  ``places``: likewise, for the first token of a piece,
    the byte at which the piece begins; for the others of it, a later one of its bytes.  ``active``: uint32, the
    bytes at which those characters begin, packed; None where the host normalizes.
    """

    header: jax.Array
    parts: tuple[jax.Array, ...]
    places: tuple[jax.Array, ...]
    active: jax.Array | None


jax.tree_util.register_dataclass(Encoded, ["header", "parts", "places", "active"], [])


def starts_of(data: jax.Array, tables: SplitTables | RunTables, sizes: Sizes) -> tuple[jax.Array, jax.Array]:
    """Where pieces begin, a bit for each byte in uint32 words; and the longest lane."""
    begins, longest = _piece_starts(data, decode(data), tables, sizes)
    return pack(begins), longest


def _piece_starts(
    data: jax.Array, characters: Characters, tables: SplitTables | RunTables, sizes: Sizes
) -> tuple[jax.Array, jax.Array]:
    """As :func:`starts_of`, but bool, one for each byte."""
    if isinstance(tables, RunTables):
        return run_starts(data, characters, tables), jnp.int32(0)
    walk: Walk | None = None
    if sizes.kernels:
        from .pallas_lanes import walk_lanes

        walk = partial(walk_lanes, interpret=sizes.interpreted)
    return piece_starts(data, characters, tables, sizes.lanes, walk)


def encode(data: jax.Array, tables: Tables, sizes: Sizes) -> Encoded:
    """Encode a text: uint8, UTF-8 with :data:`~.utf8.ADDED` for each added token, padded with PADDING."""
    size = len(data)
    part = size // PARTS
    characters = decode(data)
    begins, longest = _piece_starts(data, characters, tables.split, sizes)
    first = stream(data, characters, begins, size if sizes.kernels else part, tables.symbols)
    stop = jnp.sum(data != PADDING, dtype=jnp.int32)
    words = words_of(data)
    if sizes.kernels:
        out = _encode_at_once(data, words, bits(begins), stop, first, tables, sizes)
    else:
        out = _encode_pieces(data, words, bits(begins), stop, first, tables, sizes)
    written = bits(out != _NONE)
    left = jnp.sum(out == LEFT, dtype=jnp.int32)
    unsure = None if tables.active is None else active(characters, tables.active)
    some_unsure = jnp.int32(0) if unsure is None else jnp.sum(unsure, dtype=jnp.int32)
    header = jnp.stack((written.count, left, longest, some_unsure))
    packed = None if unsure is None else pack(unsure)

    if sizes.kernels:
        some = written.select(jnp.arange(size, dtype=jnp.int32))
        return _encoded(header, take(out, some), take(first.at, some), packed)

    State = tuple[jax.Array, jax.Array, jax.Array]

    def fill(state: State) -> State:
        done, ids, places = state
        some = written.select(done + jnp.arange(part, dtype=jnp.int32))
        ids = lax.dynamic_update_slice(ids, take(out, some), (done,))
        return done + part, ids, lax.dynamic_update_slice(places, take(first.at, some), (done,))

    empty = jnp.zeros(size, jnp.int32)
    _, ids, places = lax.while_loop(lambda state: state[0] < written.count, fill, (jnp.int32(0), empty, empty))
    return _encoded(header, ids, places, packed)


def _encoded(header: jax.Array, ids: jax.Array, places: jax.Array, unsure: jax.Array | None) -> Encoded:
    return Encoded(header, tuple(ids.reshape(PARTS, -1)), tuple(places.reshape(PARTS, -1)), unsure)


def _look_up(
    data: jax.Array, words: jax.Array, bounds: jax.Array, first: Stream, tables: Tables
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The pieces between ``bounds``, bytes: where their first symbols are, how many, and what stands for each.

    That is an id, :data:`ADDED_TOKEN`, :data:`LEFT`, or -1 for a piece that is to be merged.
    """
    size = len(data)
    starts, lengths = bounds[:-1], bounds[1:] - bounds[:-1]
    found = find_whole(words, starts, lengths, tables.whole)
    added = (lengths > 0) & (take(data, starts) == ADDED)
    found = jnp.where(added, ADDED_TOKEN, jnp.where(found == LONG, LEFT, found))
    ranks = first.marks.rank(bounds)
    ranks = jnp.where(bounds == size, first.marks.count, ranks)
    starts, counts, found = once((ranks[:-1], ranks[1:] - ranks[:-1], found))
    return starts, counts, found


def _encode_at_once(
    data: jax.Array,
    words: jax.Array,
    begins: Bits,
    stop: jax.Array,
    first: Stream,
    tables: Tables,
    sizes: Sizes,
) -> jax.Array:
    """What :func:`_encode_pieces` does, by kernels."""
    from .pallas_pieces import merge_pieces

    assert isinstance(tables.merges, KernelTables)
    bounds = jnp.minimum(begins.select(jnp.arange(len(data) + 1, dtype=jnp.int32)), stop)
    starts, counts, found = _look_up(data, words, once(bounds), first, tables)
    return merge_pieces(first.symbols, starts, counts, found, tables.merges, interpret=sizes.interpreted)


def _encode_pieces(
    data: jax.Array,
    words: jax.Array,
    begins: Bits,
    stop: jax.Array,
    first: Stream,
    tables: Tables,
    sizes: Sizes,
) -> jax.Array:
    """The tokens of all pieces, each at a place of its own: int32 of the shape of ``data``, -1 elsewhere."""
    size = len(data)
    block = size // 4
    assert isinstance(tables.merges, DeviceTables)
    merges = tables.merges

    def some(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        done, out = state
        bounds = jnp.minimum(begins.select(done + jnp.arange(block + 1, dtype=jnp.int32)), stop)
        starts, counts, found = _look_up(data, words, once(bounds), first, tables)
        missing = (found == _NONE) & (counts > 0)
        found = once(jnp.where(missing & (counts > WIDTHS[-1]), LEFT, found))
        out = _write(out, starts, found, found != _NONE)
        least = 0
        for width in WIDTHS:
            wanted = bits(missing & (counts > least) & (counts <= width))
            out = _merge_words(first.symbols, starts, counts, wanted, width, merges, sizes, out)
            least = width
        return done + block, out

    start = (jnp.int32(0), jnp.full(size, _NONE, jnp.int32))
    return lax.while_loop(lambda state: state[0] < begins.count, some, start)[1]


def _merge_words(
    symbols: jax.Array,
    starts: jax.Array,
    counts: jax.Array,
    wanted: Bits,
    width: int,
    merges: DeviceTables,
    sizes: Sizes,
    out: jax.Array,
) -> jax.Array:
    """BPE of the ``wanted`` among the pieces, none of which has more than ``width`` symbols."""
    size = len(symbols)
    together = max(1, min(sizes.merged, size) // width)

    def some(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        done, out = state
        number = done + jnp.arange(together, dtype=jnp.int32)
        which = wanted.select(number)
        start, count = take(starts, which), jnp.where(number < wanted.count, take(counts, which), 0)
        place = jnp.arange(width, dtype=jnp.int32)
        word = take(symbols, start[:, None] + place)
        lacking = jnp.any((word < 0) & (place < count[:, None]), axis=1)  # a byte that the vocabulary lacks
        word, count = merge_words(word, jnp.where(lacking, 0, count), merges)
        word = jnp.where(lacking[:, None], LEFT, word)
        count = jnp.where(lacking, 1, count)
        out = _write(out, (start[:, None] + place).ravel(), word.ravel(), (place < count[:, None]).ravel())
        return done + together, out

    return lax.while_loop(lambda state: state[0] < wanted.count, some, (jnp.int32(0), out))[1]


def _write(out: jax.Array, place: jax.Array, values: jax.Array, where: jax.Array) -> jax.Array:
    nowhere = len(out) + jnp.arange(len(place), dtype=jnp.int32)  # all different: no write waits for another
    return out.at[jnp.where(where, place, nowhere)].set(values, mode="drop", unique_indices=True)
