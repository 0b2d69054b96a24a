"""Texts that the host does not normalize before they go to the device, and what it does if that was wrong.

The device finds the characters that a Unicode form may change (:mod:`.forms`).  Each of them lies between two
certified cuts that close: what is left and right of them are texts of their own, so only the stretch between them
is normalized, by the reference's engine, and only if it changes is it encoded again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ... import batching
from ...certificates.cuts import Cuts
from ...segments import PreparedText


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Texts that are taken to be in normal form.

    ``texts``: as they were given; ``prepare``: finds their added tokens and normalizes them; ``cuts``: of such
    texts.  In a batch there is one character between two of them (:func:`toktier.batching.join`).
    """

    texts: Sequence[str]
    prepare: Callable[[str], PreparedText]
    cuts: Cuts

    def normalized(self) -> PreparedText:
        """All of them, prepared and joined; one alone stays as it is."""
        prepared = [self.prepare(text) for text in self.texts]
        return prepared[0] if len(prepared) == 1 else batching.join(prepared)[0]

    def changed(self, active: NDArray[np.int64]) -> tuple[list[tuple[int, int]], list[PreparedText]]:
        """The stretches that are not in normal form, and what they are in it.

        ``active``: the characters, counted through all texts, that the form may change, ascending.
        """
        begins = [0, *accumulate(len(text) + 1 for text in self.texts)]
        stretches, fresh = [], []
        done = 0
        for place in active.tolist():
            if place < done:
                continue
            number = bisect_right(begins, place) - 1
            text, begin = self.texts[number], begins[number]
            low = max(done - begin, 0)  # an end of the text or a cut, too
            start = self.cuts.last(text, low, place - begin, True) or low
            stop = self.cuts.first(text, place - begin, len(text), True) or len(text)
            prepared = self.prepare(text[start:stop])
            if prepared.text != text[start:stop]:
                stretches.append((begin + start, begin + stop))
                fresh.append(prepared)
            done = begin + stop
        return stretches, fresh
