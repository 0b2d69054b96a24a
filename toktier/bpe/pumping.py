"""Long runs of one symbol, encoded by way of shorter ones.

By the lemma of :mod:`~toktier.bpe.windows`, tokens are BPE's result for the word that they spell if and only if
each two neighbours among them are BPE's result for the two.  So where two equal tokens stand side by side, any
number more of the same may be put between them: there are no new neighbours, and what comes out is BPE's result
for a word in which the run that the token is made of is so much longer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint32]

#: Runs are shortened to so many symbols, or some more.
_LENGTH = 512


def run_token(symbol: int, merge: Callable[[list[int]], tuple[list[int], list[int]]]) -> tuple[int, int] | None:
    """The token that long runs of a symbol are made of, and of how many symbols it is; None if there is none.

    ``merge`` gives the tokens of a word and where each begins.
    """
    ids, begins = merge([symbol] * _LENGTH)
    pairs = [(ids[i], begins[i + 1] - begins[i]) for i in range(len(ids) - 1) if ids[i] == ids[i + 1]]
    return max(set(pairs), key=pairs.count) if pairs else None


def longest_run(word: Ids) -> tuple[int, int] | None:
    """Start and stop of a word's one long run; None if it has none worth shortening, or two."""
    starts = np.flatnonzero(np.diff(word, prepend=~word[:1]))
    lengths = np.diff(starts, append=len(word))
    longest = int(lengths.argmax())
    if lengths[longest] < 2 * _LENGTH or np.count_nonzero(lengths >= _LENGTH // 2) > 1:
        return None
    return int(starts[longest]), int(starts[longest] + lengths[longest])


def shortened(word: Ids, run: tuple[int, int], size: int) -> tuple[Ids, int]:
    """The word with a whole number of tokens of ``size`` symbols less in its long run, and that number."""
    start, stop = run
    number = (stop - start - _LENGTH) // size
    return np.delete(word, slice(start, start + number * size)), number


def lengthened(ids: Ids, token: int, size: int, number: int) -> Ids | None:
    """``number`` more of ``token`` where they stand side by side in the long run; None if they do not."""
    same = np.concatenate(([False], ids == token, [False]))
    edges = np.flatnonzero(same[1:] != same[:-1])
    starts, stops = edges[::2], edges[1::2]
    if len(starts) == 0:
        return None
    longest = int((stops - starts).argmax())
    count = int(stops[longest] - starts[longest])
    if count < 2 or count * size < _LENGTH // 2:  # so many fit into no other run of the word
        return None
    return np.insert(ids, int(starts[longest]) + 1, np.full(number, token, np.uint32))
