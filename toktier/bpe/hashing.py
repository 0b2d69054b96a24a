"""Exact look-up of many keys at once, without a loop: hash and displace, over numpy arrays.

A key's hash names a bucket, and each bucket has a seed, chosen when the table is made such that hash times seed
sends all keys of the table to slots of their own (Belazzougui, Botelho and Dietzfelbinger, "Hash, displace, and
compress", 2009).  A look-up reads one seed and one slot, and compares the key that sits there in full: a key that
is not in the table costs no more than one that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ArtifactError
from ..records import record

#: What look-ups return for a key that is not there.
ABSENT = np.uint32(0xFFFFFFFF)

#: Odd, from the golden ratio; multiplying by it and keeping the top bits spreads keys (Knuth, volume 3, 6.4).
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
#: The same as Python's integers, which are faster one by one.
_ABSENT_INT, WORD = int(ABSENT), int(_EMPTY)
#: Buckets have this many keys at most, on average, and half of it at least.
_BUCKET = 4
#: More keys in one bucket, or more seeds that failed for it, call for another multiplier.
_CROWDED, _TRIALS = 32, 500

Words = NDArray[np.uint64]
#: The seeds and the multiplier of a displacement.
Seeds: TypeAlias = tuple[NDArray[np.uint32], int]


@record
class Displacement:
    """Where hashes go.

    ``seeds``: uint32 of a power-of-two length, an odd number for each bucket; ``slot_bits``: slots are numbers of
    so many bits; ``multiplier``: what the hashes are made with.
    """

    seeds: NDArray[np.uint32]
    slot_bits: int
    multiplier: int

    @property
    def bucket_shift(self) -> int:
        """How far a hash of 64 bits is shifted to give its bucket."""
        return 65 - len(self.seeds).bit_length()

    @property
    def slot_shift(self) -> int:
        """How far a hash of 64 bits, times its seed, is shifted to give its slot."""
        return 64 - self.slot_bits

    def slots(self, hashes: Words) -> NDArray[np.int64]:
        """The slot of each hash, in place of ``hashes``."""
        bucket = (hashes >> np.uint64(self.bucket_shift)).view(np.int64)
        hashes *= self.seeds.take(bucket, mode="clip")
        hashes >>= np.uint64(self.slot_shift)
        return hashes.view(np.int64)


def _displacement(
    count: int, hashes: Callable[[np.uint64], Words], known: Seeds | None
) -> tuple[Displacement, NDArray[np.int64]]:
    """Slots for ``count`` distinct keys, whose ``hashes`` a multiplier gives; they take a third to two thirds.

    ``known``: what was chosen for these keys before; it is chosen anew if it does not fit them.
    """
    slot_bits = max(4, (3 * count // 2).bit_length())
    if known is not None:
        found = Displacement(known[0], slot_bits, known[1])
        at = found.slots(hashes(np.uint64(known[1])))
        taken = np.zeros(1 << slot_bits, np.bool_)
        taken[at] = True
        if np.count_nonzero(taken) == count:
            return found, at
    seeds = np.ones(1 << max(1, (count // _BUCKET).bit_length()), np.uint32)
    multiplier = MULTIPLIER
    while True:
        found = Displacement(seeds, slot_bits, int(multiplier))
        slot = _choose_seeds(found, hashes(multiplier))
        if slot is not None:
            return found, slot
        multiplier = np.uint64((int(multiplier) * int(MULTIPLIER) + 2) & WORD)  # odd again


def _choose_seeds(displacement: Displacement, hashes: Words) -> NDArray[np.int64] | None:
    """Give all buckets their seeds; returns the slots, or None if some bucket finds no seed.

    Buckets come with the largest first, for they need many free slots at once; those of a size try the same seed
    together.  A key that wants a free slot claims it, and a bucket all of whose claims hold has them.
    """
    order = np.argsort(hashes)  # the keys of a bucket are neighbours now
    hashes = hashes[order]
    sizes = np.bincount((hashes >> np.uint64(displacement.bucket_shift)).view(np.int64))
    if len(hashes) and sizes.max() > _CROWDED:
        return None
    firsts = np.cumsum(sizes) - sizes
    slots = np.zeros(len(hashes), np.int64)
    free = np.ones(1 << displacement.slot_bits, np.bool_)
    claims = np.zeros(len(free), np.int32)
    random = np.random.default_rng(0)
    if len(hashes) and hashes[0] == 0:  # no seed moves it from slot 0, so nobody else may have that
        sizes[0] -= 1
        firsts[0] += 1
    free[0] = False
    for size in range(int(sizes.max(initial=0)), 0, -1):
        buckets = np.flatnonzero(sizes == size)
        keys = firsts[buckets, None] + np.arange(size)
        for seed in random.integers(1 << 31, size=_TRIALS, dtype=np.uint32) << 1 | 1:
            if len(buckets) == 0:
                break
            wanted = ((hashes[keys] * seed) >> np.uint64(displacement.slot_shift)).view(np.int64)
            candidates = np.flatnonzero(free[wanted].all(axis=1))
            claimed = wanted[candidates]
            names = np.arange(claimed.size, dtype=np.int32).reshape(claimed.shape)
            claims[claimed] = names
            holding = np.flatnonzero((claims[claimed] == names).all(axis=1))
            placed, claimed = candidates[holding], claimed[holding]
            displacement.seeds[buckets[placed]] = seed
            slots[keys[placed]] = claimed
            free[claimed] = False
            left = np.ones(len(buckets), np.bool_)
            left[placed] = False
            buckets, keys = buckets[left], keys[left]
        if len(buckets):
            return None
    found = np.empty_like(slots)
    found[order] = slots
    return found


@record
class PairTable:
    """Ranks of pairs of ids.

    ``entries``: uint64, by slot.  An entry is left id, right id and rank, ``id_bits``, ``id_bits`` and
    ``rank_bits`` wide, or all ones if the slot is empty.
    """

    entries: Words
    displacement: Displacement
    id_bits: int
    rank_bits: int

    def find(self, left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Ranks, uint32; :data:`ABSENT` for pairs that no rule merges.  Ids may be :attr:`nothing`."""
        key = _pair_keys(left, right, self.id_bits)
        slot = self.displacement.slots(key * np.uint64(self.displacement.multiplier))
        entry = self.entries.take(slot, mode="clip")
        ranks = (entry & np.uint64((1 << self.rank_bits) - 1)).astype(np.uint32)
        entry >>= np.uint64(self.rank_bits)
        return ids_or_absent(ranks, entry != key)

    @property
    def nothing(self) -> int:
        """A number that is no id, for a neighbour that is not there."""
        return (1 << self.id_bits) - 1


