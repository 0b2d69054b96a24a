"""Marks on the places of a text as bits: counting them, and finding the n-th, the next and the last one.

A scan over all places is what XLA does badly on a CPU and in many steps on a GPU.  Here only the words of 32 marks
are scanned; inside a word, counting bits does the rest.  What a text has few of costs little that way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from .tables import take

T = TypeVar("T")

_WORD = 32


@dataclass(frozen=True)
class Bits:
    """Marks of ``32 * len(words)`` places; the words are a power of two.

    ``words``: uint32, place i is bit ``i % 32`` of word ``i // 32``; ``before``: int32, how many marks there are
    in the words before each.
    """

    words: jax.Array
    before: jax.Array

    @property
    def count(self) -> jax.Array:
        """How many marks there are, an int32 scalar."""
        return self.before[-1] + _ones(self.words[-1])

    def rank(self, place: jax.Array) -> jax.Array:
        """How many marks there are before each of these places."""
        word = place // _WORD
        below = (jnp.uint32(1) << (place % _WORD).astype(jnp.uint32)) - 1
        return take(self.before, word) + _ones(take(self.words, word) & below)

    def select(self, number: jax.Array) -> jax.Array:
        """The places of the marks with these numbers, counted from 0; past the places for too great ones."""
        size = len(self.words)
        word = jnp.zeros_like(number)
        step = size // 2
        while step:
            later = word + step
            word = jnp.where(take(self.before, later) <= number, later, word)
            step //= 2
        rest, left = take(self.words, word), number - take(self.before, word)
        place = jnp.zeros_like(number)
        for step in (16, 8, 4, 2, 1):
            low = _ones(rest >> place.astype(jnp.uint32) & jnp.uint32((1 << step) - 1))
            beyond = left >= low
            place = jnp.where(beyond, place + step, place)
            left = jnp.where(beyond, left - low, left)
        found = jnp.where(number < self.count, word * _WORD + place, size * _WORD)
        return once(found)


jax.tree_util.register_dataclass(Bits, ["words", "before"], [])


def once(values: T) -> T:
    """``values``, computed once: otherwise XLA may compute them anew wherever they are read.

    Read only what this returns: XLA takes the two for independent, and on a CPU it has been seen to write a result
    over the one while the other, in the same memory, was still to be read.
    """
    barrier: Callable[[T], T] = lax.optimization_barrier
    return barrier(values)


def once_on_cpu(values: T) -> T:
    """As :func:`once`, for what is cheap: a GPU had better compute it anew than take another launch."""
    found: T = lax.platform_dependent(values, cpu=once, default=lambda values: values)
    return found


def bits(marks: jax.Array) -> Bits:
    """Pack marks, bool, of a number that is a multiple of 32."""
    return bits_of_words(pack(marks))


def bits_of_words(words: jax.Array) -> Bits:
    """The bits of marks that are packed already, uint32."""
    return Bits(words, jnp.cumsum(_ones(words)) - _ones(words))


def pack(marks: jax.Array) -> jax.Array:
    """Bool marks as uint32 words, the first place the lowest bit."""
    rows = marks.reshape(-1, _WORD).astype(jnp.uint32)
    return jnp.sum(rows << jnp.arange(_WORD, dtype=jnp.uint32), axis=1, dtype=jnp.uint32)


def unpack(words: jax.Array) -> jax.Array:
    """Words of 32 marks as bools."""
    return (words[:, None] >> jnp.arange(_WORD, dtype=jnp.uint32) & 1 != 0).reshape(-1)


def last_at(words: jax.Array, place: jax.Array) -> jax.Array:
    """The last mark at or before each place, -1 if there is none."""
    return _last(words, _last_words(words), place)


def first_after(words: jax.Array, place: jax.Array) -> jax.Array:
    """The first mark behind each place; ``32 * len(words)`` if there is none."""
    size = len(words)
    # the same from the other side, the bits of a word turned around
    turned = _turn(words[::-1])
    found = _last(turned, _last_words(turned), size * _WORD - 2 - place)
    return jnp.where(found < 0, size * _WORD, size * _WORD - 1 - found)


def first_of_stretches(marks: jax.Array, cuts: jax.Array) -> jax.Array:
    """The first of ``marks`` in each stretch from one of ``cuts`` to the next; all are packed, uint32."""
    either = marks | cuts
    last = _last_words(either)
    before = jnp.clip(last - 1, 0)
    top = _top(take(either, before)).astype(jnp.uint32)
    free = (last == 0) | (take(cuts & ~marks, before) >> top & 1 != 0)  # no mark since the last cut
    open_ = ~cuts  # a mark covers what follows, up to the next cut
    covered = _filled((marks << 1 | jnp.where(free, jnp.uint32(0), jnp.uint32(1))) & open_, open_)
    return marks & ~covered


def flood(marks: jax.Array, through: jax.Array) -> jax.Array:
    """``marks`` and what follows each of them in unbroken ``through``, of which they are some; packed, uint32.

    Along the last axis.
    """
    full = jnp.uint32(0xFFFFFFFF)
    filled = _filled(marks, through)
    out = (filled >> 31).astype(jnp.int32)
    # what a word hands on is told by the last one before that is not all `through`, or has a mark
    index = jnp.arange(1, marks.shape[-1] + 1, dtype=jnp.int32)
    told = jnp.where((through == full) & (out == 0), 0, 2 * index + out)
    handed = lax.cummax(told, axis=told.ndim - 1) & 1
    handed = jnp.pad(handed, [(0, 0)] * (told.ndim - 1) + [(1, 0)])[..., :-1]
    lowest = (through ^ through + 1) & through  # the bits up to the first that is not `through`
    return filled | jnp.where(handed != 0, lowest, 0)


def floods(
    forth: Sequence[tuple[jax.Array, jax.Array]], back: Sequence[tuple[jax.Array, jax.Array]]
) -> list[jax.Array]:
    """Several floods as one: ``forth`` as :func:`flood` does, ``back`` through what stands before the marks.

    Each is marks and what they flood through, packed, one row or several.
    """
    pairs = [*forth, *((_turn(marks[..., ::-1]), _turn(through[..., ::-1])) for marks, through in back)]
    counts = [1 if marks.ndim == 1 else len(marks) for marks, _ in pairs]
    marks, through = (jnp.concatenate([jnp.atleast_2d(pair[side]) for pair in pairs]) for side in (0, 1))
    flooded = jnp.split(once(flood(marks, through)), list(accumulate(counts))[:-1])
    found = [rows.reshape(pair[0].shape) for rows, pair in zip(flooded, pairs, strict=True)]
    return [*found[: len(forth)], *(_turn(rows[..., ::-1]) for rows in found[len(forth) :])]


def earlier(words: jax.Array, distance: int = 1) -> jax.Array:
    """Marks, packed, moved on by 1 to 31 places: at each place what is so far before it."""
    handed = jnp.pad(words, [(0, 0)] * (words.ndim - 1) + [(1, 0)])[..., :-1] >> (_WORD - distance)
    return words << distance | handed


def parity(words: jax.Array) -> jax.Array:
    """Where the number of marks up to there, the place itself counted, is odd; packed, along the last axis."""
    ones = _ones(words)
    odd = jnp.cumsum(ones, axis=-1) - ones & 1
    for step in (1, 2, 4, 8, 16):
        words ^= words << step
    found: jax.Array = jnp.where(odd != 0, ~words, words)
    return found


def _filled(marks: jax.Array, through: jax.Array) -> jax.Array:
    """``marks`` and what follows them in ``through``, each word for itself.

    By doubling, as carries run in Kogge and Stone's adder.
    """
    for step in (1, 2, 4, 8, 16):
        marks |= through & marks << step
        through &= through << step
    return marks


def _last_words(words: jax.Array) -> jax.Array:
    """One more than the index of the last word before each that has a mark, 0 if none has."""
    index = jnp.where(words != 0, jnp.arange(1, len(words) + 1, dtype=jnp.int32), 0)
    return jnp.pad(lax.cummax(index), (1, 0))[:-1]


def _last(words: jax.Array, before: jax.Array, place: jax.Array) -> jax.Array:
    word = jnp.clip(place, 0) // _WORD
    up_to = jnp.uint32(0xFFFFFFFF) >> (31 - (jnp.clip(place, 0) % _WORD)).astype(jnp.uint32)
    here = take(words, word) & up_to
    last = take(before, word)
    other = take(words, last - 1)
    found = jnp.where(here != 0, word * _WORD + _top(here), (last - 1) * _WORD + _top(other))
    return jnp.where((place < 0) | ((here == 0) & (last == 0)), -1, found)


def _ones(words: jax.Array) -> jax.Array:
    return lax.population_count(words).astype(jnp.int32)


def _top(words: jax.Array) -> jax.Array:
    """The highest bit that is set, where one is."""
    return 31 - lax.clz(words).astype(jnp.int32)


def _turn(words: jax.Array) -> jax.Array:
    """The bits of each word in reverse order."""
    for step, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        words = (words & jnp.uint32(mask)) << step | words >> step & jnp.uint32(mask)
    return words
