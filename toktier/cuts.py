"""Where a raw text may be cut so that both sides are encoded as texts of their own.

A position between characters a and b is *safe* if the pair (a, b) closes for the pre-tokenizer
(:func:`~toktier.patterns.machine.closing_pairs`), and

* no added token contains a directly followed by b, in its content or in what the normalizer makes of it, so
  none can lie across it;
* a and b are inert for the normalizer, so what it does on one side does not depend on the other;
* where added tokens absorb the white space around them, neither a nor b is white space.

The ids of the whole are then those of the left side followed by those of the right side.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .added_tokens import white_space
from .compiled import Split
from .normalization import TextNormalizer
from .pipeline import Normalizer, NormalizerSequence, Pipeline, UnicodeForm

#: How far from the wanted position a cut is looked for, in characters, step by step.
_REACH = (32, 512, 8192, 1 << 17)


class SafeCuts:
    """Finds safe cuts in raw texts of one artifact; immutable.

    ``unavailable`` says why there are none for this artifact, or is None.
    """

    def __init__(self, pipeline: Pipeline, split: Split, inert: Mapping[str, NDArray[np.bool_]]) -> None:
        tokens = [token for token in pipeline.added_tokens if token.content]
        self.unavailable = (
            "the normalizer changes texts in a way that depends on their edges"
            if not _only_forms(pipeline.normalizer)
            else "an added token matches single words only"
            if any(token.single_word for token in tokens)
            else None
        )
        self._atom_of = split.atom_of
        self._closes = split.closes
        self._width = split.splitter.end + 1
        normalizer = TextNormalizer(pipeline.normalizer, inert=inert)
        contents = [token.content for token in tokens]
        contents += [normalizer.normalize(token.content) for token in tokens if token.normalized]
        self._inside = {content[i : i + 2] for content in contents for i in range(len(content) - 1)}
        allowed = np.ones(len(split.atom_of), np.bool_)
        for table in inert.values():
            allowed &= table
        if any(token.lstrip or token.rstrip for token in tokens):
            allowed[[ord(char) for char in white_space()]] = False
        self._allowed = None if allowed.all() else allowed

    def near(self, text: str, position: int, low: int, high: int) -> int | None:
        """A safe cut p with ``low < p < high`` close to ``position``, or None if none is found near it."""
        if self.unavailable is not None:
            return None
        tried_from, tried_to = position, position
        for reach in _REACH:
            for start, stop in (
                (max(low, position - reach), tried_from),
                (tried_to, min(high, position + reach)),
            ):
                found = self._within(text, start, stop)
                if found is not None:
                    return found
            tried_from, tried_to = max(low, position - reach), min(high, position + reach)
        return None

    def _within(self, text: str, start: int, stop: int) -> int | None:
        """A safe cut with ``start < p < stop``."""
        if stop - start < 2:
            return None
        stretch = text[start:stop]
        points = np.frombuffer(stretch.encode("utf-32-le", "surrogatepass"), np.uint32)
        atoms = self._atom_of.take(points).astype(np.int64)
        closing = self._closes[atoms[:-1] * self._width + atoms[1:]]
        if self._allowed is not None:
            allowed = self._allowed.take(points)
            closing &= allowed[:-1] & allowed[1:]
        for before in np.flatnonzero(closing).tolist():
            if stretch[before : before + 2] not in self._inside:
                return start + int(before) + 1
        return None


def _only_forms(normalizer: Normalizer | None) -> bool:
    match normalizer:
        case None | UnicodeForm():
            return True
        case NormalizerSequence(steps):
            return all(map(_only_forms, steps))
    return False
