"""BPE of many words at once, as kernels for a GPU (paper, 4.2).

The loop over rounds is inside the kernels, so that a step of the backend is one stretch of launches whatever the
text needs.  Two forms, by the length of a word:

- :func:`_short_words`: a thread has a word, its symbols in registers.  Each round merges the leftmost pair of
  least rank, which is the reference's algorithm to the letter.
- :func:`_long_word`: a program has a word, its symbols in device memory, and its threads share the work of a
  round.  It merges a pair wherever it occurs, but for the rules where that could go wrong
  (:mod:`toktier.bpe.rounds`), so that a word of one repeated character takes few rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .compat import Memory, kernel, program_id, when
from .pallas_tables import AT_ONCE, DOUBLED, ID, KernelTables, words_of
from .tables import NO_RANK, slots

#: Words of up to so many symbols have a thread each; one kernel for each entry.
SHORT = (16, 32)
#: Words of up to so many symbols have a program each.
LONG = (128, 1024, 4096)
#: Threads of a program, and words, where a word has a thread: one warp, whose threads need not wait for others.
_LANES = 32
#: Symbols that a thread of a program for a long word looks after.
_SYMBOLS_PER_THREAD = 4
#: Look-ups in flight at a time for each word at the start of a program for short words.
_ROWS = 4
#: In place of a rank: to be looked up.
_UNKNOWN = -1

Vector = jax.Array


def merge_spans(
    symbols: jax.Array,
    starts: jax.Array,
    lengths: jax.Array,
    tables: KernelTables,
    above: int,
    limit: int,
    *,
    interpret: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Merge those words that have more than ``above`` and up to ``limit`` symbols, where they lie.

    ``symbols``: int32, any words anywhere; ``starts``, ``lengths``: int32 (words,), where each begins and how many
    symbols it has; words do not overlap.  ``limit``: one of :data:`SHORT` or :data:`LONG`.  Returns the symbols,
    of each of those words the ones left from its start on and -1 for those that are gone, and ``lengths`` with
    their numbers; all else is as it was.
    """
    body = partial(_short_words if limit in SHORT else _long_word, tables, above, limit)
    words, arrays = len(starts), (symbols, starts, lengths, tables.pairs, tables.made)
    outputs = (symbols.shape, lengths.shape, symbols.shape)  # the last is memory to work in
    if limit in SHORT:
        programs, warps = -(-words // _LANES), 1
    else:
        programs, warps = words, limit // _SYMBOLS_PER_THREAD // _LANES
    call = kernel(
        body,
        outputs,
        name=f"bpe_{limit}",
        programs=programs,
        warps=warps,
        in_place={0: 0, 2: 1},
        interpret=interpret,
    )
    merged, counts, _ = call(*arrays)
    return merged, counts


def _short_words(tables: KernelTables, above: int, width: int, device: Memory, *refs: Any) -> None:
    """32 words, a thread for each; ``symbol[i]`` holds the i-th symbol of every word."""
    _, starts, _, pairs, made, symbols, counts, ranks = refs
    find = partial(_find, tables, device, pairs)
    nothing = (1 << tables.id_bits) - 1
    place_bits = (width - 1).bit_length()
    word = program_id(0) * _LANES + jnp.arange(_LANES, dtype=jnp.int32)
    here = word < starts.shape[0]
    start, length = device.load(starts, word, here, 0), device.load(counts, word, here, 0)
    chosen = (length > above) & (length <= width)
    length = jnp.where(chosen, length, 0)
    # the first ranks some rows at a time and through memory: unrolled, they would be most of the code
    row = lax.broadcasted_iota(jnp.int32, (_ROWS, _LANES), 0)

    def rank_rows(step: jax.Array, _: None) -> None:
        place = step * _ROWS + row
        at, inside, followed = start + place, place < length, place + 1 < length
        first = device.load(symbols, at, inside, nothing)
        second = device.load(symbols, at + 1, followed, nothing)
        device.store(ranks, at, find(first, second, followed), inside)

    lax.fori_loop(0, (jnp.max(length) + _ROWS - 1) // _ROWS, rank_rows, None)
    device.wait()
    symbol = [device.load(symbols, start + i, i < length, nothing) for i in range(width)]
    rank = [device.load(ranks, start + i, i < length, NO_RANK) for i in range(width)]

    def least(rank: Sequence[Vector]) -> Vector:
        """Rank and place in one number: the least is the leftmost pair of least rank."""
        return reduce(jnp.minimum, [jnp.where(r == NO_RANK, r, r << place_bits | i) for i, r in enumerate(rank)])

    State = tuple[tuple[Vector, ...], tuple[Vector, ...], Vector, Vector]

    def merge(state: State) -> State:
        symbol, rank, count, first = state
        merging = first < NO_RANK
        at = jnp.where(merging, first & ((1 << place_bits) - 1), width)  # `width`: nowhere
        new = device.load(made, first >> place_bits, merging, 0) & ID
        left = right = jnp.full_like(at, nothing)
        for i in range(width):
            left = jnp.where(at == i + 1, symbol[i], left)
            right = jnp.where(at == i - 2, symbol[i], right)
        before = find(left, new, merging & (left != nothing))
        after = find(new, right, merging & (right != nothing))
        absent, none = jnp.full_like(at, nothing), jnp.full_like(at, NO_RANK)
        symbol = tuple(
            jnp.where(at < i, follower, jnp.where(at == i, new, own))
            for i, (own, follower) in enumerate(zip(symbol, (*symbol[1:], absent), strict=True))
        )
        rank = tuple(
            jnp.where(at < i, follower, jnp.where(at == i, after, jnp.where(at == i + 1, before, own)))
            for i, (own, follower) in enumerate(zip(rank, (*rank[1:], none), strict=True))
        )
        return symbol, rank, count - merging.astype(jnp.int32), least(rank)

    state = (tuple(symbol), tuple(rank), length, least(rank))
    merged, _, count, _ = lax.while_loop(lambda state: jnp.min(state[3]) < NO_RANK, merge, state)
    for i in range(width):
        device.store(symbols, start + i, jnp.where(i < count, merged[i], -1), i < length)
    device.store(counts, word, count, chosen)


def _long_word(tables: KernelTables, above: int, width: int, device: Memory, *refs: Any) -> None:
    """One word: its symbols and ranks lie closed up in device memory, and a vector holds all places of it."""
    _, starts, _, pairs, made, symbols, counts, ranks = refs
    word = program_id(0)
    length = counts[word]

    @when((length > above) & (length <= width))
    def merge_here() -> None:
        find = partial(_find, tables, device, pairs)
        nothing = (1 << tables.id_bits) - 1
        place = jnp.arange(width, dtype=jnp.int32)
        at = starts[word] + place
        one = jnp.ones_like(place)

        def alternate(hit: Vector, count: jax.Array) -> Vector:
            """Of pairs of equal symbols, which overlap, every second one of those in a row, from the left."""
            hits = jnp.cumsum(jnp.where(hit, one, 0))  # up to and with here
            others = place + 1 - hits
            last = starts[word] + others - 1  # a cell for each of the others, which says how many hits precede it
            device.store(ranks, last, hits, ~hit & (place < count))
            device.wait()
            before = device.load(ranks, last, hit & (others > 0), 0)
            device.wait()
            return hit & ((hits - before) & 1 == 1)

        State = tuple[Vector, Vector, jax.Array]

        def merge(state: State) -> State:
            symbol, rank, count = state
            least = jnp.min(rank)
            rule = made[least]
            hit = rank == least
            leftmost = place == jnp.min(jnp.where(hit, place, width))
            taken = hit & ((rule & AT_ONCE != 0) | leftmost)
            taken = lax.cond(rule & DOUBLED != 0, alternate, lambda hit, _: hit, taken, count)
            # close up: of a merged pair, both symbols go to one place, and there the new one is written over them
            merged = jnp.cumsum(jnp.where(taken, one, 0))
            target = at - merged + jnp.where(taken, one, 0)
            device.store(symbols, target, symbol, place < count)
            device.store(ranks, target, rank, place < count)
            device.wait()
            device.store(symbols, target, jnp.where(taken, rule & ID, symbol), taken)
            device.store(ranks, target, jnp.where(taken, _UNKNOWN, rank), taken)
            device.wait()
            count = count - jnp.sum(jnp.where(taken, one, 0))
            inside, followed = place < count, place + 1 < count
            symbol = device.load(symbols, at, inside, nothing)
            follower = device.load(symbols, at + 1, followed, nothing)
            rank = device.load(ranks, at, inside, NO_RANK)
            changed = (rank == _UNKNOWN) | (device.load(ranks, at + 1, followed, NO_RANK) == _UNKNOWN)
            device.wait()
            fresh = find(symbol, follower, changed & followed)
            return symbol, jnp.where(changed, fresh, rank), count

        symbol = device.load(symbols, at, place < length, nothing)
        follower = device.load(symbols, at + 1, place + 1 < length, nothing)
        rank = find(symbol, follower, place + 1 < length)
        state = (symbol, rank, length)
        _, _, count = lax.while_loop(lambda state: jnp.min(state[1]) < NO_RANK, merge, state)
        device.store(symbols, at, jnp.full_like(at, -1), (count <= place) & (place < length))
        counts[word] = count


def _find(tables: KernelTables, device: Memory, pairs: Any, left: Vector, right: Vector, asked: Vector) -> Vector:
    """The ranks of pairs of ids; :data:`~.tables.NO_RANK` where no rule merges them, or where ``asked`` is off."""
    left, right = left.astype(jnp.uint32), right.astype(jnp.uint32)
    upper, lower = words_of(left, right, tables.id_bits)
    rank = jnp.full(left.shape, NO_RANK, jnp.int32)
    for slot in slots([left, right], tables.slots, tables.seed):
        first, second = device.load(pairs, 2 * slot, asked, 0), device.load(pairs, 2 * slot + 1, asked, 0)
        found = asked & (first == upper) & (second >> tables.rank_bits == lower)
        rank = jnp.where(found, (second & ((1 << tables.rank_bits) - 1)).astype(jnp.int32), rank)
    return rank
