r"""deepseek-coder: five splitters in a row.

1.  [\r\n]
2.  \s?\p{L}+
3.  \s?\p{P}+
4.  [一-龥ࠀ-一가-퟿]+
5.  each digit

None of them carries anything along: what a splitter makes a piece of are runs of one kind, or single characters,
and what none has taken are runs, too.  The fourth also cuts what the second and the third have joined.
"""

from __future__ import annotations

from enum import IntEnum

import jax

from ....patterns.charsets import DIGITS
from .neighbours import END, Family, Neighbours


class Class(IntEnum):
    """Classes of characters; those from ``WIDE_WHITE`` on are of the fourth splitter's."""

    NEWLINE, DIGIT, WHITE, LETTER, PUNCTUATION, OTHER = range(6)
    WIDE_WHITE, WIDE_LETTER, WIDE_PUNCTUATION, WIDE_OTHER = range(6, 10)


_WIDE = "[一-龥ࠀ-一가-퟿]"
_SETS = (
    (Class.NEWLINE, r"[\r\n]"),
    (Class.DIGIT, DIGITS),
    (Class.WIDE_WHITE, _WIDE[:-1] + r"&&\s]"),
    (Class.WIDE_LETTER, _WIDE[:-1] + r"&&\p{L}]"),
    (Class.WIDE_PUNCTUATION, _WIDE[:-1] + r"&&\p{P}]"),
    (Class.WIDE_OTHER, _WIDE),
    (Class.WHITE, r"\s"),
    (Class.LETTER, r"\p{L}"),
    (Class.PUNCTUATION, r"\p{P}"),
)


def starts(n: Neighbours) -> jax.Array:
    """See :class:`~.neighbours.Family`."""
    here, before, after = n.here, n.before, n.after
    # what no other character joins, and where the fourth begins or ends
    begins = _is_alone(here) | _is_alone(before) | (_is_wide(here) != _is_wide(before))
    white, after_white = _is_white(here), _is_white(before)
    letter, punctuation = _is_letter(here), _is_punctuation(here)
    begins |= letter & ~(_is_letter(before) | after_white)
    begins |= punctuation & ~(_is_punctuation(before) | after_white)
    begins |= white & (_is_letter(after) | _is_punctuation(after))  # the one that is taken along
    begins |= ~(letter | punctuation) & (_is_letter(before) | _is_punctuation(before))
    return begins & (here != END)


def _is_alone(of: jax.Array) -> jax.Array:
    return (of <= Class.DIGIT) | (of == END)


def _is_wide(of: jax.Array) -> jax.Array:
    return of >= Class.WIDE_WHITE


def _is_white(of: jax.Array) -> jax.Array:
    return (of == Class.WHITE) | (of == Class.WIDE_WHITE)


def _is_letter(of: jax.Array) -> jax.Array:
    return (of == Class.LETTER) | (of == Class.WIDE_LETTER)


def _is_punctuation(of: jax.Array) -> jax.Array:
    return (of == Class.PUNCTUATION) | (of == Class.WIDE_PUNCTUATION)


#: By the patterns of the stages.
FAMILIES: dict[tuple[str, ...], Family] = {
    ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _WIDE + "+", DIGITS): Family(_SETS, Class.OTHER, starts)
}
