"""Which rules may be applied everywhere in a word at once, and merging so.

**Lemma** (rounds).  BPE merges the leftmost pair of least rank r, again and again.  Let the rule of rank r make
the symbol c, and let every rule that takes c as a part rank after r.  Then merging *all* occurrences of the pair
that do not overlap, from the left, gives what merging one at a time gives.

*Proof.*  A merge makes new pairs, and each of them has c in it, so it ranks after r.  All other pairs were there
before, and none of them ranks before r.  So as long as an occurrence of the pair is left, it is the least, and
the leftmost of them is merged next: the next one from the left that does not overlap the last, whose symbols are
gone.  ∎

The paper (section 4.2) takes the condition for granted.  Vocabularies derived from lists of tokens break it:
there a rule has the rank of the token that it makes, whatever its parts are.  ``python -m proofs`` tries to
refute the lemma, with this very function for the condition, and refutes it for half of the condition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .hashing import ABSENT
from .tables import Merges

#: A word is given up where rounds have cost so much for each of its symbols: a part of what a queue takes.
_PATIENCE = 100
#: What a round costs besides its symbols, in symbols: short words are worth few rounds.
_ROUND = 4000


def mergeable_at_once(merges: Merges) -> NDArray[np.bool_]:
    """The rules for which the lemma's condition holds, bool (rules,)."""
    rules = len(merges.left)
    first_use = np.full(int(merges.table.nothing) + 1, rules, np.int64)
    np.minimum.at(first_use, np.concatenate((merges.left, merges.right)), np.tile(np.arange(rules), 2))
    at_once: NDArray[np.bool_] = first_use[merges.result] > np.arange(rules)
    return at_once


def merge_in_rounds(
    symbols: NDArray[np.uint32], merges: Merges, at_once: NDArray[np.bool_]
) -> NDArray[np.uint32] | None:
    """Merge one word, uint32 symbols to uint32 tokens, a rule at a time, or None if that takes too long.

    Few rounds are enough for a word of any length that repeats itself.  ``at_once``: see
    :func:`mergeable_at_once`; of other rules one occurrence is merged in a round.
    """
    patience = _PATIENCE * len(symbols)
    symbols = np.append(symbols, np.uint32(merges.table.nothing))
    ranks = merges.table.find(symbols[:-1], symbols[1:])
    while patience > 0:
        patience -= len(symbols) + _ROUND
        rank = ranks.min(initial=ABSENT)
        if rank == ABSENT:
            return symbols[:-1]
        at = np.flatnonzero(ranks == rank)
        if not at_once[rank]:
            if len(at) * (len(symbols) + _ROUND) > patience:
                return None
            at = at[:1]
        elif merges.left[rank] == merges.right[rank]:
            at = _apart(at)
        symbols[at] = merges.result[rank]
        kept = np.ones(len(symbols), np.bool_)
        kept[at + 1] = False
        symbols, ranks = symbols[kept], ranks[kept[:-1]]
        at -= np.arange(len(at))
        touched = np.concatenate((at, at[at > 0] - 1))
        ranks[touched] = merges.table.find(symbols[touched], symbols[touched + 1])
    return None


def _apart(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of ascending places those that are left if, from the left, each rules out the next one."""
    number = np.arange(len(places))
    follows = np.diff(places, prepend=-2) == 1
    run = np.maximum.accumulate(np.where(follows, 0, number))
    left: NDArray[np.int64] = places[(number - run) % 2 == 0]
    return left
