"""A parser for the regular expressions found in pre-tokenizers.

The dialect is the reference engine's (Oniguruma).  Only what can be run
exactly by a finite-state machine over characters is accepted; anything else
raises :class:`~toktier.errors.UnsupportedPatternError` with the position of
the construct, and the tokenizer then runs on the reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from ..errors import UnsupportedPatternError

# --- character sets -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chars:
    """Inclusive ranges of code points."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Property:
    """A set that only the engine knows, by its source: ``\\p{L}``, ``\\s``, ``(?i:s)``."""

    source: str


@dataclass(frozen=True, slots=True)
class Not:
    operand: SetExpr


@dataclass(frozen=True, slots=True)
class Union:
    operands: tuple[SetExpr, ...]


@dataclass(frozen=True, slots=True)
class Intersection:
    operands: tuple[SetExpr, ...]


SetExpr: TypeAlias = Chars | Property | Not | Union | Intersection

# --- patterns -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class One:
    """One character of a set."""

    set: SetExpr


@dataclass(frozen=True, slots=True)
class Concat:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """Ordered: an earlier branch that can succeed is taken."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``item`` at least ``low`` and at most ``high`` times (None: no bound)."""

    item: Node
    low: int
    high: int | None
    lazy: bool


@dataclass(frozen=True, slots=True)
class Atomic:
    """``item`` as it matches by itself; what follows cannot make it match otherwise."""

    item: Node


@dataclass(frozen=True, slots=True)
class LookAhead:
    """``item`` matches here; negated: it does not."""

    item: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class LookBehind:
    """The character before is in ``set``; negated: it is not, or there is none."""

    set: SetExpr
    negated: bool


@dataclass(frozen=True, slots=True)
class TextEnd:
    """``\\z``: the text ends here."""


Node: TypeAlias = One | Concat | Alternation | Repeat | Atomic | LookAhead | LookBehind | TextEnd

ANY: SetExpr = Not(Chars(()))
_LINE_FEED = Chars(((10, 10),))
_IN_LINE: SetExpr = Not(_LINE_FEED)
_TEXT_START = LookBehind(ANY, True)


def _word_edge(negated: bool) -> Node:
    """Where one of the two characters at a place is of a word and the other is not; or, ``negated``, elsewhere."""
    word = Property(r"\w")
    sides = (
        Concat((LookBehind(word, not before), LookAhead(One(word), before is not negated)))
        for before in (True, False)
    )
    return Alternation(tuple(sides))


# `$` and `^` are line anchors in this dialect, and `^` does not hold at the end of a text that is not empty.
_ANCHORS: dict[str, Node] = {
    "$": LookAhead(Alternation((One(_LINE_FEED), TextEnd())), False),
    "^": Alternation((_TEXT_START, Concat((LookBehind(_LINE_FEED, False), LookAhead(One(ANY), False))))),
    "\\A": _TEXT_START,
    "\\z": TextEnd(),
    "\\Z": LookAhead(Concat((Repeat(One(_LINE_FEED), 0, 1, False), TextEnd())), False),
    "\\b": _word_edge(False),
    "\\B": _word_edge(True),
}
_ESCAPED = {"r": 13, "n": 10, "t": 9, "f": 12, "v": 11, "a": 7, "e": 27}
_SHORTHAND = "sSdDwWhH"
#: Names of the set of all word characters; the engine passes over case, blanks and strokes in them.
_WORD_NAME = re.compile(r"\\w|\\p\{[-_ ]*w[-_ ]*o[-_ ]*r[-_ ]*d[-_ ]*\}", re.IGNORECASE)
_POSIX_BRACKET = re.compile(
    r"\[:(?P<negated>\^?)"
    r"(?P<name>alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]"
)
_DEEPEST = 60


@cache
def _multi_character_folds() -> frozenset[str]:
    """Adjacent pairs inside full case foldings: ``ss`` of U+00DF, ``st`` of U+FB06 and so on."""
    found: set[str] = set()
    for first in range(0, 0x20000, 256):
        block = "".join(map(chr, range(first, first + 256)))
        if len(block.casefold()) > len(block):  # some character becomes several; most blocks have none
            folds = (char.casefold() for char in block)
            found.update(fold[i : i + 2] for fold in folds for i in range(len(fold) - 1))
    return frozenset(found)


