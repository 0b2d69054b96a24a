r"""cl100k (GPT-4, Llama 3) and qwen2, which has one number a piece, and the variant of it with marks.

    (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,3} |
     ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+

Three things are carried along: whether a line end follows in a run of white space, whether line ends follow a run
of other characters, and the place in a run of numbers.  See ``spec/cl100k.py``.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial

import jax

from ..bits import floods, once, pack, unpack
from ..utf8 import behind, of_character
from .neighbours import (
    END,
    Family,
    Neighbours,
    any_row,
    contractions,
    line_end_ahead,
    thirds,
    white_starts,
)


class Class(IntEnum):
    """Classes of characters."""

    NEWLINE, SPACE, WHITE, NUMBER, APOSTROPHE, STMD, RV, E, L, LETTER, OTHER = range(11)


_SETS = (r"[\r\n]", " ", r"\s", r"\p{N}", "'", r"(?i:[stmd])", r"(?i:[rv])", r"(?i:e)", r"(?i:l)")
_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?%s+|\p{N}%s| ?[^\s%s\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def starts(n: Neighbours, threes: bool) -> jax.Array:
    """See :class:`~.neighbours.Family`; ``threes``: up to three numbers are a piece, not one."""
    here, before = n.here, n.before
    newline, number = once(here == Class.NEWLINE), here == Class.NUMBER
    # an other character that no match reaches yet
    fresh = once(_is_other(here) & ~(_is_other(before) | (before == Class.SPACE)))
    lone_before = behind(of_character(n.first, fresh), 1, False)
    short, long = contractions(n, (here == Class.APOSTROPHE) & fresh, Class.STMD)
    behind_contraction = behind(short, 2, False) | behind(long, 3, False)

    joined = _is_letter(before) | (before == Class.SPACE) | (before == Class.WHITE) | lone_before
    begins = _is_letter(here) & (behind_contraction | ~joined)
    begins |= fresh
    begins |= newline & (_is_letter(before) | (before == Class.NUMBER) | (before == END))

    tail = (pack(newline & _is_other(before)), pack(newline))
    if not threes:
        tail_marks, line_ahead = floods([tail], [line_end_ahead(here)])
        return begins | number | unpack(white_starts(n, tail_marks, line_ahead))
    rows, mask = thirds(n.first, pack(number))
    tail_marks, flooded, line_ahead = floods([tail, rows], [line_end_ahead(here)])
    return begins | unpack(white_starts(n, tail_marks, line_ahead) | any_row(flooded & mask))


def _is_letter(of: jax.Array) -> jax.Array:
    return (of >= Class.STMD) & (of <= Class.LETTER)


def _is_other(of: jax.Array) -> jax.Array:
    return (of == Class.OTHER) | (of == Class.APOSTROPHE)


def _family(letters: str, threes: bool) -> Family:
    sets = (*enumerate(_SETS), (int(Class.LETTER), letters))
    return Family(sets, Class.OTHER, partial(starts, threes=threes))


#: By the patterns of the stages.
FAMILIES: dict[tuple[str, ...], Family] = {
    (_PATTERN % (r"\p{L}", "{1,3}", r"\p{L}"),): _family(r"\p{L}", threes=True),
    (_PATTERN % (r"\p{L}", "", r"\p{L}"),): _family(r"\p{L}", threes=False),
    (_PATTERN % (r"[\p{L}\p{M}]", "", r"\p{L}\p{M}"),): _family(r"[\p{L}\p{M}]", threes=False),
}
