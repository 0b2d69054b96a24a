"""Which rules may be applied everywhere in a word at once.

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

from .tables import Merges


def mergeable_at_once(merges: Merges) -> NDArray[np.bool_]:
    """The rules for which the lemma's condition holds, bool (rules,)."""
    rules = len(merges.left)
    first_use = np.full(int(merges.table.nothing) + 1, rules, np.int64)
    np.minimum.at(first_use, np.concatenate((merges.left, merges.right)), np.tile(np.arange(rules), 2))
    at_once: NDArray[np.bool_] = first_use[merges.result] > np.arange(rules)
    return at_once