def too_many(size: int, rules: int) -> bool:
    """Whether a pair of ids below ``size`` and a rank are too long for an entry, which must never look empty."""
    return 2 * size.bit_length() + rules.bit_length() > 63


def pair_table(
    left: NDArray[np.uint32], right: NDArray[np.uint32], size: int, known: Seeds | None = None
) -> PairTable:
    """A table of distinct pairs of ids below ``size``; a pair's rank is its index.

    ``known``: the seeds of an earlier table of the same pairs, which take long to choose.
    """
    if too_many(size, len(left)):
        raise ArtifactError(f"a vocabulary of {size} ids with {len(left)} merges is too large")
    id_bits, rank_bits = size.bit_length(), len(left).bit_length()
    key = _pair_keys(left, right, id_bits)
    displacement, slot = _displacement(len(key), lambda multiplier: key * multiplier, known)
    entries = np.full(1 << displacement.slot_bits, _EMPTY)
    entries[slot] = (key << np.uint64(rank_bits)) | np.arange(len(key), dtype=np.uint64)
    return PairTable(entries, displacement, id_bits, rank_bits)


def _pair_keys(left: NDArray[np.uint32], right: NDArray[np.uint32], id_bits: int) -> Words:
    key = left.astype(np.uint64)
    key <<= np.uint64(id_bits)
    key |= right
    return key


