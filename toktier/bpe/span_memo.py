"""A memo for pieces that are stretches of a text, without an object for any of them.

Like :mod:`~toktier.bpe.memo` it only remembers, and it is bounded.  A piece of up to
:data:`~toktier.bpe.tables.SHORT` bytes is found by its exact key, as whole pieces are.  A longer one has a hash
for its key, and is taken for known only if its bytes are compared with the remembered ones and equal; they are
read as words of eight for both.
"""

from __future__ import annotations

import os
import threading
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..records import record, replace
from .hashing import Words, hash_of_halves
from .memo import EncodeSpans, IdsAndCounts, ranges, renew_lock_after_fork
from .pieces import join
from .tables import SHORT, short_keys

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)

#: Longer pieces, in bytes, are not remembered; they hardly recur.
LONGEST = 400
#: What an entry costs besides its words and ids: its key and its places, and eight slots at most.
_ENTRY = 72
#: What ``high`` is above for pieces of more than :data:`SHORT` bytes, and below for others.
_LONG = np.uint64(1 << 60)


@record
class _Pieces:
    """Pieces by their keys, the halves ``low`` and ``high``: uint64.

    Where the key is a hash, ``words`` holds the bytes of the piece, too, its last word having zeros where there
    is no byte: ``sizes`` words, from ``first`` on.  ``sizes`` is 0 where the key says all.
    """

    low: Words
    high: Words
    words: Words
    first: Positions
    sizes: Positions

    def take(self, which: Positions) -> _Pieces:
        """Some of the pieces, with all the words."""
        return _Pieces(self.low[which], self.high[which], self.words, self.first[which], self.sizes[which])


@record
class _Entries:
    """What is remembered, as of one moment.

    The arrays are shared with later moments and have room at their ends; ``count``, ``words_used`` and
    ``ids_used`` say how much of them is of this moment.  ``slots``: int32, number of an entry or -1, open
    addressing by hash.  An entry: its key, where its words begin if it has any, where its ids begin and
    how many they are.
    """

    slots: NDArray[np.int32]
    low: Words
    high: Words
    first: Positions
    begins: Positions
    counts: Positions
    words: Words
    ids: NDArray[np.uint32]
    count: int = 0
    words_used: int = 0
    ids_used: int = 0


def _empty() -> _Entries:
    low, high = np.empty((2, 256), np.uint64)
    first, begins, counts = np.empty((3, 256), np.int64)
    words, ids = np.empty(1 << 9, np.uint64), np.empty(1 << 10, np.uint32)
    return _Entries(np.full(1 << 10, -1, np.int32), low, high, first, begins, counts, words, ids)


