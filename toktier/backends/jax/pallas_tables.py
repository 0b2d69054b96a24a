"""The merge rules as the kernels read them, and which rules may be applied everywhere at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ...bpe.rounds import mergeable_at_once
from ...bpe.tables import Merges
from ...errors import ArtifactError
from .tables import NOTHING, cuckoo

#: An id has at most this many bits (:func:`toktier.bpe.tables.token_bytes` refuses greater ones).
ID_BITS = 24
#: A rank and one of 32 places fit in 31 bits.
MOST_RANK_BITS = 26
#: Of an entry of :attr:`KernelTables.made`: the id.
ID = (1 << ID_BITS) - 1
#: The rule's two symbols are one and the same, so its occurrences may overlap.
DOUBLED = 1 << ID_BITS
#: All occurrences of the rule's pair may be merged in one round (:mod:`toktier.bpe.rounds`).
AT_ONCE = 2 << ID_BITS


@dataclass(frozen=True)
class KernelTables:
    """The merge rules of a vocabulary, laid out so that a look-up touches two stretches of eight bytes.

    ``pairs``: uint32 (2 * slots,), a cuckoo hash table (:mod:`.tables`) of entries of two words: the left id above
    the low bits of the right one; the rest of the right id above the rank, ``rank_bits`` wide.  Empty entries are
    all ones, and no other has the highest bit of its second word.  ``made``: int32 (rules + 1,), by rank the
    :data:`ID` that a rule makes, with :data:`DOUBLED` and :data:`AT_ONCE`; the last is of no rule.
    """

    pairs: jax.Array
    made: jax.Array
    id_bits: int
    rank_bits: int
    seed: int

    @property
    def slots(self) -> int:
        return len(self.pairs) // 2


jax.tree_util.register_dataclass(KernelTables, ["pairs", "made"], ["id_bits", "rank_bits", "seed"])


def kernel_tables(merges: Merges) -> KernelTables:
    """Lay the rules out and put them on the default device.

    Raises :class:`~toktier.errors.ArtifactError` for more rules than a kernel can tell apart (2**26).
    """
    if merges.table.rank_bits > MOST_RANK_BITS:
        raise ArtifactError(f"{len(merges.left)} merges are too many for the kernels, which count to 2**26")
    words, seed = pair_words(merges)
    made = merges.result.astype(np.int32)
    made |= np.where(merges.left == merges.right, DOUBLED, 0).astype(np.int32)
    made |= np.where(mergeable_at_once(merges), AT_ONCE, 0).astype(np.int32)
    made = np.append(made, np.int32(0))  # never empty, so that a look-up has something to read
    pairs, results = jax.device_put((words, made))
    return KernelTables(pairs, results, merges.table.id_bits, merges.table.rank_bits, seed)


def pair_words(merges: Merges) -> tuple[NDArray[np.uint32], int]:
    """:attr:`KernelTables.pairs` and the seed of its hash."""
    seed, slot, size = cuckoo([merges.left, merges.right])
    words = np.full((size, 2), NOTHING, np.uint32)
    rank = np.arange(len(slot), dtype=np.uint32)
    upper, lower = words_of(merges.left, merges.right, merges.table.id_bits)
    words[slot, 0] = upper
    words[slot, 1] = lower << np.uint32(merges.table.rank_bits) | rank
    return words.ravel(), seed


def words_of(left: Any, right: Any, id_bits: int) -> tuple[Any, Any]:
    """A pair of ids in two words: the left id and as much of the right as fits; the rest of the right.

    Arrays of uint32, of numpy or of JAX.
    """
    room = np.uint32(32 - id_bits)
    return left << room | right & np.uint32((1 << (32 - id_bits)) - 1), right >> room