@record
class KeyTable:
    """Ids of 128-bit keys.

    ``low``, ``high``: uint64, by slot, the halves of the keys; ``ids``: uint32, :data:`ABSENT` in empty slots.
    """

    low: Words
    high: Words
    ids: NDArray[np.uint32]
    displacement: Displacement

    def find(self, low: Words, high: Words) -> NDArray[np.uint32]:
        """Ids, uint32; :data:`ABSENT` for keys that are not there."""
        slot = self.displacement.slots(hash_of_halves(low, high, np.uint64(self.displacement.multiplier)))
        differs = self.low.take(slot, mode="clip") != low
        differs |= self.high.take(slot, mode="clip") != high
        return ids_or_absent(self.ids.take(slot, mode="clip"), differs)


def ids_or_absent(ids: NDArray[np.uint32], differs: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """``ids`` with :data:`ABSENT` where a key ``differs``, in place; ``np.putmask`` takes three times as long."""
    ids |= np.negative(differs.view(np.int8)).astype(np.int32).view(np.uint32)
    return ids


def single_items(array: NDArray[Any]) -> memoryview:
    """A view of an array of integers that gives single ones as Python's own, faster than the array does."""
    buffer: Any = array  # older annotations of numpy do not say that it is one
    return memoryview(buffer)


class KeyReader:
    """Looks single keys up in a :class:`KeyTable`, where arrays would cost more than the look-up."""

    def __init__(self, table: KeyTable) -> None:
        arrays = table.low, table.high, table.ids, table.displacement.seeds
        self._columns = [single_items(array) for array in arrays]
        self._multiplier = table.displacement.multiplier
        self._shifts = table.displacement.bucket_shift, table.displacement.slot_shift

    def find(self, key: int) -> int | None:
        """The id of a key of 128 bits, or None."""
        lows, highs, ids, seeds = self._columns
        to_bucket, to_slot = self._shifts
        low, high = key & WORD, key >> 64
        hash = ((high ^ high >> 32) * self._multiplier ^ low) * self._multiplier & WORD
        slot = (hash * seeds[hash >> to_bucket] & WORD) >> to_slot
        if lows[slot] != low or highs[slot] != high:
            return None
        id: int = ids[slot]
        return None if id == _ABSENT_INT else id


def key_table(low: Words, high: Words, ids: NDArray[np.uint32], known: Seeds | None = None) -> KeyTable:
    """A table of distinct keys; ``known`` as in :func:`pair_table`."""
    displacement, slot = _displacement(len(low), lambda multiplier: hash_of_halves(low, high, multiplier), known)
    size = 1 << displacement.slot_bits
    table = KeyTable(np.zeros(size, np.uint64), np.zeros(size, np.uint64), np.full(size, ABSENT), displacement)
    table.low[slot], table.high[slot], table.ids[slot] = low, high, ids
    return table


def hash_of_halves(low: Words, high: Words, multiplier: np.uint64) -> Words:
    """Hashes of keys; those of distinct keys are equal under few multipliers, if any.

    Without the shift, halves that differ in their top bits alone would have products that do, too, in one of 256
    ways: a few hundred keys could have equal hashes under every multiplier.
    """
    return hash_of_low(low, hash_of_high(high, multiplier), multiplier)


def hash_of_high(high: Words, multiplier: np.uint64) -> Words:
    """The part of a key's hash that the upper half gives."""
    hashes = high ^ (high >> np.uint64(32))
    hashes *= multiplier
    return hashes


def hash_of_low(low: Words, hashes: Words, multiplier: np.uint64) -> Words:
    """The whole hash, in place of what :func:`hash_of_high` gave."""
    hashes ^= low
    hashes *= multiplier
    return hashes