class SpanMemo:
    """Encodes pieces by ``encode``, remembering them; safe to share between threads.

    ``budget`` bounds what it holds, in bytes; when it is full it is emptied.
    """

    def __init__(self, encode: EncodeSpans, budget: int = 16 << 20) -> None:
        self._encode = encode
        self._budget = budget
        self._entries = _empty()
        self._lock = threading.Lock()
        renew_lock_after_fork(self)

    def encode(self, text: Bytes, starts: Positions, lengths: Positions) -> IdsAndCounts:
        """The ids of non-empty pieces, and how many each piece has; those above :data:`LONGEST` are encoded anew.

        ``text`` must have :data:`~toktier.bpe.tables.PADDING` bytes after the last piece.
        """
        long = lengths > LONGEST
        if not long.any():
            return self._recall(text, starts, lengths)
        counts = np.empty(len(starts), np.int64)
        parts = []
        for numbers, encode in ((np.flatnonzero(long), self._encode), (np.flatnonzero(~long), self._recall)):
            if len(numbers):
                ids, counts[numbers] = encode(text, starts[numbers], lengths[numbers])
                parts.append((numbers, ids))
        return join(parts, counts), counts

    def _recall(self, text: Bytes, starts: Positions, lengths: Positions) -> IdsAndCounts:
        """As :meth:`encode`, for pieces of at most :data:`LONGEST` bytes."""
        entries = self._entries
        pieces = _read(text, starts, lengths)
        hashes = _hash(pieces.low, pieces.high)
        found = _find(entries, pieces, hashes)
        begins, counts = entries.begins.take(found, mode="clip"), entries.counts.take(found, mode="clip")
        source = entries.ids
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            _, first, which = np.unique(hashes[unknown], return_index=True, return_inverse=True)
            first = unknown[first]
            # equal hashes hardly ever deceive; a piece that they do is encoded for itself
            same = _equal(pieces.take(unknown), pieces.take(first[which]))
            apart = unknown[~same]
            which[~same] = len(first) + np.arange(len(apart))
            distinct = np.concatenate((first, apart))
            ids, fresh = self._encode(text, starts[distinct], lengths[distinct])
            self._remember(pieces.take(first), hashes[first], ids, fresh)
            # one array to take from: what was known, then what is new
            begins[unknown] = entries.ids_used + (np.cumsum(fresh) - fresh)[which]
            counts[unknown] = fresh[which]
            source = np.concatenate((entries.ids[: entries.ids_used], ids))
        return source[ranges(begins, counts)], counts

    def _remember(self, pieces: _Pieces, hashes: Words, ids: NDArray[np.uint32], counts: Positions) -> None:
        """Add pieces whose keys are new: another thread may have been here, or other bytes have the same hash.

        Readers take no lock: an entry is complete before a slot points at it.
        """
        with self._lock:
            now = self._entries
            new = np.flatnonzero(_by_key(now, pieces, hashes) < 0)
            fresh = len(new)
            begins, counts = (np.cumsum(counts) - counts)[new], counts[new]
            ids, hashes, pieces = ids[ranges(begins, counts)], hashes[new], pieces.take(new)
            words = pieces.words[ranges(pieces.first, pieces.sizes)]
            if now.count + fresh > len(now.slots) // 4:
                now = _rehashed(now, now.count + fresh)
            own = ("low", "high", "first", "begins", "counts")
            now = replace(
                now,
                words=_room(now.words, now.words_used, len(words)),
                ids=_room(now.ids, now.ids_used, len(ids)),
                **{name: _room(getattr(now, name), now.count, fresh) for name in own},
            )
            numbers = slice(now.count, now.count + fresh)
            now.low[numbers], now.high[numbers] = pieces.low, pieces.high
            now.first[numbers] = now.words_used + np.cumsum(pieces.sizes) - pieces.sizes
            now.begins[numbers] = now.ids_used + np.cumsum(counts) - counts
            now.counts[numbers] = counts
            now.words[now.words_used : now.words_used + len(words)] = words
            now.ids[now.ids_used : now.ids_used + len(ids)] = ids
            _place(now.slots, hashes, np.arange(now.count, now.count + fresh, dtype=np.int32))
            now = replace(
                now,
                count=now.count + fresh,
                words_used=now.words_used + len(words),
                ids_used=now.ids_used + len(ids),
            )
            full = 8 * now.words_used + 4 * now.ids_used + _ENTRY * now.count > self._budget
            self._entries = _empty() if full else now


def _read(text: Bytes, starts: Positions, lengths: Positions) -> _Pieces:
    low, high = short_keys(text, starts, lengths)
    first, sizes = np.zeros((2, len(starts)), np.int64)
    long = np.flatnonzero(lengths > SHORT)
    if len(long) == 0:
        return _Pieces(low, high, low[:0], first, sizes)
    starts, lengths = starts[long], lengths[long]
    own = (lengths + 7) >> 3
    ends = np.cumsum(own)
    words = np.ndarray((len(text) - 7,), "<u8", buffer=text, strides=(1,))[ranges(starts, own, step=8)]
    words[ends - 1] &= _TAIL_MASKS[(lengths - 1) & 7]
    first[long], sizes[long] = ends - own, own
    factors = _FACTORS[ranges(np.zeros(len(long), np.int64), own)]
    low[long] = _sums(words * factors, own)
    high[long] = _LONG + lengths.view(np.uint64)
    return _Pieces(low, high, words, first, sizes)


def _hash(low: Words, high: Words) -> Words:
    """A 64-bit hash of each key."""
    return hash_of_halves(low, high, _FACTORS[0])


