r"""r50k: GPT-2, the first of the line.

    's|'t|'re|'ve|'m|'ll|'d |  ?\p{L}+ |  ?\p{N}+ |  ?[^\s\p{L}\p{N}]+ | \s+(?!\S) | \s+

**Runs.**  Four kinds: letter, number, other and white.  Each visible run is one piece, with a space before it
if there is one.  An other run that is an apostrophe and nothing more, with no space before it, takes the
letters of a contraction along, and the rest of the letter run is a piece.  A white run is a piece, except that
its last character, if the text goes on, begins the next one.  Line ends are white space like any other.
"""

from __future__ import annotations

from typing import NamedTuple

from .contractions import CONTRACTIONS, spelled_ahead, spelled_on
from .family import Family, pairs, pattern_of, stands_for

CLASSES = (
    ("space", r" "),
    ("white", r"\s"),
    ("number", r"\p{N}"),
    ("apostrophe", r"'"),
    ("stmd", r"[stmd]"),  # 's 't 'm 'd: lower case only
    ("rv", r"[rv]"),
    ("e", r"e"),
    ("l", r"l"),
    ("letter", r"\p{L}"),
    ("other", ""),
)
LETTERS = ("stmd", "rv", "e", "l", "letter")
WHITE = ("space", "white")


class Before(NamedTuple):
    """What stands before a character."""

    #: The run that ends here: letter, number or other.  Of a white run, the class of its last character.
    run: str = "start"
    #: The letters since a lone apostrophe, as long as they begin a contraction.
    spelled: tuple[str, ...] | None = None


class After(NamedTuple):
    """What stands after a character."""

    #: The kind of run that the next character is in: letter, number, other or white.
    run: str = "end"
    #: The next characters, as far as they end a contraction.
    spelled: tuple[str, ...] = ()


def kind(name: str) -> str:
    """The kind of run that a class belongs to."""
    if name in LETTERS:
        return "letter"
    if name in WHITE:
        return "white"
    return "number" if name == "number" else "other"


def before(b: Before, c: str) -> Before:
    """The left fold."""
    match kind(c):
        case "letter":
            return Before("letter", spelled_on(b.spelled, c))
        case "other":
            lone = b.run not in ("other", "space")
            return Before("other", () if c == "apostrophe" and lone else None)
        case "number":
            return Before("number")
    return Before(c)


def after(c: str, a: After) -> After:
    """The right fold."""
    return After(kind(c), spelled_ahead(c, a.spelled))


def rule(b: Before, c: str, a: After) -> str | None:
    """The alternative by which a piece begins with a character of class ``c``, or None."""
    this = kind(c)
    # the first character of a visible run that no space has taken along
    fresh = this != "white" and b.run not in (this, "space")
    # the first letter of a contraction, whose lone apostrophe stands before it
    contracted = b.spelled == () and spelled_ahead(c, a.spelled) in CONTRACTIONS

    # 's|'t|'re|'ve|'m|'ll|'d
    if c == "apostrophe" and fresh and a.spelled in CONTRACTIONS:
        return "contraction"
    #  ?\p{L}+
    if this == "letter" and ((fresh and not contracted) or b.spelled in CONTRACTIONS):
        return "letters"
    if c == "space" and a.run == "letter":
        return "letters"
    #  ?\p{N}+
    if (this == "number" and fresh) or (c == "space" and a.run == "number"):
        return "numbers"
    #  ?[^\s\p{L}\p{N}]+
    if (this == "other" and fresh) or (c == "space" and a.run == "other"):
        return "others"
    # \s+(?!\S)
    if this == "white" and b.run not in WHITE and a.run in ("white", "end"):
        return "white space"
    # \s+
    if c == "white" and a.run not in ("white", "end"):
        return "left over"
    return None


RULES = {
    "contraction": stands_for(
        "'s|'t|'re|'ve|'m|'ll|'d",
        "A lone apostrophe before the letters of a contraction; a new piece begins behind them.",
    ),
    "letters": stands_for(
        r" ?\p{L}+",
        "The first letter of a run, or of what a contraction leaves of it, or the space before it.",
    ),
    "numbers": stands_for(r" ?\p{N}+", "The first number of a run, or the space before it."),
    "others": stands_for(r" ?[^\s\p{L}\p{N}]+", "The first character of an other run, or the space before it."),
    "white space": stands_for(
        r"\s+(?!\S)",
        "The first character of a white run, unless it is the last character before a visible one.",
    ),
    "left over": stands_for(r"\s+", "The last character of a white run before a visible one, if it is no space."),
}

SYNCHRONIZING = (
    *pairs(
        LETTERS,
        ("space", "white", "number", "apostrophe", "other"),
        True,
        "A letter run ends with its last letter whatever comes, and nothing but a letter joins the piece.",
    ),
    *pairs(
        ("number",),
        (*LETTERS, "space", "white", "apostrophe", "other"),
        True,
        "A number run is one piece, and joins nothing that follows.",
    ),
    *pairs(
        ("apostrophe", "other"),
        ("space", "white", "number"),
        True,
        "Only an apostrophe takes anything along, and that letters.",
    ),
    *pairs(
        ("other",),
        LETTERS,
        True,
        "Only an apostrophe takes letters along.",
    ),
    *pairs(
        ("apostrophe",),
        ("e", "letter"),
        True,
        "No contraction begins with this letter.",
    ),
    *pairs(
        ("white",),
        (*LETTERS, "number", "apostrophe", "other"),
        False,
        "A visible run takes no white character along but a space; the last white character, which `\\s+(?!\\S)` "
        "gives back before it, would have stayed with the others at the end of a text.",
    ),
)

r50k: Family[Before, After] = Family(
    name="r50k",
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
