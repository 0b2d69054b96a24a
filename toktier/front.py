"""The front of the pipeline: from a text to what the engines see.

The reference extracts added tokens in two rounds.  Those with ``normalized: false``
are found in the text as given.  Each stretch between them is then normalized, as a
text of its own, and searched for the others, whose contents have been normalized too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .added_tokens import AddedTokenMatcher, Matches
from .lazy import lazy
from .normalization import TextNormalizer, has_prefix, left_to_reference, without_prefix
from .pipeline import Pipeline
from .records import replace
from .segments import PreparedText
from .word_marks import word_mark

#: Stands for the added tokens of the first round while the second looks for its own.  The
# reference sees ends of text there: like those, a noncharacter is no word character
# and no white space, and it is in no token (or else the artifact is left to the reference).
HIDDEN = "\ufdd1"

#: Texts of fewer characters are asked about as a whole before they are cut at the added tokens.
_SHORT = 1 << 14


class Front:
    """Added tokens and normalizer of one artifact.  Immutable, safe to share between threads.

    The ``id`` of each added token must be the one that the reference gives it; see
    :func:`~toktier.added_tokens.as_loaded`.  ``inert`` is passed on to
    :class:`~toktier.normalization.TextNormalizer`.

    ``unsupported`` is a reason why this artifact's added tokens cannot be found exactly
    here (the reference must then do the whole work), or None.
    """

    def __init__(self, pipeline: Pipeline, *, inert: Mapping[str, NDArray[np.bool_]] | None = None) -> None:
        self.normalizer = TextNormalizer(pipeline.normalizer, inert=inert)
        self._continuing = self.normalizer
        if has_prefix(pipeline.normalizer):
            self._continuing = TextNormalizer(without_prefix(pipeline.normalizer), inert=inert)
        tokens = [token for token in pipeline.added_tokens if token.content]
        self._second = [token for token in tokens if token.normalized]
        self._given = AddedTokenMatcher([token for token in tokens if not token.normalized])
        self._normalized = AddedTokenMatcher(
            [replace(token, content=self.normalizer.normalize(token.content)) for token in self._second]
        )
        self._mark = word_mark(pipeline.pre_tokenizer)
        self.unsupported = (
            left_to_reference(pipeline.normalizer) or self._given.unsupported or self._normalized.unsupported
        )
        if self.unsupported is None and len({token.id for token in tokens}) < len(tokens):
            self.unsupported = "two added tokens have the same id"
        if self.unsupported is None and self._normalized.uses(HIDDEN):
            self.unsupported = f"an added token contains the noncharacter {HIDDEN!r}"

    @lazy
    def told_by_text(self) -> bool:
        """Whether a text in normal form can be told by its characters outside of added tokens.

        Even if these are looked for before it is normalized: one of the second round with a character that
        composes might be none any more once the character has done so.
        """
        return self._mark is None and all(self.normalizer.leaves_alone(token.content) for token in self._second)

    def prepare(
        self, text: str, *, skip_special: bool = False, continuing: bool = False, as_it_is: bool = False
    ) -> PreparedText:
        """Extract added tokens and normalize.

        ``skip_special`` leaves special tokens in the text, as ``encode_special_tokens=True``
        of the reference does.  ``continuing``: the text goes on from a certified cut of an earlier one, so
        nothing is put before it.  ``as_it_is``: the text is taken to be normalized.  Only meaningful where
        ``unsupported`` is None.
        """
        found = self._given.find(text, skip_special=skip_special)
        normal = text
        if not (as_it_is or self.normalizer.is_identity):
            normal, found = self._normalize(text, found, continuing)
        if self._normalized:
            seen = self._normalized.find(hide(normal, found), skip_special=skip_special)
            found = merge(found, seen)
        if self._mark is not None:
            normal, found = _with_stretches(normal, found, partial(self._mark.put, continuing=continuing))
        return PreparedText(normal, found.starts, found.stops, found.ids, normal is text)

    def stretch(self, text: str, begins: bool) -> str:
        """What the engines get for what stands between two added tokens; ``begins``: the text begins with it."""
        normal = self.normalizer.normalize(text)
        return normal if self._mark is None else self._mark.put([normal] if begins else ["", normal], False)[-1]

    def given_spans(self, text: str, *, skip_special: bool = False) -> NDArray[np.int64]:
        """Start and stop, shape (k, 2), of the added tokens that are matched before normalizing."""
        found = self._given.find(text, skip_special=skip_special)
        return np.column_stack((found.starts, found.stops))

    def _normalize(self, text: str, found: Matches, continuing: bool) -> tuple[str, Matches]:
        """Normalize the stretches between the matches, and move the matches along."""
        if not len(found.starts) or self.normalizer.is_substitution:
            # A substitution may do its work inside the matches too: nobody looks there.
            normal = (self._continuing if continuing else self.normalizer).normalize(text)
            return (text if normal == text else normal), found
        if len(text) < _SHORT and self.normalizer.leaves_alone(text):
            return text, found
        if not continuing or self._continuing is self.normalizer:
            return _with_stretches(text, found, self.normalizer.normalize_segments)
        return _with_stretches(
            text,
            found,
            lambda gaps: [self._continuing.normalize(gaps[0]), *self.normalizer.normalize_segments(gaps[1:])],
        )


def _parts(text: str, found: Matches) -> list[str]:
    """The text cut at the matches: gap, match, gap, ..., gap (gaps may be empty)."""
    bounds = np.column_stack((found.starts, found.stops)).ravel().tolist()
    return [text[a:b] for a, b in zip([0, *bounds], [*bounds, len(text)], strict=True)]


def _with_stretches(text: str, found: Matches, change: Callable[[list[str]], list[str]]) -> tuple[str, Matches]:
    """The text with the stretches between the matches changed, and the matches where they are now."""
    if not len(found.starts):
        (fresh_text,) = change([text])
        return fresh_text, found
    parts = _parts(text, found)
    gaps = parts[0::2]
    fresh = change(gaps)
    if fresh is gaps or fresh == gaps:
        return text, found
    parts[0::2] = fresh
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    return "".join(parts), Matches(ends[0:-1:2].copy(), ends[1::2].copy(), found.ids)


def hide(text: str, found: Matches) -> str:
    """The text with every match blotted out, position by position."""
    if not len(found.starts):
        return text
    parts = _parts(text, found)
    parts[1::2] = [HIDDEN * len(part) for part in parts[1::2]]
    return "".join(parts)


def merge(one: Matches, other: Matches) -> Matches:
    """Two sets of matches that do not overlap, in order."""
    if not len(one.starts) or not len(other.starts):
        return one if len(one.starts) else other
    starts = np.concatenate((one.starts, other.starts))
    order = np.argsort(starts)
    return Matches(
        starts[order],
        np.concatenate((one.stops, other.stops))[order],
        np.concatenate((one.ids, other.ids))[order],
    )
