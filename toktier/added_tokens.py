"""Finding added tokens in a text, as the reference does.

The reference runs a leftmost-longest Aho-Corasick automaton over the literals
and then looks at the flags of each match: ``single_word`` may discard it,
``lstrip`` and ``rstrip`` let it absorb white space.  Here the automaton is one
standard-library ``re`` pattern, shaped as a trie in which every longer literal
is tried before its own prefix, so that the greedy match is the longest one.
"Word" and "white space" are what the reference's own regex engine says they
are; its Unicode tables are not Python's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken as AddedTokenOfReference
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase

from .pipeline import AddedToken
from .records import record, replace
from .segments import NO_IDS, NO_POSITIONS

# How deep trie branches are nested in a pattern before the rest is written flat:
# the pattern compiler of the standard library recurses once or more per level.
_MAX_NESTING = 40
# A character alone is looked for ten times as fast as a pattern. If literals begin with one that a text has more
# often than once in so many characters, though, calling the pattern for each takes longer than one scan.
_RARE = 1 << 10


@record
class Matches:
    """Added tokens found in a text.

    ``starts`` and ``stops`` are character positions (int64, shape ``(n,)``, sorted, not
    overlapping; absorbed white space is inside), ``ids`` the token ids (uint32).
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    ids: NDArray[np.uint32]


NO_MATCHES = Matches(NO_POSITIONS, NO_POSITIONS, NO_IDS)


# --- the reference's character classes -----------------------------------------

_WORD, _SPACE, _OTHER = b"w", b"s", b"o"


