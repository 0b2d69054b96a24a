r"""o200k: GPT-4o, gpt-oss, MiniMax; and Mistral's Tekken, which has no contractions and one number a piece.

    [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)? |
    [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)? |
    \p{N}{1,3} |  ?[^\s\p{L}\p{N}]+[\r\n/]* | \s*[\r\n]+ | \s+(?!\S) | \s+

Numbers, other runs and white runs are as in cl100k, except that a slash behind a line end belongs to the tail of
an other run.  What is new are words.

**Case.**  Letters are *upper* (Lu, Lt), *lower* (Ll) or *both* (Lm, Lo: scripts without case), and marks are
both.  A word is uppers, then lowers; what is both fits in either part.  So within a stretch of letters

* an upper after a lower begins a piece, and so it does after a both that comes after a lower;
* before any lower, the first part `[..]*` takes uppers and boths as far as they go.  It has to give some back if
  no lower follows, since `[..]+` wants one character: the last both, and all uppers behind it.  So an upper
  directly after a both begins a piece if nothing but uppers follows to the end of the stretch.
* A piece of uppers alone is what the second alternative is for.

**Contractions** are the end of a word, not a piece: an apostrophe directly after a word, and the letters of a
contraction, belong to the word, and what comes next starts afresh, as at the start of a text.

**Marks** are letters in a word, and others in an other run; but a lone other character, as in cl100k,
is taken along by the letters or marks that follow it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from .contractions import CONTRACTIONS, spelled_ahead, spelled_on
from .family import Family, pairs, pattern_of, stands_for

CLASSES = (
    ("newline", r"[\r\n]"),
    ("space", r" "),
    ("white", r"\s"),
    ("number", r"\p{N}"),
    ("slash", r"/"),
    ("apostrophe", r"'"),
    ("STMD", r"[STMD]"),  # the letters of contractions, in upper and in lower case
    ("RV", r"[RV]"),
    ("E", r"E"),
    ("L", r"L"),
    ("stmd", r"(?i:[stmd])"),  # the long s, U+017F, is one too
    ("rv", r"(?i:[rv])"),
    ("e", r"(?i:e)"),
    ("l", r"(?i:l)"),
    ("upper", r"[\p{Lu}\p{Lt}]"),
    ("lower", r"\p{Ll}"),
    ("both", r"[\p{Lm}\p{Lo}]"),
    ("mark", r"\p{M}"),
    ("other", ""),
)
UPPERS = ("STMD", "RV", "E", "L", "upper")
LOWERS = ("stmd", "rv", "e", "l", "lower")
WORD = (*UPPERS, *LOWERS, "both", "mark")
WHITE = ("newline", "space", "white")


class Before(NamedTuple):
    """What stands before a character."""

    #: The run that ends here: word, number, other or tail.  Of a white run, the class of its last character.
    run: str = "start"
    #: The length of the run: of numbers 1, 2, 3, 1, 2, 3, ...; of others, the space before them counted, 1 or 2
    #: (more than one); else 0.
    length: int = 0
    #: In a word: "lower" once its piece has a lower, else "both" or "upper" after its last character.
    case: str = ""
    #: The letters since an apostrophe directly after a word, as long as they begin a contraction.
    spelled: tuple[str, ...] | None = None


class After(NamedTuple):
    """What stands after a character."""

    #: The kind of run that the next character is in: word, number, other or white.
    run: str = "end"
    #: Whether a line end follows in the white run that the next character is in.
    newline: bool = False
    #: Whether nothing but uppers follows until the word ends: in a word, or no letter at all.
    uppers: bool = True
    #: The next characters, as far as they end a contraction.
    spelled: tuple[str, ...] = ()


def kind(name: str) -> str:
    """The kind of run that a class belongs to, if no other run takes a mark along."""
    if name in WORD:
        return "word"
    if name in WHITE:
        return "white"
    return "number" if name == "number" else "other"


def in_other_run(b: Before, c: str) -> bool:
    """Whether the character is in an other run: a mark is, behind more than a lone other character."""
    return kind(c) == "other" or (c == "mark" and b.run == "other" and b.length == 2)


def joins_tail(b: Before, c: str) -> bool:
    """Whether the character is one of the line ends and slashes that an other run takes along."""
    return (c == "newline" and b.run in ("other", "tail")) or (c == "slash" and b.run == "tail")


def before(b: Before, c: str) -> Before:
    """The left fold."""
    if joins_tail(b, c):
        return Before("tail")
    if in_other_run(b, c):
        length = 2 if b.run in ("other", "space") else 1
        return Before("other", length, spelled=() if c == "apostrophe" and b.run == "word" else None)
    match kind(c):
        case "word":
            spelled = spelled_on(b.spelled, c)
            if spelled in CONTRACTIONS:
                return Before()
            if c in UPPERS:
                return Before("word", case="upper", spelled=spelled)
            return Before("word", case="lower" if c in LOWERS or b.case == "lower" else "both", spelled=spelled)
        case "number":
            return Before("number", b.length % 3 + 1 if b.run == "number" else 1)
    return Before(c)


def after(c: str, a: After) -> After:
    """The right fold."""
    newline = c == "newline" or (kind(c) == "white" and a.newline)
    uppers = kind(c) != "word" or (c in UPPERS and a.uppers)
    return After(kind(c), newline, uppers, spelled_ahead(c, a.spelled))


def rule(b: Before, c: str, a: After) -> str | None:
    """The alternative by which a piece begins with a character of class ``c``, or None."""
    # the apostrophe of a contraction at the end of a word
    suffix = c == "apostrophe" and b.run == "word" and a.spelled in CONTRACTIONS
    # an other character that no match reaches yet, and that stands alone if no other follows
    fresh_other = kind(c) == "other" and b.run not in ("other", "space") and not joins_tail(b, c) and not suffix
    # the last character of a white run, when the text goes on: `\s+(?!\S)` leaves it to the next match
    left_over = c in ("space", "white") and a.run not in ("white", "end")
    # the first character of a stretch of letters and marks that nothing before it takes along
    lone_before = b.run == "other" and b.length == 1
    fresh_word = kind(c) == "word" and not (
        in_other_run(b, c) or lone_before or b.run in ("word", "space", "white")
    )
    # an upper inside a stretch where the word before it has come to its end (and not the last one of 'rE or 'lL)
    word_over = b.case == "lower" or (b.case == "both" and a.uppers)
    second_word = c in UPPERS and word_over and spelled_on(b.spelled, c) not in CONTRACTIONS

    # [^\r\n\p{L}\p{N}]?[upper both]*[lower both]+(contraction)?
    # [^\r\n\p{L}\p{N}]?[upper both]+[lower both]*(contraction)?
    if ((fresh_other or left_over) and a.run == "word") or fresh_word or second_word:
        only_uppers = a.uppers and (c in UPPERS or kind(c) != "word")
        return "capitals" if only_uppers else "words"
    # \p{N}{1,3}
    if c == "number" and (b.run != "number" or b.length == 3):
        return "numbers"
    #  ?[^\s\p{L}\p{N}]+[\r\n/]*
    if fresh_other or (c == "space" and a.run == "other"):
        return "others"
    # \s*[\r\n]+
    first = kind(c) == "white" and b.run not in WHITE and not joins_tail(b, c)
    if first and (c == "newline" or a.newline):
        return "line ends"
    # \s+(?!\S)
    if c in ("space", "white") and a.run in ("white", "end") and not a.newline and (first or b.run == "newline"):
        return "white space"
    # \s+
    return "left over" if left_over else None


PREFIX = r"[^\r\n\p{L}\p{N}]?"
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
UPPER_OR_BOTH = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER_OR_BOTH = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

RULES = {
    "words": stands_for(
        PREFIX + UPPER_OR_BOTH + "*" + LOWER_OR_BOTH + "+" + SUFFIX,
        "The first character of a stretch of letters, or an upper in it where case says so, or the one character "
        "before the stretch that is no line end, letter or number and that no earlier match has taken.",
    ),
    "capitals": stands_for(
        PREFIX + UPPER_OR_BOTH + "+" + LOWER_OR_BOTH + "*" + SUFFIX,
        "The same, where nothing but uppers follows in the stretch.",
    ),
    "numbers": stands_for(r"\p{N}{1,3}", "Every third character of a number run, from its first on."),
    "others": stands_for(
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        "The first character of an other run, or the space before it.",
    ),
    "line ends": stands_for(
        r"\s*[\r\n]+",
        "The first character of a white run that holds a line end; the piece ends with the last line end.",
    ),
    "white space": stands_for(
        r"\s+(?!\S)",
        "The first character of a white run, or of what its last line end leaves, unless it is the last "
        "character before a visible one.",
    ),
    "left over": stands_for(
        r"\s+",
        "The last character of a white run, where what follows cannot take it along: a number, or an other "
        "character if it is no space.",
    ),
}

CASE = "A lower, and no upper behind it fits: the word's part of lowers has begun, or a contraction has ended it."
SYNCHRONIZING = (
    *pairs(
        (*UPPERS, *LOWERS, "both"),
        ("newline", "space", "white", "number", "slash", "other"),
        True,
        "A word ends with its last letter, or with a contraction behind an apostrophe, whatever else comes.",
    ),
    *pairs(
        ("mark",),
        ("space", "white", "number"),
        True,
        "A mark is in a word or in an other run, and neither takes this along.",
    ),
    *pairs(("stmd", "e", "lower"), UPPERS, True, CASE),
    *pairs(("rv",), ("STMD", "RV", "L", "upper"), True, CASE + "  (Not r before E: it may be that of 'rE.)"),
    *pairs(("l",), ("STMD", "RV", "E", "upper"), True, CASE + "  (Not l before L: it may be that of 'lL.)"),
    *pairs(
        ("number",),
        (*WORD, "newline", "space", "white", "slash", "apostrophe", "other"),
        True,
        "A number joins neither what follows nor what stands before it, and ends its piece at the end of its run.",
    ),
    *pairs(
        ("slash", "apostrophe", "other"),
        ("space", "white", "number"),
        True,
        "An other run takes line ends and slashes along and may be taken along by a word, but by nothing else.",
    ),
    *pairs(
        ("newline",),
        (*WORD, "number", "apostrophe", "other"),
        True,
        "A match that reaches a line end stops behind the last one of its run (in a tail, with a slash), "
        "and words do not take it along.",
    ),
    *pairs(
        ("space", "white"),
        ("number",),
        False,
        "A number takes no white space along; but the last white character, which `\\s+(?!\\S)` gives back before "
        "it, would have stayed with the others at the end of a text.",
    ),
    *pairs(
        ("white",),
        ("slash", "apostrophe", "other"),
        False,
        "An other run takes a space along and no other white character; which is given back, as before a number.",
    ),
)


o200k: Family[Before, After] = Family(
    name="o200k",
    patterns=(pattern_of(RULES),),
    classes=CLASSES,
    before=before,
    before_start=Before(),
    after=after,
    after_end=After(),
    rule=rule,
    rules=RULES,
    synchronizing=SYNCHRONIZING,
)


def tekken_rule(b: Before, c: str, a: After) -> str | None:
    r"""As in o200k, but ``\p{N}``: each number is a piece."""
    return "numbers" if c == "number" else rule(b, c, a)


CONTRACTION_CLASSES = ("apostrophe", *UPPERS[:4], *LOWERS[:4])
TEKKEN_CLASSES = tuple(row for row in CLASSES if row[0] not in CONTRACTION_CLASSES)
TEKKEN_RULES = {
    **RULES,
    "words": RULES["words"].replace(SUFFIX, ""),
    "capitals": RULES["capitals"].replace(SUFFIX, ""),
    "numbers": stands_for(r"\p{N}", "Every number."),
}

tekken: Family[Before, After] = replace(
    o200k,
    name="tekken",
    patterns=(pattern_of(TEKKEN_RULES),),
    classes=TEKKEN_CLASSES,
    rule=tekken_rule,
    rules=TEKKEN_RULES,
    synchronizing=(
        *(pair for pair in SYNCHRONIZING if {pair.a, pair.b} <= {name for name, _ in TEKKEN_CLASSES}),
        *pairs(("number",), ("number",), True, "Each number is a piece."),
    ),
)
