r"""o200k (GPT-4o, gpt-oss, MiniMax), and Mistral's Tekken, without contractions and with one number a piece.

    [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)? |
    [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)? |
    \p{N}{1,3} |  ?[^\s\p{L}\p{N}]+[\r\n/]* | \s*[\r\n]+ | \s+(?!\S) | \s+

More is carried along than in cl100k: whether a mark is in a run of others, whether an apostrophe begins the suffix
of a word, and within a word, whether its lowers have begun and whether a lower follows.  See ``spec/o200k.py``.

The first two depend on themselves: in ``'s's's``, every second contraction is the suffix of the one before it; and
in ``!\n//``, a mark, ``\n//``, a mark and so on, every second line end is in the tail of a run of others, since
slashes that are in a tail leave the mark to a word.  But whatever came before, a character *sets* what is carried
along, *clears* it, *keeps* it or *flips* it (:class:`Carried`), and that is a flood, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial

import jax
import jax.numpy as jnp

from ..bits import earlier, flood, floods, once_on_cpu, pack, parity, unpack
from .neighbours import Family, Neighbours, any_row, contractions, line_end_ahead, thirds, white_starts


class Class(IntEnum):
    """Classes of characters; the ones before ``UPPER`` and ``LOWER`` are the letters of contractions."""

    NEWLINE, SPACE, WHITE, NUMBER, SLASH, APOSTROPHE, OTHER, MARK, BOTH = range(9)
    UPPER_STMD, UPPER_RV, UPPER_E, UPPER_L, UPPER = range(9, 14)
    STMD, RV, E, L, LOWER = range(14, 19)


_SETS = (
    (Class.NEWLINE, r"[\r\n]"),
    (Class.SPACE, " "),
    (Class.WHITE, r"\s"),
    (Class.NUMBER, r"\p{N}"),
    (Class.SLASH, "/"),
    (Class.APOSTROPHE, "'"),
    (Class.UPPER_STMD, "[STMD]"),
    (Class.UPPER_RV, "[RV]"),
    (Class.UPPER_E, "E"),
    (Class.UPPER_L, "L"),
    (Class.STMD, "(?i:[stmd])"),
    (Class.RV, "(?i:[rv])"),
    (Class.E, "(?i:e)"),
    (Class.L, "(?i:l)"),
    (Class.UPPER, r"[\p{Lu}\p{Lt}]"),
    (Class.LOWER, r"\p{Ll}"),
    (Class.BOTH, r"[\p{Lm}\p{Lo}]"),
    (Class.MARK, r"\p{M}"),
)
_WORD = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]%s[\p{Ll}\p{Lm}\p{Lo}\p{M}]%s"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_REST = r"|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class Carried:
    """A bit that is carried along a text: where it is set, and where kept; elsewhere it is cleared.

    ``flipped``: at some of the places where it is kept it becomes the other.  All are packed.
    """

    set: jax.Array
    kept: jax.Array
    flipped: jax.Array


@dataclass(frozen=True)
class Marks:
    """Where characters of these kinds are, packed.

    Of slashes, ``leading`` is the first behind a line end, and ``again`` is every one behind another; the others
    are ``single``, and so are all other characters that are of no kind of their own.
    """

    first: jax.Array
    newline: jax.Array
    space: jax.Array
    letter: jax.Array
    mark: jax.Array
    single: jax.Array
    leading: jax.Array
    again: jax.Array


def starts(n: Neighbours, threes: bool, suffixes: bool) -> jax.Array:
    """See :class:`~.neighbours.Family`.

    ``threes``: up to three numbers are a piece, not one; ``suffixes``: words take contractions along.
    """
    here = n.here
    upper = pack((here >= Class.UPPER_STMD) & (here <= Class.UPPER))
    lower = pack((here >= Class.STMD) & (here <= Class.LOWER))
    both, white, number = pack(here == Class.BOTH), pack(here <= Class.WHITE), pack(here == Class.NUMBER)
    m = _marks(n, upper | lower | both)
    short, long = _contractions(n) if suffixes else (jnp.zeros_like(white), jnp.zeros_like(white))
    in_run = _in_run(m)
    carried = (in_run, _suffix(in_run, m, short, long)) if suffixes else (in_run,)
    kept, odd, set_ = once_on_cpu(
        (
            jnp.stack([bit.kept for bit in carried]),
            parity(jnp.stack([bit.flipped for bit in carried])),
            jnp.stack([bit.set for bit in carried]),
        )
    )
    seeds = (set_ ^ odd) & ~kept  # with the flips so far taken off, what is kept is handed on as it is
    forth = [(seeds, seeds | kept)]
    if threes:
        rows, residues = thirds(n.first, number)
        forth.append(rows)
    back = [line_end_ahead(here), (lower | both | m.mark, m.letter | m.mark)]
    *flooded, line_ahead, lower_ahead = floods(forth, back)
    if threes:
        number = any_row(flooded[1] & residues)
    run, *suffix = once_on_cpu(flooded[0] ^ odd)
    short, long = (short & suffix[0], long & suffix[0]) if suffixes else (short, long)

    lone = (m.single | m.leading) & ~run
    word = m.letter | m.mark & ~run
    begins = number | lone & ~(short | long) | m.newline & ~run & ~earlier(white)
    behind_suffix = earlier(short, 2) | earlier(long, 3)
    begins |= word & (behind_suffix | ~earlier(word | white & ~m.newline | lone))
    # an upper behind the lowers of its word, or with no lower behind it
    lowers = lower & ~(earlier(short | long) | earlier(long, 2))
    begun = flood(lowers, lowers | both | m.mark)
    begins |= upper & (earlier(begun) | earlier(both | m.mark) & ~lower_ahead)
    return unpack(begins | white_starts(n, run & m.newline, line_ahead))


def _marks(n: Neighbours, letter: jax.Array) -> Marks:
    here = n.here
    newline, slash = pack(here == Class.NEWLINE), pack(here == Class.SLASH)
    again = slash & earlier(slash)
    leading = slash & ~again & earlier(newline)
    single = pack((here == Class.APOSTROPHE) | (here == Class.OTHER)) | slash & ~(again | leading)
    space, mark = pack(here == Class.SPACE), pack(here == Class.MARK)
    return Marks(*once_on_cpu((pack(n.first), newline, space, letter, mark, single, leading, again)))


def _in_run(m: Marks) -> Carried:
    """In a run of others, but not alone: an other character, or a mark; in the tail of one: a line end.

    Also in a tail: a slash directly behind a line end or another slash.  One behind another slash that is in a run
    but in no tail is clear.
    """
    behind_other = earlier(m.single)
    behind_slash = earlier(m.leading | m.again)
    behind_mark = earlier(m.mark)
    set_ = m.single & (behind_other | earlier(m.space)) | m.newline & (behind_other | behind_slash)
    flipped = m.single & behind_slash | m.mark & earlier(m.again)
    kept = m.mark & (behind_other | behind_mark) | (m.single | m.newline) & behind_mark
    kept |= m.leading | m.newline & earlier(m.newline) | m.again & behind_slash
    inside = ~m.first & (m.single | m.mark)
    return Carried(set_ & m.first, kept | flipped & m.first | inside, flipped & m.first)


def _suffix(in_run: Carried, m: Marks, short: jax.Array, long: jax.Array) -> Carried:
    """At the apostrophe of a contraction and up to its end: it is the suffix of a word.

    ``short``, ``long``: see :func:`.neighbours.contractions`, packed.  Behind a mark it is one if that is in no
    run, so elsewhere the same is carried as for runs; and directly behind a contraction if that is none.
    """
    begins = short | long
    behind = begins & (earlier(short, 2) | earlier(long, 3))
    flipped = in_run.flipped & ~begins | behind | begins & earlier(m.mark)
    set_ = in_run.set & ~begins | begins & earlier(m.letter) & ~behind
    return Carried(set_, in_run.kept & ~begins | earlier(begins) | earlier(long, 2) | flipped, flipped)


def _contractions(n: Neighbours) -> tuple[jax.Array, jax.Array]:
    """:func:`.neighbours.contractions` in either case, packed."""
    short, long = contractions(n, n.here == Class.APOSTROPHE, Class.UPPER_STMD, Class.STMD)
    return pack(short), pack(long)


def _family(suffix: str, numbers: str) -> tuple[tuple[str, ...], Family]:
    pattern = _WORD % ("*", "+" + suffix) + "|" + _WORD % ("+", "*" + suffix) + _REST % numbers
    return (pattern,), Family(_SETS, Class.OTHER, partial(starts, threes=numbers != "", suffixes=suffix != ""))


#: By the patterns of the stages.
FAMILIES: dict[tuple[str, ...], Family] = dict((_family(_SUFFIX, "{1,3}"), _family("", "")))