@cache  # at most 4,352 pages of 256 bytes
def _page(number: int) -> bytes:
    """Classes of the code points ``256 * number`` to ``256 * number + 255``.

    The ``Whitespace`` pre-tokenizer matches ``\\w+|[^\\w\\s]+`` with the regex engine that
    also serves the added tokens.  After the letter ``a`` a word character joins its
    piece, white space vanishes, and anything else is a piece of its own.
    """
    first = number * 256
    if 0xD800 <= first < 0xE000:
        return _OTHER * 256
    probe = "".join(f"a{chr(code)} " for code in range(first, first + 256))
    classes = bytearray(_SPACE * 256)
    for _, (start, stop) in pre_tokenizers.Whitespace().pre_tokenize_str(probe):
        if start % 3:
            classes[start // 3] = _OTHER[0]
        elif stop - start == 2:
            classes[start // 3] = _WORD[0]
    return bytes(classes)


def _is(character: str, kind: bytes) -> bool:
    code = ord(character)
    return _page(code >> 8)[code & 255] == kind[0]


def is_word(character: str) -> bool:
    """Whether ``\\w`` of the reference's regex engine matches this character."""
    return _is(character, _WORD)


@cache
def white_space() -> str:
    """All characters that ``\\s`` of the reference's regex engine matches.

    Unicode has put no white space outside the Basic Multilingual Plane, so only that
    plane is asked about (the tests look at all of them).
    """
    gaps: list[str] = []
    for first in range(0, 0x10000, 4096):
        text = "".join(chr(code) for code in range(first, first + 4096) if not 0xD800 <= code < 0xE000)
        end = 0
        for _, (start, stop) in pre_tokenizers.Whitespace().pre_tokenize_str(text):
            gaps.append(text[end:start])
            end = stop
        gaps.append(text[end:])
    return "".join(gaps)


# --- the list of tokens as the reference holds it ---------------------------------


def as_loaded(
    tokens: Iterable[AddedToken], vocab: Mapping[str, int], size: int | None = None
) -> tuple[AddedToken, ...]:
    """The added tokens with the ids that the reference gives them when it loads the file.

    ``size``: how many entries the model has, where it lists some of ``vocab`` more than once, as Unigram may.

    The reference does not believe the ``id`` fields: a content that is in the model's
    vocabulary gets its id from there, any other the next free number.  A content without
    characters is ignored, one listed twice keeps its id and takes the later flags, but it
    is special if any of its entries is, and decoded as normalized if any of them is that.
    """
    ids: dict[str, int] = {}
    by_id: dict[int, AddedToken] = {}
    special: set[str] = set()
    normalized: set[str] = set()
    next_id = len(vocab) if size is None else size
    for token in tokens:
        if not token.content:
            continue
        known = ids.get(token.content, vocab.get(token.content))
        if known is None:
            known, next_id = next_id, next_id + 1
        ids[token.content] = known
        if token.special:
            special.add(token.content)
        by_id[known] = replace(token, id=known, once_normalized=token.content in normalized)
        if token.normalized:
            normalized.add(token.content)
    return tuple(replace(token, special=token.content in special) for token in by_id.values())


def is_ambiguous(tokens: Sequence[AddedToken]) -> bool:
    """Whether it is up to the version of the reference which flags count: before 0.23 maybe the first ones."""
    contents = [token.content for token in tokens if token.content]
    return len({*contents}) < len(contents) and not _later_flags_count()


@cache
def _later_flags_count() -> bool:
    return _engine_with(True, False).encode("b").ids == [0]


@cache
def decodes_to_normalized() -> bool:
    """Whether the engine decodes added tokens to what the normalizer makes of them; it does from 0.23 on."""
    return _engine_with(True).decode([1]) == "b"


def _engine_with(*normalized: bool) -> Tokenizer:
    """A reference that writes small letters, with the added token "B" listed once for each flag; its id is 1."""
    engine = Tokenizer(WordLevel({"a": 0}, "a"))
    engine.normalizer = Lowercase()
    for flag in normalized:
        engine.add_tokens([AddedTokenOfReference("B", normalized=flag)])
    return engine


# --- the pattern --------------------------------------------------------------------


def _trie(literals: Iterable[str]) -> dict[str, Any]:
    """Nested dictionaries by character; the key ``""`` marks the end of a literal."""
    root: dict[str, Any] = {}
    for literal in literals:
        node = root
        for character in literal:
            node = node.setdefault(character, {})
        node[""] = True
    return root


def _suffixes(node: dict[str, Any]) -> list[str]:
    """All strings from ``node`` to an end, without recursion."""
    found: list[str] = []
    stack = [(node, "")]
    while stack:
        inner, text = stack.pop()
        for character, child in inner.items():
            if character:
                stack.append((child, text + character))
            else:
                found.append(text)
    return found


def _run(node: dict[str, Any]) -> str:
    """The longest string from ``node`` if they all are one character over and over, from not at all on; or ""."""
    run = ""
    while len(node) == 2 and "" in node:
        character = next(filter(None, node))
        if run and character != run[0]:
            return ""
        run, node = run + character, node[character]
    return run if node.keys() == {""} else ""


def _source(node: dict[str, Any], depth: int = 0) -> str:
    """A pattern that matches the longest string from ``node`` to an end."""
    if run := _run(node):
        return f"{re.escape(run[0])}{{0,{len(run)}}}"
    if depth == _MAX_NESTING:
        return "(?:" + "|".join(map(re.escape, sorted(_suffixes(node), key=len, reverse=True))) + ")"
    # What follows, and the characters that it follows: a thousand numbered tokens have few of them.
    heads: dict[str, str] = {}
    for character, child in node.items():
        if not character:
            continue
        chain = ""
        while len(child) == 1 and "" not in child:
            ((following, child),) = child.items()
            chain += following
        rest = re.escape(chain) + ("" if child.keys() == {""} else _source(child, depth + 1))
        heads[rest] = heads.get(rest, "") + re.escape(character)
    # Two branches never begin with the same character, so their order does not matter.
    return "(?:" + "|".join(f"[{head}]{rest}" for rest, head in heads.items()) + ")" + ("?" if "" in node else "")


class AddedTokenMatcher:
    """Finds a fixed set of added tokens in texts.  Immutable, safe to share between threads.

    ``tokens``: the patterns are their ``content`` (the caller passes normalized contents
    where the reference matches those); contents are not empty.

    ``unsupported`` is a reason why matches of this set cannot be told exactly, or None.
    """

    def __init__(self, tokens: Sequence[AddedToken]) -> None:
        self._tokens = tuple(tokens)
        self._by_content = {token.content: token for token in self._tokens}
        self._id_of = {token.content: token.id for token in self._tokens}
        self._any_flagged = any(t.single_word or t.lstrip or t.rstrip for t in self._tokens)
        self._spaces = white_space() if any(t.lstrip or t.rstrip for t in self._tokens) else ""
        self._after = re.compile(f"[{re.escape(self._spaces)}]*" if self._spaces else "")
        self.unsupported = self._reason()
        self._pattern: re.Pattern[str] | None = None
        if self._tokens and self.unsupported is None:
            self._pattern = re.compile("(" + _source(_trie(self._by_content)) + ")")
        firsts = {content[:1] for content in self._by_content}
        self._first = firsts.pop() if len(firsts) == 1 else ""

    def _reason(self) -> str | None:
        if "" in self._by_content:
            return "an added token has an empty normalized content, on which the reference aborts"
        if len(self._by_content) < len(self._tokens):
            return "two added tokens have the same normalized content; which one the reference takes is chance"
        if any(token.rstrip for token in self._tokens):
            for token in self._tokens:
                if _is(token.content[0], _SPACE):
                    return (
                        f"added token {token.content!r} begins with white space that a token with rstrip "
                        "may have absorbed, and the reference's matches then overlap"
                    )
        return None

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def uses(self, character: str) -> bool:
        """Whether any of the contents holds ``character``."""
        return any(character in content for content in self._by_content)

    def find(self, text: str, *, skip_special: bool = False, among: str | None = None) -> Matches:
        """All matches in ``text``, left to right.

        ``skip_special`` passes over special tokens, like ``encode_special_tokens=True`` of
        the reference: the search goes on after them.  ``among`` is a text of the same
        length in which the literals are looked for instead (flags are judged by ``text``).
        """
        if self._pattern is None:
            return NO_MATCHES
        parts = self._split(self._pattern, text if among is None else among, len(text) // _RARE)
        if len(parts) == 1:
            return NO_MATCHES
        # plain lists: most texts have a handful of matches, if any
        ends = list(accumulate(map(len, parts)))
        starts, stops, literals = ends[0:-1:2], ends[1::2], parts[1::2]
        if skip_special or self._any_flagged:
            starts, stops, literals = self._judged(text, starts, stops, literals, skip_special)
        ids = np.fromiter(map(self._id_of.__getitem__, literals), np.uint32, len(literals))
        return Matches(np.array(starts, np.int64), np.array(stops, np.int64), ids)

    def _split(self, pattern: re.Pattern[str], text: str, most: int) -> list[str]:
        """Gaps and literals in turn; up to ``most`` places where one may begin are looked at one by one."""
        if self._first and most:
            parts: list[str] = []
            done, at = 0, text.find(self._first)
            while at >= 0 and most:
                most -= 1
                found, following = pattern.match(text, at), at + 1
                if found:
                    parts += (text[done:at], found[0])
                    done = following = found.end()
                at = text.find(self._first, following)
            if at < 0:
                return [*parts, text[done:]]
        return pattern.split(text)  # which keeps the whole scan out of Python code

    def _judged(
        self, text: str, starts: Sequence[int], stops: Sequence[int], literals: Sequence[str], skip_special: bool
    ) -> tuple[list[int], list[int], list[str]]:
        """The matches that the flags leave, with what these absorb."""
        kept_starts: list[int] = []
        kept_stops: list[int] = []
        kept: list[str] = []
        previous = 0
        for start, stop, literal in zip(starts, stops, literals, strict=True):
            token = self._by_content[literal]
            if skip_special and token.special:
                continue
            if token.single_word and (
                (start > 0 and is_word(text[start - 1])) or (stop < len(text) and is_word(text[stop]))
            ):
                continue
            if token.lstrip:
                start = previous + len(text[previous:start].rstrip(self._spaces))
            if token.rstrip:
                absorbed = self._after.match(text, stop)
                stop = absorbed.end() if absorbed else stop
            kept_starts.append(start)
            kept_stops.append(stop)
            kept.append(literal)
            previous = stop
        return kept_starts, kept_stops, kept
