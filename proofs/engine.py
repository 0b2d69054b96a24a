"""The reference engine's word on where pieces begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, pre_tokenizers

from .stages import SEPARATOR


class Engine(Protocol):
    """Whatever can say where the pieces of texts begin."""

    def starts(self, texts: Sequence[str]) -> list[list[int]]:
        """For each text the positions at which a piece begins, in characters."""


class PreTokenizerEngine:
    """A pre-tokenizer of the reference.

    Many texts are shown to it in one call: they are joined by a separator, and a first stage of its own cuts
    there, so that every later stage takes each text for one of its own.
    """

    def __init__(self, pre_tokenizer: Any) -> None:
        alone = pre_tokenizers.Split(SEPARATOR, "isolated")
        self._sequence = pre_tokenizers.Sequence([alone, pre_tokenizer])

    def starts(self, texts: Sequence[str]) -> list[list[int]]:
        lengths = np.array([len(text) for text in texts], np.int64)
        begins = np.cumsum(lengths + 1) - lengths - 1
        found = self.flat_starts(SEPARATOR.join(texts))
        bounds = np.searchsorted(found, [begins, begins + lengths]).T.tolist()
        return [
            (found[first:last] - begin).tolist()
            for (first, last), begin in zip(bounds, begins.tolist(), strict=True)
        ]

    def flat_starts(self, joined: str) -> NDArray[np.int64]:
        """Where pieces begin in texts joined by the separator, which is a piece of its own, too."""
        pieces = self._sequence.pre_tokenize_str(joined)
        starts = np.array([start for _, (start, stop) in pieces if stop > start], np.int64)
        return np.unique(starts)


def engine_of(patterns: Sequence[str]) -> PreTokenizerEngine:
    """The engine for patterns that are applied one after another, each isolating its matches."""
    stages = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return PreTokenizerEngine(pre_tokenizers.Sequence(stages))
