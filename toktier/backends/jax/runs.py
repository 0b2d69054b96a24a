"""Piece starts by run decomposition (the paper's section 4.1), for the families that ``spec/`` has rules for.

Whether a character begins a piece is told by the characters around it, and by what runs carry along.  There is no
automaton and no lane, so all texts take the same time.  A family is known by the patterns of its stages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from tokenizers import Regex as EngineRegex
from tokenizers import normalizers

from ...compiled import Split
from ...patterns.charsets import DIGITS, members
from ...patterns.syntax import Property
from ...pipeline import ByteLevel, Digits, PreTokenizer, PreTokenizerSequence, Regex
from ...pipeline import Split as SplitStep
from ...plan import GPT2_PATTERN
from .families import cl100k, deepseek, deepseek_coder, o200k, r50k
from .families.neighbours import Family, neighbours
from .tables import Array
from .utf8 import ADDED, Characters

#: By the patterns of the stages; :data:`~toktier.patterns.charsets.DIGITS` is one that makes each digit a piece.
FAMILIES: dict[tuple[str, ...], Family] = {
    **cl100k.FAMILIES,
    **r50k.FAMILIES,
    **o200k.FAMILIES,
    **deepseek.FAMILIES,
    **deepseek_coder.FAMILIES,
}
#: How a stage may treat its matches, and whether it is inverted: what lies between them is a piece, or removed.
_ISOLATED, _REMOVED = ("Isolated", False), ("Removed", True)


@dataclass(frozen=True)
class RunTables:
    """``class_of``: uint8 (0x110000,), the class of each code point in the family."""

    class_of: Array
    family: Family


jax.tree_util.register_dataclass(RunTables, ["class_of"], ["family"])


def run_tables(pre_tokenizer: PreTokenizer | None, split: Split) -> RunTables | None:
    """The tables of a pre-tokenizer that is of one of :data:`FAMILIES`, on the host; None if it is of none.

    Of the characters of an atom, which the patterns do not tell apart, the reference is asked about one.
    """
    family = _family(pre_tokenizer)
    if family is None:
        return None
    sets = [(name, _membership(source)) for name, source in family.sets]
    points = np.delete(np.arange(len(split.atom_of)), slice(0xD800, 0xE000))  # surrogates are no characters
    atoms, examples = np.unique(split.atom_of[points], return_index=True)
    class_of_atom = np.full(256, family.rest, np.uint8)
    for atom, example in zip(atoms.tolist(), map(chr, points[examples].tolist()), strict=True):
        class_of_atom[atom] = next((name for name, has in sets if has(example)), family.rest)
    return RunTables(class_of_atom[split.atom_of], family)


def _membership(source: str) -> Callable[[str], bool]:
    """Whether the reference finds a character in a set."""
    if source == DIGITS:
        digits = members(Property(DIGITS))
        return lambda character: bool(digits[ord(character)])
    remove = normalizers.Replace(EngineRegex(source), "").normalize_str
    return lambda character: not remove(character)


def _family(pre_tokenizer: PreTokenizer | None) -> Family | None:
    steps = pre_tokenizer.stages if isinstance(pre_tokenizer, PreTokenizerSequence) else (pre_tokenizer,)
    match steps:
        case (*before, ByteLevel(False, _, use_regex)):
            sources = [_source(step, alone=len(before) == 1) for step in before]
            sources += [GPT2_PATTERN] if use_regex else []
            return FAMILIES.get(tuple(sources))
    return None


def _source(step: PreTokenizer, alone: bool) -> str:
    """The pattern whose matches a step makes pieces of, empty if it does anything else."""
    match step:
        case Digits(True):
            return DIGITS
        case SplitStep(Regex(source), behavior, invert) if source != DIGITS:
            # of the patterns for one stage each matches every character
            return source if (behavior, invert) == _ISOLATED or (alone and (behavior, invert) == _REMOVED) else ""
    return ""


def run_starts(data: jax.Array, characters: Characters, tables: RunTables) -> jax.Array:
    """Where pieces begin, bool over the bytes of a text; an added token is one piece."""
    n = neighbours(data, characters, tables.class_of)
    return n.first & (tables.family.starts(n) | (data == ADDED))
