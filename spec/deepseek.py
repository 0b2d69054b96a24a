r"""deepseek: DeepSeek-V3, R1 and V4.  Three splitters, each applied to every piece that the one before it leaves.

1.  \p{N}{1,3}
2.  [一-龥぀-ゟ゠-ヿ]+
3.  [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+ | [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ |
     ?[\p{P}\p{S}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+

**Blocks.**  The first two splitters cut the text into *blocks*: numbers, ideographs and kana (`cjk`), and the
*rest*.  For the third, the edge of a block is the edge of a text: white space before a number is the end of
its text, and none of it is given back.  So both folds start afresh where the block changes.

**Runs of the third splitter.**  Letters (marks among them), symbols with their tail of line ends, white space,
and *others*, which no alternative matches: controls, format characters and what is not assigned.

* A symbol run is one piece, with its tail, and with one space before it if there is one.  But if it is a
  single ASCII symbol, with no space before it, and ASCII letters follow, these make the piece.
* Any other letters are one piece, with one character before them that is a white character or an other.
* Others that no letter takes along are a gap between the matches, and a gap is a piece.
* White runs are as in cl100k.
"""

from __future__ import annotations

from typing import NamedTuple

from .family import Family, pairs, pattern_of, stands_for

CJK = r"[一-龥぀-ゟ゠-ヿ]"
ASCII_SYMBOL = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""

CLASSES = (
    ("newline", r"[\r\n]"),
    ("space", r" "),
    ("white", r"\s"),
    ("number", r"\p{N}"),
    ("cjk symbol", CJK[:-1] + r"&&[\p{P}\p{S}]]"),
    ("cjk letter", CJK[:-1] + r"&&[\p{L}\p{M}]]"),
    ("cjk other", CJK),  # code points of the kana blocks that are not assigned
    ("ascii symbol", ASCII_SYMBOL),
    ("symbol", r"[\p{P}\p{S}]"),
    ("ascii letter", r"[A-Za-z]"),
    ("letter", r"[\p{L}\p{M}]"),
    ("other", ""),
)
WHITE = ("newline", "space", "white")


def block(name: str) -> str:
    """The block that a class belongs to."""
    return "number" if name == "number" else "cjk" if name.startswith("cjk") else "rest"


def kind(name: str) -> str:
    """The kind of run that a class belongs to: white, number, symbol, letter or other."""
    return "white" if name in WHITE else name.split()[-1]


class Before(NamedTuple):
    """What stands before a character."""

    #: The block that ends here.
    block: str = "start"
    #: The run that ends here, in this block: number, symbol, tail, letter or other; "lone" is one ASCII symbol
    #: with no space before it, "ascii word" ASCII letters behind it.  Of a white run, its last character's class.
    run: str = "start"
    #: The length of a run of numbers: 1, 2, 3, 1, 2, 3, ...
    length: int = 0


class After(NamedTuple):
    """What stands after a character."""

    #: The block that the next character is in.
    block: str = "end"
    #: The kind of run that it is in, ASCII letters told apart from letters.
    run: str = "end"
    #: Whether a line end follows in the white run that the next character is in.
    newline: bool = False


def joins_tail(b: Before, c: str) -> bool:
    """Whether the character is one of the line ends that a symbol run takes along."""
    return c == "newline" and b.run in ("lone", "symbol", "tail")


def joins_ascii_word(b: Before, c: str) -> bool:
    """Whether the character is one of the ASCII letters that a lone ASCII symbol takes along."""
    return c == "ascii letter" and b.run in ("lone", "ascii word")


def in_block_before(b: Before, c: str) -> Before:
    """The state as the third splitter has it, for which the text starts where the block does."""
    return b if b.block == block(c) else Before(block(c))


def in_block_after(c: str, a: After) -> After:
    """The state as the third splitter has it, for which the text ends where the block does."""
    return a if a.block == block(c) else After()


def before(b: Before, c: str) -> Before:
    """The left fold."""
    b = in_block_before(b, c)
    if joins_tail(b, c):
        return Before(b.block, "tail")
    if joins_ascii_word(b, c):
        return Before(b.block, "ascii word")
    match kind(c):
        case "number":
            return Before(b.block, "number", b.length % 3 + 1)
        case "white":
            return Before(b.block, c)
        case "symbol":
            alone = c == "ascii symbol" and b.run not in ("lone", "symbol", "space")
            return Before(b.block, "lone" if alone else "symbol")
    return Before(b.block, kind(c))


def after(c: str, a: After) -> After:
    """The right fold."""
    newline = c == "newline" or (kind(c) == "white" and a.newline)
    return After(block(c), c if c == "ascii letter" else kind(c), newline)


