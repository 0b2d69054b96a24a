r"""bert: BertPreTokenizer, which has no regex.

It removes white space, and then makes each punctuation character a piece; what is left between them are
words.  As regexes, one per step: `\s+` (removed) and `[!-/:-@\[-`{-~\p{P}]`.  Its white space and its
punctuation are those of the engine's own functions, whose Unicode tables are older than the regexes'.
"""

from __future__ import annotations

from .family import Family, pairs, stands_for

WHITE = r"\s"
PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]"


def before(b: str, c: str) -> str:
    """The left fold: the class of the previous character."""
    return c


def after(c: str, a: None) -> None:
    """The right fold: nothing that follows matters."""
    return None


def rule(b: str, c: str, a: None) -> str | None:
    """The step that lets a piece begin with a character of class ``c``, or None."""
    if c == "punctuation":
        return "punctuation"
    if c == b:
        return None
    return "white space" if c == "white" else "word"


bert: Family[str, None] = Family(
    name="bert",
    patterns=(WHITE + "+", PUNCTUATION),
    classes=(("white", WHITE), ("punctuation", PUNCTUATION), ("other", "")),
    before=before,
    before_start="start",
    after=after,
    after_end=None,
    rule=rule,
    rules={
        "white space": stands_for(WHITE + "+", "The first character of a white run, which is thrown away."),
        "punctuation": stands_for(PUNCTUATION, "Every punctuation character."),
        "word": stands_for("", "The first character of any other run: no step matches it."),
    },
    synchronizing=(
        *pairs(("other",), ("white", "punctuation"), True, "A word is a run of its own class."),
        *pairs(("white",), ("other", "punctuation"), True, "White space is a run of its own class."),
        *pairs(
            ("punctuation",), ("white", "punctuation", "other"), True, "Each punctuation character is one piece."
        ),
    ),
    removed=frozenset({"white space"}),
)