def parse(source: str) -> Node:
    """Parse ``source``; raise :class:`UnsupportedPatternError` for what is outside the dialect."""
    parser = _Parser(source)
    node = parser.alternation()
    if parser.at < len(source):
        raise parser.refuse("an unmatched ')'")
    return node


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.ignore_case = False
        self.depth = 0

    def refuse(self, what: str, at: int | None = None) -> UnsupportedPatternError:
        at = self.at if at is None else at
        return UnsupportedPatternError(
            f"{what} at position {at} of the pattern {self.source!r} is not covered by the derivation", at
        )

    def peek(self, text: str) -> bool:
        return self.source.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def descend(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.refuse(f"nesting deeper than {_DEEPEST}")

    # alternation := concatenation ('|' concatenation)*
    def alternation(self) -> Node:
        self.descend()
        branches = [self.concatenation()]
        while self.take("|"):
            branches.append(self.concatenation())
        self.depth -= 1
        return branches[0] if len(branches) == 1 else Alternation(tuple(branches))

    def concatenation(self) -> Node:
        items: list[Node] = []
        previous = ""
        while self.at < len(self.source) and not self.peek("|") and not self.peek(")"):
            start = self.at
            item = self.quantified(self.atom())
            if self.ignore_case:
                # (?i:ss) also matches U+00DF in this engine; a machine over single characters cannot
                literal = self.source[start : self.at].casefold()
                if previous + literal[:1] in _multi_character_folds():
                    raise self.refuse("a case-insensitive pair with a multi-character folding", start)
                previous = literal[-1:]
            if _begins_with_rest_of_line(item) and _end_asserting(items):
                raise self.refuse("'.*' behind an assertion, where the engine misses matches,", start)
            items.append(item)
        return items[0] if len(items) == 1 else Concat(tuple(items))

    def quantified(self, item: Node) -> Node:
        start = self.at
        bounds = self.bounds()
        if bounds is None:
            return item
        low, high = bounds
        interval = self.source[start] == "{"
        if interval and self.ignore_case:
            raise self.refuse("an interval inside (?i:…)", start)  # the engine spells it out: s{1}t is st
        if isinstance(item, LookAhead | LookBehind | TextEnd) or item in _ANCHORS.values():
            raise self.refuse("a quantified assertion", start)
        repeat: Node = Repeat(item, low, high, False)
        if self.peek("?"):
            if interval and low == high:
                raise self.refuse("'{n}?', which dialects read differently,", start)
            self.at += 1
            repeat = Repeat(item, low, high, True)
        elif self.take("+"):  # possessive, but a{2,3}+ is (?:a{2,3})+ in this dialect
            repeat = Repeat(repeat, 1, None, False) if interval else Atomic(repeat)
        if self.peek("*") or self.peek("+") or self.peek("?") or (self.peek("{") and self.is_interval()):
            raise self.refuse("a quantifier on a quantifier")
        return repeat

    def is_interval(self) -> bool:
        start = self.at
        found = self.bounds() is not None
        self.at = start
        return found

    def bounds(self) -> tuple[int, int | None] | None:
        if self.take("*"):
            return 0, None
        if self.take("+"):
            return 1, None
        if self.take("?"):
            return 0, 1
        if not self.peek("{"):
            return None
        close = self.source.find("}", self.at)
        inside = self.source[self.at + 1 : close] if close > 0 else ""
        low, comma, high = inside.partition(",")
        if not low and high.isdecimal():
            raise self.refuse("an interval without a lower bound")
        if not inside.isascii() or not (low.isdecimal() and (high.isdecimal() or not high)):
            return None  # an invalid interval is a literal brace
        bounds = int(low), (int(high) if high else None) if comma else int(low)
        if (bounds[1] is not None and (bounds[1] < bounds[0] or bounds[1] == 0)) or bounds[0] > 1000:
            raise self.refuse("an interval out of order or range")
        self.at = close + 1
        return bounds

    def atom(self) -> Node:
        start = self.at
        if self.take("("):
            if self.ignore_case:
                raise self.refuse("a group inside (?i:…)", start)
            return self.group(start)
        if self.take("["):
            return One(self.letters(start) if self.ignore_case else self.bracket(start))
        if self.take("."):
            return One(_IN_LINE)
        for anchor, node in _ANCHORS.items():
            if self.take(anchor):
                return node
        if self.take("\\"):
            return One(self.escape(start))
        char = self.source[self.at]
        if self.ignore_case and len(char.casefold()) > 1:
            raise self.refuse("a case-insensitive character with a multi-character folding")
        if char in "*+?":
            raise self.refuse("a quantifier with nothing to repeat")
        self.at += 1
        return One(self.literal(char))

    def literal(self, char: str) -> SetExpr:
        if self.ignore_case and (char.lower() != char.upper() or not char.isascii()):
            return Property(f"(?i:{char})")
        return Chars(((ord(char), ord(char)),))

    def letters(self, start: int) -> SetExpr:
        """The rest of ``[…]`` inside ``(?i:…)``, which lists ASCII letters and digits, one by one."""
        close = self.source.find("]", self.at)
        listed = self.source[self.at : close]
        # the engine takes a class of one character for the character, which may fold together with the next one
        if not listed.isascii() or not listed.isalnum() or len({*listed.lower()}) < 2:
            raise self.refuse("such a character class inside (?i:…)", start)
        self.at = close + 1
        return Union(tuple(map(self.literal, listed)))

    def group(self, start: int) -> Node:
        if self.take("?:"):
            return self.close(self.alternation(), start)
        if self.take("?i:"):
            outer, self.ignore_case = self.ignore_case, True
            node = self.alternation()
            self.ignore_case = outer
            return self.close(node, start)
        if self.take("?>"):
            return Atomic(self.close(self.alternation(), start))
        for opening, negated in (("?=", False), ("?!", True)):
            if self.take(opening):
                return LookAhead(self.close(self.alternation(), start), negated)
        for opening, negated in (("?<=", False), ("?<!", True)):
            if self.take(opening):
                body = self.close(self.alternation(), start)
                if not isinstance(body, One):
                    raise self.refuse("a look-behind of other than one character", start)
                return LookBehind(body.set, negated)
        if self.peek("?"):
            raise self.refuse(f"the group '({self.source[self.at : self.at + 3]}…'", start)
        return self.close(self.alternation(), start)

    def close(self, node: Node, start: int) -> Node:
        if not self.take(")"):
            raise self.refuse("a group that is not closed", start)
        return node

    def escape(self, start: int, in_class: bool = False) -> SetExpr:
        """What follows a backslash, in or outside of brackets."""
        if self.at == len(self.source):
            raise self.refuse("a trailing backslash", start)
        char = self.source[self.at]
        self.at += 1
        if char in "pP":
            close = self.source.find("}", self.at)
            if not self.peek("{") or close < 0:
                raise self.refuse("a property without braces", start)
            name = self.source[self.at + 1 : close]
            self.at = close + 1
            negated = (char == "P") != name.startswith("^")
            return _property("\\p{" + name.removeprefix("^") + "}", negated, in_class)
        if char in _SHORTHAND:
            return _property("\\" + char.lower(), char.isupper(), in_class)
        if char in _ESCAPED:
            return Chars(((_ESCAPED[char], _ESCAPED[char]),))
        if char in "xu":
            if self.ignore_case:
                raise self.refuse("a code point inside (?i:…)", start)
            code = self.code_point(char, start)
            return Chars(((code, code),))
        if char.isalnum():
            raise self.refuse(f"the escape '\\{char}'", start)
        return Chars(((ord(char), ord(char)),))

    def code_point(self, kind: str, start: int) -> int:
        if kind == "x" and self.take("{"):
            close = self.source.find("}", self.at)
            digits = self.source[self.at : close] if close > 0 else ""
            self.at = close + 1
        else:
            length = 2 if kind == "x" else 4
            digits = self.source[self.at : self.at + length]
            self.at += length
            if len(digits) < length or (kind == "x" and digits[:1] in "89abcdefABCDEF"):
                raise self.refuse("a byte escape", start)
        try:
            code = int(digits, 16)
        except ValueError:
            code = -1
        if not 0 <= code < 0x110000:
            raise self.refuse("an escape that names no code point", start)
        return code

    def bracket(self, start: int) -> SetExpr:
        """The rest of ``[…]``, after the opening bracket; ``&&`` binds loosest."""
        self.descend()
        negated = self.take("^")
        operands: list[SetExpr] = []
        union: list[SetExpr] = []
        first = True
        while True:
            if self.at >= len(self.source):
                raise self.refuse("a character class that is not closed", start)
            if self.peek("]") and not first:
                self.at += 1
                break
            if self.take("&&"):
                operands.append(Union(tuple(union)))
                union = []
                continue
            item_start = self.at
            first = False
            posix = _POSIX_BRACKET.match(self.source, self.at)
            if posix is not None:
                self.at = posix.end()
                named = Property(f"[[:{posix['name']}:]]")
                union.append(Not(named) if posix["negated"] else named)
                continue
            if self.peek("[:"):
                raise self.refuse("a POSIX bracket of another name")
            if self.take("["):
                union.append(self.bracket(item_start))
                continue
            low = self.class_item()
            if isinstance(low, Chars) and self.peek("-") and not self.source.startswith("-]", self.at):
                self.at += 1
                high = self.class_item()
                if not isinstance(high, Chars) or high.ranges[0][0] < low.ranges[0][0]:
                    raise self.refuse("a range that is out of order or ends in a set", item_start)
                union.append(Chars(((low.ranges[0][0], high.ranges[0][0]),)))
            else:
                union.append(low)
        self.depth -= 1
        operands.append(Union(tuple(union)))
        inside: SetExpr = operands[0] if len(operands) == 1 else Intersection(tuple(operands))
        return Not(inside) if negated else inside

    def class_item(self) -> SetExpr:
        start = self.at
        if self.take("\\"):
            return self.escape(start, in_class=True)
        if self.peek("["):
            raise self.refuse("a range that ends in a set")
        char = self.source[self.at]
        self.at += 1
        return Chars(((ord(char), ord(char)),))


def _property(source: str, negated: bool, in_class: bool) -> SetExpr:
    """A named set.  The engine takes ``½``, ``²`` and four more for words, but not in a class like ``[\\w]``."""
    if in_class and _WORD_NAME.fullmatch(source):
        source = f"[{source}]"
    return Not(Property(source)) if negated else Property(source)


def sets_of(node: Node) -> tuple[SetExpr, ...]:
    """The distinct character sets of a pattern, in order of appearance."""
    found: dict[SetExpr, None] = {}

    def visit(node: Node) -> None:
        match node:
            case One(set) | LookBehind(set):
                found.setdefault(set)
            case Concat(children) | Alternation(children):
                for child in children:
                    visit(child)
            case Repeat(item) | Atomic(item) | LookAhead(item):
                visit(item)

    visit(node)
    return tuple(found)


def _begins_with_rest_of_line(node: Node) -> bool:
    """Whether it may begin with ``.*``, ``.+`` or the like, possessive or not, but not lazy."""
    match node:
        case Repeat(One(set), _, None, False):
            return set == _IN_LINE
        case Repeat(item) | Atomic(item):
            return _begins_with_rest_of_line(item)
        case Alternation(branches):
            return any(map(_begins_with_rest_of_line, branches))
        case Concat(items):
            for item in items:
                if _begins_with_rest_of_line(item):
                    return True
                if not can_be_empty(item):
                    return False
    return False


def _end_asserting(items: list[Node]) -> bool:
    """Whether an assertion may stand directly before what comes next.

    Before ``.*`` the engine takes a failure at one place for a failure up to the end of the line, though the
    assertion may hold further on: ``\\b.*a`` does not match in a space and ``a``.
    """
    for item in reversed(items):
        if _asserts(item):
            return True
        if not can_be_empty(item):
            return False
    return False


def _asserts(node: Node) -> bool:
    match node:
        case LookAhead() | LookBehind() | TextEnd():
            return True
        case Repeat(item) | Atomic(item):
            return _asserts(item)
        case Concat(children) | Alternation(children):
            return any(map(_asserts, children))
    return False


def can_be_empty(node: Node) -> bool:
    """Whether a pattern can match the empty string (assertions taken to hold)."""
    match node:
        case One():
            return False
        case Concat(items):
            return all(map(can_be_empty, items))
        case Alternation(branches):
            return any(map(can_be_empty, branches))
        case Repeat(item, low, _, _):
            return low == 0 or can_be_empty(item)
        case Atomic(item):
            return can_be_empty(item)
        case LookAhead() | LookBehind() | TextEnd():
            return True


def consumes_nothing(node: Node) -> bool:
    """Whether a pattern is all assertions, so that it matches between characters and none of them."""
    match node:
        case Concat(children) | Alternation(children):
            return all(map(consumes_nothing, children))
        case Repeat(item) | Atomic(item):
            return consumes_nothing(item)
        case LookAhead() | LookBehind() | TextEnd():
            return True
    return False
