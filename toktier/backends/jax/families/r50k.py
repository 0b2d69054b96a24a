r"""r50k (GPT-2): nothing is carried along, so where pieces begin is told by four characters.

    's|'t|'re|'ve|'m|'ll|'d |  ?\p{L}+ |  ?\p{N}+ |  ?[^\s\p{L}\p{N}]+ | \s+(?!\S) | \s+

See ``spec/r50k.py``.  Starcoder has a splitter before it that makes every digit a piece.
"""

from __future__ import annotations

from enum import IntEnum

import jax
import jax.numpy as jnp

from ....patterns.charsets import DIGITS
from ....plan import GPT2_PATTERN
from ..bits import once
from ..utf8 import behind
from .neighbours import END, Family, Neighbours, contractions, is_visible


class Class(IntEnum):
    """Classes of characters."""

    SPACE, WHITE, NUMBER, APOSTROPHE, OTHER, STMD, RV, E, L, LETTER, DIGIT = range(11)


_SETS = (
    (Class.SPACE, " "),
    (Class.WHITE, r"\s"),
    (Class.NUMBER, r"\p{N}"),
    (Class.APOSTROPHE, "'"),
    (Class.STMD, "[stmd]"),
    (Class.RV, "[rv]"),
    (Class.E, "e"),
    (Class.L, "l"),
    (Class.LETTER, r"\p{L}"),
)


def starts(n: Neighbours) -> jax.Array:
    """See :class:`~.neighbours.Family`."""
    here, before, after = n.here, n.before, n.after
    white, visible = here <= Class.WHITE, is_visible(here, Class.WHITE)
    same = (_kind(here) == _kind(before)) & (before != END)
    # the first of a visible run that no space has taken along
    fresh = once(visible & ~same & (before != Class.SPACE))
    short, long = contractions(n, (here == Class.APOSTROPHE) & fresh, Class.STMD)
    begins = fresh & ~behind(short | long, 1, False)
    begins |= visible & (here >= Class.STMD) & (behind(short, 2, False) | behind(long, 3, False))
    return begins | white & ((before > Class.WHITE) | is_visible(after, Class.WHITE))


def starts_between_digits(n: Neighbours) -> jax.Array:
    """As :func:`starts`, where each digit is cut out before: what stands beside one stands at an end of a text."""
    before, after = (jnp.where(of == Class.DIGIT, jnp.uint8(END), of) for of in (n.before, n.after))
    return starts(Neighbours(n.first, n.here, before, after)) | (n.here == Class.DIGIT)


def _kind(of: jax.Array) -> jax.Array:
    """The kind of run: 0 white space, 1 numbers, 2 others, 3 letters."""
    over = (jnp.uint8(Class.NUMBER), jnp.uint8(Class.APOSTROPHE), jnp.uint8(Class.STMD))
    return sum(((of >= least).astype(jnp.uint8) for least in over), start=jnp.zeros_like(of))


#: By the patterns of the stages.
FAMILIES: dict[tuple[str, ...], Family] = {
    (GPT2_PATTERN,): Family(_SETS, Class.OTHER, starts),
    (DIGITS, GPT2_PATTERN): Family(((Class.DIGIT, DIGITS), *_SETS), Class.OTHER, starts_between_digits),
}
