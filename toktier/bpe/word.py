"""BPE on one word at a time, in plain Python: for a handful of words this beats arrays.

:func:`merge_word` is the algorithm as the textbook has it; :func:`merge_long_word` does the same with a queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from .hashing import ABSENT, WORD, PairTable, single_items

NO_RULE = int(ABSENT)


class PairRanks(dict[int, int]):
    """Ranks of pairs seen so far, by the pair's key in the table; asks the table about new ones.

    Bounded: it is emptied when it holds ``limit`` pairs.
    """

    def __init__(self, table: PairTable, limit: int = 1 << 18) -> None:
        super().__init__()
        self.shift = table.id_bits
        self._table = (
            single_items(table.entries),
            single_items(table.displacement.seeds),
            table.displacement.multiplier,
            table.displacement.bucket_shift,
            table.displacement.slot_shift,
            table.rank_bits,
        )
        self._limit = limit

    def __missing__(self, key: int) -> int:
        entries, seeds, multiplier, to_bucket, to_slot, rank_bits = self._table
        hash = key * multiplier & WORD
        entry = entries[(hash * seeds[hash >> to_bucket] & WORD) >> to_slot]
        rank = entry ^ key << rank_bits if entry >> rank_bits == key else NO_RULE
        if len(self) >= self._limit:
            self.clear()
        self[key] = rank
        return rank


def merge_word(symbols: list[int], ranks: PairRanks, results: Sequence[int]) -> list[int]:
    """Merge until no rule applies: each time the leftmost pair of least rank.

    ``results[rank]`` is the id that the rule makes.  Quadratic in the word's length, so meant for words of at
    most a few dozen symbols.
    """
    shift = ranks.shift
    pairs = [ranks[a << shift | b] for a, b in pairwise(symbols)]
    while pairs and (rank := min(pairs)) != NO_RULE:
        at, symbol = pairs.index(rank), results[rank]
        symbols[at] = symbol
        del symbols[at + 1], pairs[at]
        if at < len(pairs):
            pairs[at] = ranks[symbol << shift | symbols[at + 1]]
        if at:
            pairs[at - 1] = ranks[symbols[at - 1] << shift | symbol]
    return symbols


def merge_long_word(symbols: list[int], ranks: PairRanks, results: Sequence[int]) -> tuple[list[int], list[int]]:
    """As :func:`merge_word`, in O(n log n) for long words: a queue of pairs, and links between what is left.

    Returns the symbols left and the index in ``symbols`` of the first part of each.
    """
    count, shift = len(symbols), ranks.shift
    symbols = [*symbols, -1]
    following = [*range(1, count + 1), count]
    preceding = [count, *range(count)]  # index `count` is the place beyond either end
    rank_at = [ranks[a << shift | b] for a, b in pairwise(symbols[:count])]
    rank_at += [NO_RULE] * (count + 1 - len(rank_at))
    queue = [rank << 32 | at for at, rank in enumerate(rank_at) if rank != NO_RULE]
    heapify(queue)
    while queue:
        rank, at = divmod(heappop(queue), 1 << 32)
        if rank_at[at] != rank:
            continue  # the pair has changed since
        gone = following[at]
        after = following[gone]
        symbols[at] = results[rank]
        rank_at[gone] = NO_RULE
        symbols[gone] = -1
        following[at] = after
        preceding[after] = at
        for left, right in ((preceding[at], at), (at, after)):
            if left == count:
                continue
            rank_at[left] = NO_RULE if right == count else ranks[symbols[left] << shift | symbols[right]]
            if rank_at[left] != NO_RULE:
                heappush(queue, rank_at[left] << 32 | left)
    first = [at for at in range(count) if symbols[at] >= 0]
    return [symbols[at] for at in first], first
