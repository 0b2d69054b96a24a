r"""Piece starts by run decomposition (the paper's section 4.1), for the families cl100k and qwen2.

    (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,3} |
     ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+

Whether a character begins a piece is told by the characters around it, and by what runs carry along: whether a
line end follows in a run of white space, whether line ends follow a run of other characters, and the place in a
run of numbers.  The last three are floods over bits (:func:`.bits.flood`), of 32 characters a step; there is no
automaton and no lane, so all texts take the same time.  The rules are those of ``spec/cl100k.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tokenizers import Regex as EngineRegex
from tokenizers import normalizers

from ...compiled import Split
from ...pipeline import ByteLevel, PreTokenizer, PreTokenizerSequence, Regex
from ...pipeline import Split as SplitStep
from .bits import flood, flood_back, once, pack, unpack
from .tables import Array, take
from .utf8 import ADDED, PADDING, Characters, behind, of_character, of_next


class Class(IntEnum):
    """Classes of characters; ``END`` is no text: what lies beyond either end, and added tokens."""

    NEWLINE, SPACE, WHITE, NUMBER, APOSTROPHE, STMD, RV, E, L, LETTER, OTHER, END = range(12)


#: The first of these sets that a character is in gives its class.
_SETS = (r"[\r\n]", " ", r"\s", r"\p{N}", "'", r"(?i:[stmd])", r"(?i:[rv])", r"(?i:e)", r"(?i:l)")
_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?%s+|\p{N}%s| ?[^\s%s\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
#: By pattern: the set of letters, and how many numbers are a piece.
FAMILIES = {
    _PATTERN % (r"\p{L}", "{1,3}", r"\p{L}"): (r"\p{L}", 3),
    _PATTERN % (r"\p{L}", "", r"\p{L}"): (r"\p{L}", 1),
    _PATTERN % (r"[\p{L}\p{M}]", "", r"\p{L}\p{M}"): (r"[\p{L}\p{M}]", 1),
}


@dataclass(frozen=True)
class RunTables:
    """``class_of``: uint8 (0x110000,), the class of each code point; ``numbers``: as many are a piece, 1 or 3."""

    class_of: Array
    numbers: int


jax.tree_util.register_dataclass(RunTables, ["class_of"], ["numbers"])


def run_tables(pre_tokenizer: PreTokenizer | None, split: Split) -> RunTables | None:
    """The tables of a pre-tokenizer that is of one of :data:`FAMILIES`, on the host; None if it is of none.

    Of the characters of an atom, which the pattern does not tell apart, the reference is asked about one.
    """
    family = _family(pre_tokenizer)
    if family is None:
        return None
    letters, numbers = family
    inside = [normalizers.Replace(EngineRegex(source), "").normalize_str for source in (*_SETS, letters)]
    atoms, examples = np.unique(split.atom_of[:0xD800], return_index=True)  # surrogates are no characters
    class_of_atom = np.full(256, Class.OTHER, np.uint8)
    for atom, example in zip(atoms.tolist(), examples.tolist(), strict=True):
        class_of_atom[atom] = next((n for n, remove in enumerate(inside) if not remove(chr(example))), Class.OTHER)
    return RunTables(class_of_atom[split.atom_of], numbers)


def _family(pre_tokenizer: PreTokenizer | None) -> tuple[str, int] | None:
    match pre_tokenizer:
        case PreTokenizerSequence((SplitStep(Regex(source), behavior, invert), ByteLevel(False, _, False))):
            # every character is in a match, so nothing lies between matches to be removed
            if (behavior, invert) in (("Isolated", False), ("Removed", True)):
                return FAMILIES.get(source)
    return None


def run_starts(data: jax.Array, characters: Characters, tables: RunTables) -> jax.Array:
    """Where pieces begin, bool over the bytes of a text; an added token is one piece."""
    first = characters.first
    point = take(tables.class_of, characters.point)
    here = once(of_character(first, once(jnp.where(data < PADDING, point, jnp.uint8(Class.END)))))
    before = behind(here, 1, Class.END)
    after = once(of_next(characters.size.astype(jnp.uint8), here, Class.END))

    newline = once(here == Class.NEWLINE)
    gap = (here == Class.SPACE) | (here == Class.WHITE)
    # an other character that no match reaches yet
    fresh = once(_is_other(here) & ~(_is_other(before) | (before == Class.SPACE)))
    lone_before = behind(of_character(first, fresh), 1, False)

    # line ends that an other run takes along, and white space with a line end behind it in its run
    tail = flood(pack(newline & _is_other(before)), pack(newline))
    line_ahead = flood_back(pack(newline), pack(here <= Class.WHITE))
    behind_tail = tail << 1 | jnp.pad(tail >> 31, (1, 0))[:-1]
    behind_line = pack(gap & (before == Class.NEWLINE)) & (behind_tail | ~line_ahead)

    joined = _is_letter(before) | (before == Class.SPACE) | (before == Class.WHITE) | lone_before
    begins = _is_letter(here) & (_behind_contraction(first, here, fresh) | ~joined)
    begins |= fresh
    begins |= gap & (((after > Class.WHITE) & (after != Class.END)) | (before > Class.WHITE))
    begins |= newline & (_is_letter(before) | (before == Class.NUMBER) | (before == Class.END))
    begins |= data == ADDED
    number = here == Class.NUMBER
    if tables.numbers == 1:
        return first & (begins | number | unpack(behind_line))
    thirds = _thirds(first, number, number & (before != Class.NUMBER))
    return first & (begins | unpack(behind_line | thirds))


def _is_letter(of: jax.Array) -> jax.Array:
    return (of >= Class.STMD) & (of <= Class.LETTER)


def _is_other(of: jax.Array) -> jax.Array:
    return (of == Class.OTHER) | (of == Class.APOSTROPHE)


def _behind_contraction(first: jax.Array, here: jax.Array, fresh: jax.Array) -> jax.Array:
    """Whether a contraction ends before a byte: one or two letters after an apostrophe that stands alone."""
    apostrophe = behind((here == Class.APOSTROPHE) & fresh, 1, False)
    short = of_character(first, (here == Class.STMD) & apostrophe)
    long = (here == Class.E) & behind((here == Class.RV) & apostrophe, 1, False)
    long |= (here == Class.L) & behind((here == Class.L) & apostrophe, 1, False)
    return once(behind(short | long, 1, False))


def _thirds(first: jax.Array, number: jax.Array, run: jax.Array) -> jax.Array:
    """Every third character of runs of numbers from their beginnings on, packed."""
    words = pack(first)
    ones = lax.population_count(words).astype(jnp.int32)
    up_to = jnp.uint32(0xFFFFFFFF) >> (31 - jnp.arange(32, dtype=jnp.uint32))
    inside = lax.population_count(words[:, None] & up_to)
    residue = once(lax.rem(((jnp.cumsum(ones) - ones) % 3).astype(jnp.uint32)[:, None] + inside, jnp.uint32(3)))
    residue = residue.reshape(-1)
    same = jnp.stack([pack(residue == k) for k in range(3)])
    # what has the residue of its run's first character is as far from it as a multiple of three
    flooded = flood(same & pack(run), jnp.broadcast_to(pack(number), same.shape))
    found = flooded & same
    return found[0] | found[1] | found[2]
