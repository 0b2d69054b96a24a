"""Pieces of any length in linear time, by windows that overlap.

**Lemma** (local validity).  Let t1 … tn be tokens whose symbols make up a word w, each what BPE makes of its
own symbols.  BPE of w is t1 … tn if and only if BPE of the symbols of t(i) t(i+1) is t(i) t(i+1), for every i.

*If*: look at the first merge of w's BPE that crosses the border of some t(i), t(i+1), and at the moment before.
Until then each t(j) has merged by itself, and the steps inside t(i) and t(i+1) were each the leftmost pair of
least rank in all of w, hence also among the pairs of t(i) t(i+1) alone; so BPE of t(i) t(i+1) is at this point
too, and takes the crossing pair as well.  But it never crosses.  *Only if*: the same comparison the other way
round: a merge that BPE of t(i) t(i+1) would make across the border would be at hand in w too, with less rank
than what w's BPE does next inside the two, or at its end.  Nothing here depends on the order of ranks.

So two tokenizations of overlapping windows may be joined at a token that both contain: every neighbouring
pair of the joined sequence stands in one of the two.  A long piece is cut into windows, equal windows are
encoded once, and neighbours are joined at the first token that they share.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .batch import merge_words
from .tables import Merges

#: The stride of windows, in symbols, at the first attempt; a multiple of small powers of 2, 3 and 5, so that
#: the windows of a periodic text often begin alike.
_STRIDE = 240
#: Give up joining where windows of this stride share no token.
_LONGEST_STRIDE = 8000


def merge_long(symbols: NDArray[np.uint32], merges: Merges) -> NDArray[np.uint32] | None:
    """Merge one long word: uint32 symbols in, uint32 tokens out.

    None where neighbouring windows share no token however wide they are (then the caller uses the reference).
    """
    stride = _STRIDE
    while stride <= _LONGEST_STRIDE and stride < len(symbols):
        joined = _join(symbols, stride, merges)
        if joined is not None:
            return joined
        stride *= 4
    if len(symbols) <= 2 * _LONGEST_STRIDE:
        tokens, _ = merge_words(symbols, np.zeros(1, np.int64), merges)
        return tokens
    return None


def _join(symbols: NDArray[np.uint32], stride: int, merges: Merges) -> NDArray[np.uint32] | None:
    """Windows ``[k * stride, (k + 2) * stride)``, joined where neighbours share a token; None if some do not."""
    count = len(symbols)
    edges = np.arange(0, max(1, count - stride), stride)
    lengths = np.minimum(2 * stride, count - edges)
    windows = [symbols[a : a + n].tobytes() for a, n in zip(edges.tolist(), lengths.tolist(), strict=True)]
    distinct = list(dict.fromkeys(windows))
    words = np.frombuffer(b"".join(distinct), np.uint32)
    word_lengths = np.array([len(window) // 4 for window in distinct])
    word_starts = np.cumsum(word_lengths) - word_lengths
    tokens, first = merge_words(words, word_starts, merges)

    # tokens of each distinct window, as slices, and where in the window each begins and ends
    bounds = np.append(np.searchsorted(first, word_starts), len(first))
    begin = first - np.repeat(word_starts, np.diff(bounds))
    end = np.append(first[1:], len(words)) - np.repeat(word_starts, np.diff(bounds))
    number = {window: i for i, window in enumerate(distinct)}
    which = [number[window] for window in windows]

    joints: dict[tuple[int, int], tuple[int, int] | None] = {}
    parts: list[NDArray[np.uint32]] = []
    entered = int(bounds[which[0]])  # first token taken from the current window
    for here, there in pairwise(which):
        if (here, there) not in joints:
            joints[here, there] = _shared(
                begin,
                end,
                tokens,
                (int(bounds[here]), int(bounds[here + 1])),
                int(bounds[there]),
                int(bounds[there + 1]),
                stride,
            )
        joint = joints[here, there]
        if joint is None or joint[0] < entered:
            return None
        parts.append(tokens[entered : joint[0]])
        entered = joint[1]
    parts.append(tokens[entered : bounds[which[-1] + 1]])
    return np.concatenate(parts)


def _shared(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    tokens: NDArray[np.uint32],
    here: tuple[int, int],
    there_start: int,
    there_stop: int,
    stride: int,
) -> tuple[int, int] | None:
    """Indices of the first token that two neighbouring windows share, in each of them."""
    skip = here[0] + int(np.searchsorted(begin[here[0] : here[1]], stride))
    ours = {(int(begin[i]) - stride, int(end[i]) - stride, int(tokens[i])): i for i in range(skip, here[1])}
    for j in range(there_start, there_stop):
        i = ours.get((int(begin[j]), int(end[j]), int(tokens[j])))
        if i is not None:
            return i, j
    return None