_TAIL_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(1, 8)] + [(1 << 64) - 1], np.uint64)
#: Odd, and others in each process, so that nobody can make up texts whose pieces collide.
_FACTORS = np.frombuffer(os.urandom(8 * (LONGEST // 8 + 1)), np.uint64) | np.uint64(1)


def _sums(values: NDArray[Any], sizes: Positions) -> NDArray[Any]:
    """Sums of values in a row, ``sizes[0]`` of them, then ``sizes[1]``, …; ``np.add.reduceat`` is slower."""
    return np.diff(np.cumsum(values)[np.cumsum(sizes) - 1], prepend=values.dtype.type(0))


def _equal(one: _Pieces, other: _Pieces) -> NDArray[np.bool_]:
    """Whether two rows of pieces are the same, piece by piece."""
    equal: NDArray[np.bool_] = one.low == other.low
    equal &= one.high == other.high
    long = np.flatnonzero(equal & (one.sizes > 0))
    if len(long):
        equal[long] = _same_words(one.take(long), other.words, other.first[long])
    return equal


def _same_words(pieces: _Pieces, words: Words, first: Positions) -> NDArray[np.bool_]:
    """Whether the bytes of pieces whose keys are hashes are those that begin at ``first`` in ``words``."""
    same = pieces.words[ranges(pieces.first, pieces.sizes)] == words[ranges(first, pieces.sizes)]
    found: NDArray[np.bool_] = _sums(same, pieces.sizes) == pieces.sizes
    return found


def _find(entries: _Entries, pieces: _Pieces, hashes: Words) -> NDArray[np.int32]:
    """The numbers of the entries of pieces, -1 for pieces that are not there."""
    found = _by_key(entries, pieces, hashes)
    long = np.flatnonzero((pieces.sizes > 0) & (found >= 0))
    if len(long):
        same = _same_words(pieces.take(long), entries.words, entries.first[found[long]])
        found[long[~same]] = -1
    return found


def _by_key(entries: _Entries, pieces: _Pieces, hashes: Words) -> NDArray[np.int32]:
    """The numbers of the entries with these keys, -1 where there is none."""
    slot, mask = _first_slot(entries.slots, hashes), len(entries.slots) - 1
    found = entries.slots.take(slot)
    pending = np.flatnonzero(_differs(entries, found, pieces.low, pieces.high))
    while len(pending):
        entry = found[pending]
        there = (entry >= 0) & (entry < entries.count)  # another thread may have added some since
        found[pending[~there]] = -1
        pending = pending[there]
        slot[pending] = (slot[pending] + 1) & mask
        found[pending] = entry = entries.slots[slot[pending]]
        pending = pending[_differs(entries, entry, pieces.low[pending], pieces.high[pending])]
    return found


def _differs(entries: _Entries, numbers: NDArray[np.int32], low: Words, high: Words) -> NDArray[np.bool_]:
    """Whether entries, some of which may not be there, have other keys."""
    differs: NDArray[np.bool_] = entries.low.take(numbers, mode="clip") != low
    differs |= entries.high.take(numbers, mode="clip") != high
    differs |= numbers.view(np.uint32) >= entries.count
    return differs


def _first_slot(slots: NDArray[np.int32], hashes: Words) -> Positions:
    return (hashes >> np.uint64(64 - (len(slots).bit_length() - 1))).view(np.int64)


def _place(slots: NDArray[np.int32], hashes: Words, numbers: NDArray[np.int32]) -> None:
    """Put entries into the first free slots from where their hashes point."""
    slot = _first_slot(slots, hashes)
    pending = np.arange(len(numbers))
    while len(pending):
        free = pending[slots[slot[pending]] < 0]
        slots[slot[free]] = numbers[free]
        pending = pending[slots[slot[pending]] != numbers[pending]]
        slot[pending] = (slot[pending] + 1) & (len(slots) - 1)


def _rehashed(entries: _Entries, count: int) -> _Entries:
    """``entries`` with slots for at least four times ``count``: chains are short, and so are look-ups."""
    slots = np.full(1 << (4 * count).bit_length(), -1, np.int32)
    hashes = _hash(entries.low[: entries.count], entries.high[: entries.count])
    _place(slots, hashes, np.arange(entries.count, dtype=np.int32))
    return replace(entries, slots=slots)


def _room(array: NDArray[Scalar], used: int, more: int) -> NDArray[Scalar]:
    """``array``, or a longer copy of its used part, with room for ``more`` after it."""
    if used + more <= len(array):
        return array
    longer = np.empty(2 * (used + more), array.dtype)
    longer[:used] = array[:used]
    return longer
