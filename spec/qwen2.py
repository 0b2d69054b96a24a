r"""qwen2: Qwen 2, 2.5 and 3, and the variant with marks of Qwen 3.5.

    (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N} |
     ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+

This is cl100k with one number a piece.  Qwen 3.5 counts marks among the letters, so that a word in a script
with vowel signs is one piece; they may still stand before letters as the one other character, but a mark that
begins a match and a letter that does, reach equally far.
"""

from __future__ import annotations

from dataclasses import replace

from . import cl100k as base
from .cl100k import After, Before
from .family import Family, pairs, pattern_of, stands_for


def rule(b: Before, c: str, a: After) -> str | None:
    r"""As in cl100k, but ``\p{N}``: each number is a piece."""
    return "numbers" if c == "number" else base.rule(b, c, a)


RULES = {**base.RULES, "numbers": stands_for(r"\p{N}", "Every number.")}

qwen2: Family[Before, After] = replace(
    base.cl100k,
    name="qwen2",
    patterns=(pattern_of(RULES),),
    rule=rule,
    rules=RULES,
    synchronizing=(
        *base.SYNCHRONIZING,
        *pairs(("number",), ("number",), True, "Each number is a piece."),
    ),
)

MARKS_RULES = {
    **RULES,
    "letters": stands_for(r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+", "As in cl100k, with marks among the letters."),
    "others": stands_for(r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*", "As in cl100k; a mark is no other character."),
}

qwen3_5: Family[Before, After] = replace(
    qwen2,
    name="qwen3_5",
    patterns=(pattern_of(MARKS_RULES),),
    classes=tuple((name, r"[\p{L}\p{M}]" if name == "letter" else chars) for name, chars in base.CLASSES),
    rules=MARKS_RULES,
)
