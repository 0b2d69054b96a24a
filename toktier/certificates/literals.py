"""Added tokens around a cut: none may lie across it, whatever is appended to the text later."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..added_tokens import white_space
from ..normalization import TextNormalizer
from ..pipeline import AddedToken, Pipeline
from ..records import record, replace


@record
class Literals:
    """The added tokens of an artifact, seen from a cut.

    ``given`` are found in the text as it is, so a cut looks whether one lies across it.  ``normalized`` are found
    in what a normalizer made of the text: there only the two characters at the cut are known, and pairs of
    characters that one contains side by side are not cut at all.
    """

    given: tuple[AddedToken, ...]
    normalized: tuple[AddedToken, ...]

    @property
    def absorbs(self) -> bool:
        """Whether some token takes the white space around it along."""
        return any(token.lstrip or token.rstrip for token in (*self.given, *self.normalized))

    def edges(self) -> dict[str, frozenset[str]]:
        """Characters that matter for what stands next to them.

        ``"word first"`` and ``"word last"`` begin and end the tokens that must be words of their own, which is
        judged by their neighbours; ``"strip first"`` and ``"strip last"`` begin those that absorb the white space
        before, and end those that absorb it behind.
        """
        tokens = (*self.given, *self.normalized)
        return {
            "word first": frozenset(t.content[0] for t in tokens if t.single_word),
            "word last": frozenset(t.content[-1] for t in tokens if t.single_word),
            "strip first": frozenset(t.content[0] for t in tokens if t.lstrip),
            "strip last": frozenset(t.content[-1] for t in tokens if t.rstrip),
            "white space": frozenset(white_space()) if self.absorbs else frozenset(),
            "first": frozenset(t.content[0] for t in tokens),
            "last": frozenset(t.content[-1] for t in tokens),
            "end": frozenset(content[-1] for content in self.sure()),
        }

    def sure(self, *, special: bool = True) -> tuple[str, ...]:
        """Tokens that are found wherever their characters stand, so that the text goes on afresh behind them.

        They have no flags, are not contained in another token and do not begin inside one.  A token that is found
        in a second round, as normalized ones are even if nothing is normalized, does not hold or overlap one of
        the first.  A token that must be a word of its own would look back at them, so there is none.  Without
        ``special`` only those that are not special.
        """
        tokens = [token for token in self.given if not (token.lstrip or token.rstrip or token.single_word)]
        if any(token.single_word for token in (*self.given, *self.normalized)):
            return ()
        absorbed = white_space() if self.absorbs else ""
        first = [token.content for token in self.given if not token.normalized]
        heads = frozenset(content[:at] for content in first for at in range(1, len(content) + 1))
        tails = {token.content[at:] for token in self.given for at in range(1, len(token.content))}
        endings = sorted([*tails, *(token.content for token in self.given)])
        return tuple(
            token.content
            for token in tokens
            if (special or not token.special)
            and token.content[0] not in absorbed
            and _begins_one(token.content, endings)
            and not any(token.content[:at] in tails for at in range(1, len(token.content)))
            and not (token.normalized and _holds_or_meets(token.content, first, heads))
        )


def _begins_one(content: str, endings: Sequence[str]) -> bool:
    """Whether ``content``, one of ``endings``, which are sorted, begins none of the others."""
    behind = bisect_left(endings, content) + 1
    return behind == len(endings) or not endings[behind].startswith(content)


def _holds_or_meets(content: str, others: Iterable[str], heads: frozenset[str]) -> bool:
    """Whether one of ``others``, which begin with ``heads``, lies in ``content`` or begins in it."""
    tails = (content[at:] for at in range(1, len(content)))
    return any(tail in heads for tail in tails) or any(other in content for other in others)


def literals_of(pipeline: Pipeline, inert: Mapping[str, NDArray[np.bool_]]) -> Literals:
    """The added tokens, the normalized ones as the normalizer leaves them."""
    normalizer = TextNormalizer(pipeline.normalizer, inert=inert)
    given, normalized = [], []
    for token in pipeline.added_tokens:
        if not token.normalized or normalizer.is_identity:
            given.append(token)
        else:
            normalized.append(replace(token, content=normalizer.normalize(token.content)))
    return Literals(tuple(t for t in given if t.content), tuple(t for t in normalized if t.content))


def inner_pairs(tokens: Iterable[AddedToken]) -> frozenset[str]:
    """All characters that stand side by side in a token, as strings of two."""
    return frozenset(t.content[i : i + 2] for t in tokens for i in range(len(t.content) - 1))


class Continuations:
    """Strings one of which a text may go on with."""

    __slots__ = ("_contents", "_longest")

    def __init__(self, contents: Iterable[str]) -> None:
        self._contents = tuple(contents)
        self._longest = max(map(len, self._contents))

    def follow(self, text: str, place: int) -> bool:
        """Whether ``text`` goes on at ``place`` with one of them, or might if there were more of it."""
        if text.startswith(self._contents, place):
            return True
        return len(text) - place < self._longest and any(c.startswith(text[place:]) for c in self._contents)


#: Parts of tokens up to a place, by their lengths, and for each what goes on from there.
Splits: TypeAlias = dict[int, dict[str, Continuations]]


def splits(tokens: Iterable[AddedToken]) -> dict[str, Splits]:
    """How tokens may lie across a place, by the two characters there."""
    found: dict[str, dict[int, dict[str, list[str]]]] = {}
    for token in tokens:
        for at in range(1, len(token.content)):
            left, right = token.content[:at], token.content[at:]
            found.setdefault(left[-1] + right[0], {}).setdefault(at, {}).setdefault(left, []).append(right)
    return {
        pair: {at: {left: Continuations(rights) for left, rights in lefts.items()} for at, lefts in parts.items()}
        for pair, parts in found.items()
    }


def beginnings(tokens: Iterable[AddedToken]) -> dict[str, Continuations]:
    """The tokens by their first character."""
    found: dict[str, list[str]] = {}
    for token in tokens:
        found.setdefault(token.content[0], []).append(token.content)
    return {first: Continuations(contents) for first, contents in found.items()}


def lies_across(text: str, place: int, parts: Splits) -> bool:
    """Whether a token lies across ``place``, or would if the text went on; ``parts``: see :func:`splits`."""
    for length, lefts in parts.items():
        rights = lefts.get(text[max(0, place - length) : place])
        if rights is not None and rights.follow(text, place):
            return True
    return False
