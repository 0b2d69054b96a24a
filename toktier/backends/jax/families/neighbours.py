"""What the families share: a character and those beside it, runs of white space, numbers in threes, contractions.

A class is a number, and the same for all bytes of a character, so the class before a character is that of the byte
before.  What runs carry along is told by floods over packed marks (:func:`.bits.floods`), 32 bytes a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from ..bits import earlier, once, pack
from ..tables import Array, take
from ..utf8 import PADDING, Characters, ahead, behind, of_character, of_next

#: The classes of white space: alike in all families that tell line ends apart.
NEWLINE, SPACE, WHITE = range(3)
#: The class of what is no text: what lies beyond either end, and added tokens.
END = 0xFF


@dataclass(frozen=True)
class Neighbours:
    """A text, byte by byte.

    ``first``: bool, a character begins here; ``here``, ``before``: uint8, the class of the character that the byte
    is of, and of the byte before; ``after``: uint8, where a character begins, the class of the next one.
    """

    first: jax.Array
    here: jax.Array
    before: jax.Array
    after: jax.Array


@dataclass(frozen=True)
class Family:
    """``sets``: classes with sets in the engine's syntax, of which the first that a character is in gives its
    class; ``rest``: the class of those that are in none.  ``starts``: the places, bool over the bytes, where
    pieces begin; only those count where a character does.
    """

    sets: tuple[tuple[int, str], ...]
    rest: int
    starts: Callable[[Neighbours], jax.Array]


#: Marks, and what they flood through, which holds them; packed, uint32.
Flood: TypeAlias = tuple[jax.Array, jax.Array]


def neighbours(data: jax.Array, characters: Characters, class_of: Array) -> Neighbours:
    """A text, uint8; ``class_of``: uint8 (0x110000,)."""
    own = once(take(class_of, once(characters.point)))  # a look-up by what is computed is slow on a processor
    here = once(of_character(characters.first, jnp.where(data < PADDING, own, jnp.uint8(END))))
    after = once(of_next(characters.size.astype(jnp.uint8), here, END))
    return Neighbours(characters.first, here, behind(here, 1, END), after)


def is_visible(of: jax.Array, white: int = WHITE) -> jax.Array:
    """Whether these classes are neither of white space, of which ``white`` is the last, nor the end of a text."""
    return (of > white) & (of != END)


def line_end_ahead(here: jax.Array) -> Flood:
    """To be flooded back: a line end follows in the run of white space."""
    return pack(here == NEWLINE), pack(here <= WHITE)


def white_starts(n: Neighbours, tail: jax.Array, line_ahead: jax.Array) -> jax.Array:
    r"""Where white space that is no line end begins a piece, packed: ``\s*[\r\n]+|\s+(?!\S)|\s+``.

    ``tail``, ``line_ahead``: packed; the line ends that an earlier match takes along, and
    :func:`line_end_ahead`, flooded.
    """
    gap = (n.here == SPACE) | (n.here == WHITE)
    sure = pack(gap & (is_visible(n.after) | (n.before > WHITE)))
    return sure | pack(gap & (n.before == NEWLINE)) & (earlier(tail) | ~line_ahead)


def thirds(first: jax.Array, number: jax.Array) -> tuple[Flood, jax.Array]:
    r"""``\p{N}{1,3}``: three rows to be flooded, and what to mask them with; then :func:`any_row` begins a piece.

    ``first``: bool; ``number``: the numbers, packed.
    """
    words = pack(first)
    ones = lax.population_count(words).astype(jnp.int32)
    up_to = jnp.uint32(0xFFFFFFFF) >> (31 - jnp.arange(32, dtype=jnp.uint32))
    inside = lax.population_count(words[:, None] & up_to)
    residue = once(lax.rem(((jnp.cumsum(ones) - ones) % 3).astype(jnp.uint32)[:, None] + inside, jnp.uint32(3)))
    residue = residue.reshape(-1)
    same = jnp.stack([pack(residue == k) for k in range(3)])
    # what has the residue of its run's first character is as far from it as a multiple of three
    return (same & number & ~earlier(number), jnp.broadcast_to(number, same.shape)), same


def any_row(rows: jax.Array) -> jax.Array:
    """Marks that one of three rows has."""
    return rows[0] | rows[1] | rows[2]


def contractions(n: Neighbours, apostrophe: jax.Array, *stmd: int) -> tuple[jax.Array, jax.Array]:
    """At which apostrophes a contraction begins, of two bytes and of three; all bool over the bytes.

    ``stmd``: the class of the letters s, t, m and d, in each case that counts; those of r and v, of e and of l are
    the next three.  Of the letters only one of the first is of two bytes, the long s.
    """
    single, rv, e, ll = (reduce(or_, [n.here == first + number for first in stmd]) for number in range(4))
    one_byte = ahead(n.first, 2, True)
    short = apostrophe & ahead(single, 1, False)
    long = apostrophe & (ahead(rv, 1, False) & ahead(e, 2, False) | ahead(ll, 1, False) & ahead(ll, 2, False))
    return short & one_byte, short & ~one_byte | long
