r"""cl100k: GPT-4, Llama 3, Phi-4, GLM-4, OLMo 2.  The family that the others vary.

    (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,3} |
     ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+

**Runs.**  Five kinds: *letter*, *number*, *other* (punctuation, symbols, marks, controls), *tail* (the
line ends directly after an other run, which `[\r\n]*` hands to it), and *white* (all other white space,
line ends included).  What the alternatives say of them:

* A number run is cut every three characters.
* An other run is one piece, with its tail, and with one space before it if there is one.
* A letter run is one piece, with one character before it that is neither a line end, a letter nor a number:
  the last of a white run, or an other run that is *lone*, a single character with no space before it
  (a longer one, or one with a space before it, has been matched already when the letters come).
* Where such a lone character is an apostrophe, and the letters begin with a contraction's, the piece
  ends with the contraction, and a new one begins inside the letter run.
* A white run up to its last line end is one piece.  What is left behind that line end is a piece, except
  that its last character, if the text goes on, begins the next one.
"""

from __future__ import annotations

from typing import NamedTuple

from .contractions import CONTRACTIONS, spelled_ahead, spelled_on
from .family import Family, pairs, pattern_of, stands_for

CLASSES = (
    ("newline", r"[\r\n]"),
    ("space", r" "),
    ("white", r"\s"),
    ("number", r"\p{N}"),
    ("apostrophe", r"'"),
    ("stmd", r"(?i:[stmd])"),  # the contractions 's 't 'm 'd: nothing tells these letters apart
    ("rv", r"(?i:[rv])"),  # 're 've
    ("e", r"(?i:e)"),
    ("l", r"(?i:l)"),  # 'll
    ("letter", r"\p{L}"),
    ("other", ""),
)
LETTERS = ("stmd", "rv", "e", "l", "letter")
WHITE = ("newline", "space", "white")


class Before(NamedTuple):
    """What stands before a character."""

    #: The run that ends here: letter, number, other or tail.  Of a white run, the class of its last character.
    run: str = "start"
    #: The length of the run: of numbers 1, 2, 3, 1, 2, 3, ...; of others, the space before them
    #: counted, 1 or 2 (more than one); else 0.
    length: int = 0
    #: The letters since a lone apostrophe, as long as they begin a contraction.
    spelled: tuple[str, ...] | None = None


class After(NamedTuple):
    """What stands after a character."""

    #: The kind of run that the next character is in: letter, number, other or white.
    run: str = "end"
    #: Whether a line end follows in the white run that the next character is in.
    newline: bool = False
    #: The next characters, as far as they end a contraction.
    spelled: tuple[str, ...] = ()


def kind(name: str) -> str:
    """The kind of run that a class belongs to."""
    if name in LETTERS:
        return "letter"
    if name in WHITE:
        return "white"
    return "number" if name == "number" else "other"


def joins_tail(b: Before, c: str) -> bool:
    """Whether the character is one of the line ends that an other run takes along."""
    return c == "newline" and b.run in ("other", "tail")


def before(b: Before, c: str) -> Before:
    """The left fold."""
    match kind(c):
        case "letter":
            return Before("letter", spelled=spelled_on(b.spelled, c))
        case "number":
            return Before("number", b.length % 3 + 1 if b.run == "number" else 1)
        case "other":
            length = 2 if b.run in ("other", "space") else 1
            return Before("other", length, spelled=() if c == "apostrophe" and length == 1 else None)
    return Before("tail") if joins_tail(b, c) else Before(c)


def after(c: str, a: After) -> After:
    """The right fold."""
    newline = c == "newline" or (kind(c) == "white" and a.newline)
    return After(kind(c), newline, spelled_ahead(c, a.spelled))


def rule(b: Before, c: str, a: After) -> str | None:
    """The alternative by which a piece begins with a character of class ``c``, or None."""
    this = kind(c)
    # an other character that no match reaches yet, and that stands alone if no other follows
    fresh_other = this == "other" and b.run not in ("other", "space")
    # the last character of a white run, when the text goes on: `\s+(?!\S)` leaves it to the next match
    left_over = c in ("space", "white") and a.run not in ("white", "end")
    lone_before = b.run == "other" and b.length == 1
    contraction_before = b.spelled in CONTRACTIONS

    # (?i:'s|'t|'re|'ve|'m|'ll|'d)
    if c == "apostrophe" and fresh_other and a.spelled in CONTRACTIONS:
        return "contraction"
    # [^\r\n\p{L}\p{N}]?\p{L}+
    if (fresh_other or left_over) and a.run == "letter":
        return "letters"
    if this == "letter" and (contraction_before or not (b.run in ("letter", "space", "white") or lone_before)):
        return "letters"
    # \p{N}{1,3}
    if this == "number" and (b.run != "number" or b.length == 3):
        return "numbers"
    #  ?[^\s\p{L}\p{N}]+[\r\n]*
    if fresh_other or (c == "space" and a.run == "other"):
        return "others"
    # \s*[\r\n]+
    first = this == "white" and b.run not in WHITE and not joins_tail(b, c)
    if first and (c == "newline" or a.newline):
        return "line ends"
    # \s+(?!\S)
    if c in ("space", "white") and a.run in ("white", "end") and not a.newline and (first or b.run == "newline"):
        return "white space"
    # \s+
    if left_over:
        return "left over"
    return None


RULES = {
    "contraction": stands_for(
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        "A lone apostrophe before the letters of a contraction; a new piece begins behind them.",
    ),
    "letters": stands_for(
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        "The first letter of a run, or the one character before it that is no line end, letter or number "
        "and that no earlier match has taken; and the letter behind a contraction.",
    ),
    "numbers": stands_for(r"\p{N}{1,3}", "Every third character of a number run, from its first on."),
    "others": stands_for(
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
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

VISIBLE = (*LETTERS, "number", "apostrophe", "other")
SYNCHRONIZING = (
    *pairs(
        LETTERS,
        ("newline", "space", "white", "number", "apostrophe", "other"),
        True,
        "A letter run ends with its last letter whatever comes, and nothing but a letter joins the piece.",
    ),
    *pairs(
        ("number",),
        (*LETTERS, "newline", "space", "white", "apostrophe", "other"),
        True,
        "A number joins neither what follows nor what stands before it, and ends its piece at the end of its run.",
    ),
    *pairs(
        ("apostrophe", "other"),
        ("space", "white", "number"),
        True,
        "An other run takes line ends along and may be taken along by letters, but by nothing else.",
    ),
    *pairs(
        ("newline",),
        VISIBLE,
        True,
        "A match that reaches a line end stops behind the last one of its run, and letters do not take it along.",
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
        ("apostrophe", "other"),
        False,
        "An other run takes a space along and no other white character; which is given back, as before a number.",
    ),
)

cl100k: Family[Before, After] = Family(
    name="cl100k",
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