def rule(b: Before, c: str, a: After) -> str | None:
    """The alternative by which a piece begins with a character of class ``c``, or None."""
    # first splitter, \p{N}{1,3}
    if c == "number":
        return "numbers" if b.run != "number" or b.length == 3 else None
    # second splitter, [一-龥぀-ゟ゠-ヿ]+
    if block(c) == "cjk" and b.block != "cjk":
        return "ideographs"

    # third splitter
    b, a = in_block_before(b, c), in_block_after(c, a)
    this = kind(c)
    letter_next = a.run in ("ascii letter", "letter")
    # a symbol that no match reaches yet
    fresh_symbol = this == "symbol" and b.run not in ("lone", "symbol", "space")
    # the last character of a white run, when the block goes on: `\s+(?!\S)` leaves it to the next match
    left_over = c in ("space", "white") and a.run not in ("white", "end")

    # [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+
    if c == "ascii symbol" and fresh_symbol and a.run == "ascii letter":
        return "ascii word"
    # [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
    if (this == "other" or left_over) and letter_next:
        return "letters"
    if this == "letter" and not (joins_ascii_word(b, c) or b.run in ("letter", "other", "space", "white")):
        return "letters"
    #  ?[\p{P}\p{S}]+[\r\n]*
    if fresh_symbol or (c == "space" and a.run == "symbol"):
        return "symbols"
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
    # what no alternative matches
    return "gap" if this == "other" and b.run != "other" else None


FIRST = {
    "numbers": stands_for(r"\p{N}{1,3}", "Every third number of a block of numbers, from its first on."),
}
SECOND = {
    "ideographs": stands_for(CJK + "+", "The first character of a block of ideographs and kana."),
}
# The carriage return and the line feed stand in these alternatives as themselves, not as escapes.
THIRD = {
    "ascii word": stands_for(
        ASCII_SYMBOL + "[A-Za-z]+",
        "A single ASCII symbol with no space before it and an ASCII letter behind it.",
    ),
    "letters": stands_for(
        "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+",
        "The first letter of a run, or of what an ASCII word leaves of it, or the one character before it that is "
        "white or other.",
    ),
    "symbols": stands_for(
        " ?[\\p{P}\\p{S}]+[\r\n]*",
        "The first character of a symbol run, or the space before it.",
    ),
    "line ends": stands_for(
        "\\s*[\r\n]+",
        "The first character of a white run that holds a line end; the piece ends with the last line end.",
    ),
    "white space": stands_for(
        r"\s+(?!\S)",
        "The first character of a white run, or of what its last line end leaves, unless it is the last "
        "character before a visible one of the block.",
    ),
    "left over": stands_for(
        r"\s+",
        "The last character of a white run, where what follows cannot take it along: an other character, or a "
        "symbol if it is no space.",
    ),
}
GAP = {"gap": stands_for("", "The first of a run of others: no alternative matches there.")}

LETTERS, SYMBOLS = ("ascii letter", "letter"), ("ascii symbol", "symbol")
IN_CJK = ("cjk symbol", "cjk letter", "cjk other")
IN_REST = (*WHITE, *SYMBOLS, *LETTERS, "other")

EDGE = "The block changes, and with it the text of the third splitter."
SYNCHRONIZING = (
    *pairs(("number",), (*IN_CJK, *IN_REST), True, EDGE),
    *pairs(IN_CJK, ("number", *IN_REST), True, EDGE),
    *pairs(IN_REST, ("number", *IN_CJK), True, EDGE),
    *pairs(
        LETTERS,
        (*WHITE, *SYMBOLS, "other"),
        True,
        "A letter run ends with its last letter whatever comes, and nothing but a letter joins the piece.",
    ),
    *pairs(
        SYMBOLS,
        ("space", "white", "letter", "other"),
        True,
        "A symbol run takes line ends along, and a lone ASCII symbol ASCII letters, but nothing else.",
    ),
    *pairs(
        ("symbol",),
        ("ascii letter",),
        True,
        "Only an ASCII symbol takes ASCII letters along.",
    ),
    *pairs(
        ("other",),
        (*WHITE, *SYMBOLS),
        True,
        "A gap ends where anything but a letter begins.",
    ),
    *pairs(
        ("newline",),
        (*LETTERS, *SYMBOLS, "other"),
        True,
        "A match that reaches a line end stops behind the last one of its run, and letters do not take it along.",
    ),
    *pairs(
        ("space", "white"),
        ("other",),
        False,
        "An other character takes no white space along; but the last white character, which `\\s+(?!\\S)` gives "
        "back before it, would have stayed with the others at the end of a text.",
    ),
    *pairs(
        ("white",),
        SYMBOLS,
        False,
        "A symbol run takes a space along and no other white character; which is given back, as before an other.",
    ),
    *pairs(
        ("cjk letter",),
        ("cjk symbol", "cjk other"),
        True,
        "Letters end with the last one, in this block, too.",
    ),
    *pairs(
        ("cjk symbol",),
        ("cjk letter", "cjk other"),
        True,
        "Symbols outside ASCII take nothing along but line ends.",
    ),
    *pairs(("cjk other",), ("cjk symbol",), True, "A gap ends where anything but a letter begins."),
)

deepseek: Family[Before, After] = Family(
    name="deepseek",
    patterns=tuple(pattern_of(rules) for rules in (FIRST, SECOND, THIRD)),
    classes=CLASSES,
    before=before,
    before_start=Before(),
    after=after,
    after_end=After(),
    rule=rule,
    rules={**FIRST, **SECOND, **THIRD, **GAP},
    synchronizing=SYNCHRONIZING,
)
