"""BPE on one word at a time, in plain Python: for a handful of words this beats arrays."""

from __future__ import annotations

from itertools import pairwise

from .hashing import _MULTIPLIER, ABSENT
from .tables import Merges

_NO_RULE = int(ABSENT)
_MASK = (1 << 64) - 1


class PairRanks(dict[int, int]):
    """Ranks of pairs seen so far, by ``left << 32 | right``; asks the table about new ones.

    Bounded: it is emptied when it holds ``limit`` pairs.
    """

    def __init__(self, merges: Merges, limit: int = 1 << 18) -> None:
        super().__init__()
        self._keys = memoryview(merges.table.low)
        self._ranks = memoryview(merges.table.value)
        self._shift = 64 - (len(self._ranks).bit_length() - 1)
        self._limit = limit

    def __missing__(self, pair: int) -> int:
        slot = (pair * int(_MULTIPLIER) & _MASK) >> self._shift
        mask = len(self._ranks) - 1
        while (rank := self._ranks[slot]) != _NO_RULE and self._keys[slot] != pair:
            slot = (slot + 1) & mask
        if len(self) >= self._limit:
            self.clear()
        self[pair] = rank
        return rank


def merge_word(symbols: list[int], ranks: PairRanks, results: memoryview) -> list[int]:
    """Merge until no rule applies: each time the leftmost pair of least rank.

    ``results[rank]`` is the id that the rule makes.  Quadratic in the word's length, so meant for words of at
    most a few dozen symbols.
    """
    pairs = [ranks[a << 32 | b] for a, b in pairwise(symbols)]
    while pairs:
        rank = min(pairs)
        if rank == _NO_RULE:
            break
        at = pairs.index(rank)
        symbols[at : at + 2] = [results[rank]]
        if at + 1 < len(pairs):
            pairs[at + 1] = ranks[symbols[at] << 32 | symbols[at + 1]]
        if at > 0:
            pairs[at - 1] = ranks[symbols[at - 1] << 32 | symbols[at]]
        del pairs[at]
    return symbols
