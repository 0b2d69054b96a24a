r"""r50k (GPT-2): nothing is carried along, so where pieces begin is told by four characters.

    's|'t|'re|'ve|'m|'ll|'d |  ?\p{L}+ |  ?\p{N}+ |  ?[^\s\p{L}\p{N}]+ | \s+(?!\S) | \s+

See ``spec/r50k.py``.
"""

from __future__ import annotations

from enum import IntEnum

import jax
import jax.numpy as jnp

from ....plan import GPT2_PATTERN
from ..bits import once
from ..utf8 import behind
from .neighbours import END, Family, Neighbours, contractions


class Class(IntEnum):
    """Classes of characters."""

    SPACE, WHITE, NUMBER, APOSTROPHE, OTHER, STMD, RV, E, L, LETTER = range(10)


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
    white, visible = here <= Class.WHITE, _is_visible(here)
    same = (_kind(here) == _kind(before)) & (before != END)
    # the first of a visible run that no space has taken along
    fresh = once(visible & ~same & (before != Class.SPACE))
    short, long = contractions(n, (here == Class.APOSTROPHE) & fresh, Class.STMD)
    begins = fresh & ~behind(short | long, 1, False)
    begins |= visible & (here >= Class.STMD) & (behind(short, 2, False) | behind(long, 3, False))
    return begins | white & ((before > Class.WHITE) | _is_visible(after))


def _is_visible(of: jax.Array) -> jax.Array:
    return (of > Class.WHITE) & (of != END)


def _kind(of: jax.Array) -> jax.Array:
    """The kind of run: 0 white space, 1 numbers, 2 others, 3 letters."""
    over = (jnp.uint8(Class.NUMBER), jnp.uint8(Class.APOSTROPHE), jnp.uint8(Class.STMD))
    return sum(((of >= least).astype(jnp.uint8) for least in over), start=jnp.zeros_like(of))


#: By the patterns of the stages.
FAMILIES: dict[tuple[str, ...], Family] = {(GPT2_PATTERN,): Family(_SETS, Class.OTHER, starts)}
