r"""deepseek (DeepSeek-V3, R1, V4): three splitters in a row.

1.  \p{N}{1,3}
2.  [一-龥぀-ゟ゠-ヿ]+
3.  [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+ | [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ |
     ?[\p{P}\p{S}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+

The first two cut the text into blocks, and for the third the edge of a block is the edge of a text.  Four things
are carried along: the place in a run of numbers, whether line ends follow symbols, whether a line end follows in a
run of white space, and whether an ASCII symbol has taken ASCII letters along.  See ``spec/deepseek.py``.
"""

from __future__ import annotations

from enum import IntEnum

import jax
import jax.numpy as jnp

from ..bits import earlier, floods, pack, unpack
from ..utf8 import behind
from .neighbours import END, WHITE, Family, Neighbours, any_row, line_end_ahead, thirds, white_starts


class Class(IntEnum):
    """Classes of characters; what is no number and of no ``CJK`` class is in a block of the rest."""

    NEWLINE, SPACE, WHITE, ASCII_SYMBOL, SYMBOL, ASCII_LETTER, LETTER, OTHER = range(8)
    NUMBER, CJK_SYMBOL, CJK_LETTER, CJK_OTHER = range(8, 12)


_CJK = r"[一-龥぀-ゟ゠-ヿ]"
_ASCII_SYMBOL = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
_SETS = (
    (Class.NEWLINE, r"[\r\n]"),
    (Class.SPACE, " "),
    (Class.WHITE, r"\s"),
    (Class.NUMBER, r"\p{N}"),
    (Class.CJK_SYMBOL, _CJK[:-1] + r"&&[\p{P}\p{S}]]"),
    (Class.CJK_LETTER, _CJK[:-1] + r"&&[\p{L}\p{M}]]"),
    (Class.CJK_OTHER, _CJK),
    (Class.ASCII_SYMBOL, _ASCII_SYMBOL),
    (Class.SYMBOL, r"[\p{P}\p{S}]"),
    (Class.ASCII_LETTER, "[A-Za-z]"),
    (Class.LETTER, r"[\p{L}\p{M}]"),
)
# the carriage return and the line feed stand in it as themselves
_PATTERN = (
    _ASCII_SYMBOL + "[A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)


def starts(text: Neighbours) -> jax.Array:
    """See :class:`~.neighbours.Family`."""
    here = text.here
    block = _block(here)
    before, after = (jnp.where(_block(of) == block, of, jnp.uint8(END)) for of in (text.before, text.after))
    n = Neighbours(text.first, here, before, after)
    newline, number = here == Class.NEWLINE, here == Class.NUMBER
    letter, symbol, other = _is_letter(here), _is_symbol(here), _is_other(here)
    # a symbol that no match reaches yet
    fresh = symbol & ~(_is_symbol(before) | (before == Class.SPACE))
    taken_along = (here == Class.ASCII_LETTER) & behind((here == Class.ASCII_SYMBOL) & fresh, 1, False)

    begins = fresh
    loose = _is_letter(before) | _is_other(before) | (before == Class.SPACE) | (before == Class.WHITE)
    begins |= letter & ~loose & ~taken_along
    begins |= other & (_is_letter(after) | ~_is_other(before))
    begins |= newline & ((before > WHITE) & ~_is_symbol(before))

    tail = (pack(newline & _is_symbol(before)), pack(newline))
    ascii_word = (pack(taken_along), pack(here == Class.ASCII_LETTER))
    rows, mask = thirds(n.first, pack(number))
    tail_marks, in_ascii_word, flooded, line_ahead = floods([tail, ascii_word, rows], [line_end_ahead(here)])
    carried = white_starts(n, tail_marks, line_ahead) | any_row(flooded & mask)
    carried |= earlier(in_ascii_word) & pack(here == Class.LETTER)
    return begins | unpack(carried)


def _block(of: jax.Array) -> jax.Array:
    """0 the rest, 1 numbers, 2 ideographs and kana; the end of a text is of none."""
    found = (of >= Class.NUMBER).astype(jnp.uint8) + (of >= Class.CJK_SYMBOL)
    return jnp.where(of == END, jnp.uint8(3), found)


def _is_letter(of: jax.Array) -> jax.Array:
    return (of == Class.ASCII_LETTER) | (of == Class.LETTER) | (of == Class.CJK_LETTER)


def _is_symbol(of: jax.Array) -> jax.Array:
    return (of == Class.ASCII_SYMBOL) | (of == Class.SYMBOL) | (of == Class.CJK_SYMBOL)


def _is_other(of: jax.Array) -> jax.Array:
    return (of == Class.OTHER) | (of == Class.CJK_OTHER)


#: By the patterns of the stages.
FAMILIES: dict[tuple[str, ...], Family] = {
    (r"\p{N}{1,3}", _CJK + "+", _PATTERN): Family(_SETS, Class.OTHER, starts)
}
