"""BPE on many words at once.

One round merges, in every word, the leftmost occurrence of its pair of least rank, which is one step of the
reference's algorithm in each.  Merging more than one pair of a word in a round is exact only under a
condition that many vocabularies break (DESIGN section 8), so it is not done.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .hashing import ABSENT
from .tables import Merges

_NO_RULE = np.uint64(int(ABSENT) << 32)
_POSITION = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


#: Merges one word: the symbols left, and the index of the first part of each.
MergeWord = Callable[[list[int]], tuple[list[int], list[int]]]

#: With fewer words than this left to merge, the rest is done one by one: a round costs the same for a few.
_FEW = 12


def merge_words(
    symbols: NDArray[np.uint32],
    starts: NDArray[np.int64],
    merges: Merges,
    merge_word: MergeWord | None = None,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Merge words until no rule applies.

    ``symbols``: uint32, the first symbols of all words, one word after another; ``starts``: int64, where each
    (non-empty) word begins; ``merge_word`` is used for the last few, if given.  Returns the symbols left,
    uint32, and for each of them the index in ``symbols`` of its first part, int64.
    """
    count = len(symbols)
    if count == 0:
        return symbols, np.empty(0, np.int64)
    # One cell more than symbols: a neighbour that is not there, with which no rule exists.
    symbol = np.append(symbols, np.uint32(merges.table.nothing))
    following = np.arange(1, count + 2)
    following[starts[1:] - 1] = count
    following[count] = count
    preceding = np.arange(-1, count)
    preceding[starts] = count
    # rank and position in one number: the least is the leftmost pair of least rank
    pair = np.full(count + 1, _NO_RULE, np.uint64)
    pair[:count] |= np.arange(count, dtype=np.uint64)
    pair[:count] = _pairs(symbol, following, np.arange(count), merges)
    alive = np.ones(count, np.bool_)
    words = starts
    while True:
        least = np.minimum.reduceat(pair[:count], words)
        merging = least < _NO_RULE
        if not merging.all():
            # a finished word has no pairs left, so it may count as the tail of the one before
            words, least = words[merging], least[merging]
            if len(words) == 0:
                break
            if merge_word is not None and len(words) < _FEW:
                for word in words.tolist():
                    _finish(word, symbol, following, alive, merge_word)
                break
        at = (least & _POSITION).view(np.int64)
        gone = following[at]
        after = following[gone]
        symbol[at] = merges.result[(least >> _SHIFT).view(np.int64)]
        alive[gone] = False
        pair[gone] = _NO_RULE
        following[at] = after
        preceding[after] = at
        before = preceding[at]
        touched = np.concatenate((at, before))
        pair[touched] = _pairs(symbol, following, touched, merges)
    kept = np.flatnonzero(alive)
    return symbol[kept], kept


def word_bounds(first: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each word's symbols begin among those left by :func:`merge_words`, and their number, int64.

    ``first``: its second result; ``starts``: where the words began.
    """
    return np.append(np.searchsorted(first, starts), len(first))


def _finish(
    word: int,
    symbol: NDArray[np.uint32],
    following: NDArray[np.int64],
    alive: NDArray[np.bool_],
    merge_word: MergeWord,
) -> None:
    """Merge the word that begins at ``word`` to its end."""
    places = [word]
    while (place := int(following[places[-1]])) < len(alive):
        places.append(place)
    ids, first = merge_word(symbol[places].tolist())
    kept = [places[i] for i in first]
    alive[places] = False
    alive[kept] = True
    symbol[kept] = ids


def _pairs(
    symbol: NDArray[np.uint32], following: NDArray[np.int64], at: NDArray[np.int64], merges: Merges
) -> NDArray[np.uint64]:
    """Rank and position of the pairs that begin at ``at``."""
    ranks = merges.table.find(symbol[at], symbol[following[at]]).astype(np.uint64)
    return (ranks << _SHIFT) | at.view(np.uint64)
