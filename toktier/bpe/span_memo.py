"""A memo for pieces that are stretches of a text, without an object for any of them.

Like :mod:`~toktier.bpe.memo` it only remembers, and it is bounded.  A piece is found by a 64-bit hash, and
taken for known only if its bytes are compared with the remembered ones and equal.  For both its bytes are read
as words of eight.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..records import record, replace
from .hashing import MULTIPLIER, Words
from .memo import IdsAndCounts, ranges, renew_lock_after_fork

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)
EncodeSpans = Callable[[Bytes, Positions, Positions], IdsAndCounts]

#: Longer pieces, in bytes, are not remembered; they hardly recur.
LONGEST = 400
#: What an entry costs besides its bytes and ids: its numbers, and eight slots at most.
_ENTRY = 72


@record
class _Pieces:
    """The bytes of pieces as words: each piece's last word has zeros where there is no byte.

    ``first``: where each piece's words begin; ``lengths``: in bytes.
    """

    words: Words
    first: Positions
    lengths: Positions

    def take(self, which: Positions) -> _Pieces:
        """Some of the pieces, with all the words."""
        return _Pieces(self.words, self.first[which], self.lengths[which])


@record
class _Entries:
    """What is remembered, as of one moment.

    The arrays are shared with later moments and have room at their ends; ``count``, ``words_used`` and
    ``ids_used`` say how much of them is of this moment.  ``slots``: int32, number of an entry or -1, open
    addressing by hash.  An entry: its hash, where its words begin and its length in bytes, and its ids.
    """

    slots: NDArray[np.int32]
    hashes: Words
    place: NDArray[np.int64]  # (entries, 4): begin in words, length in bytes, begin and count in ids
    words: Words
    ids: NDArray[np.uint32]
    count: int = 0
    words_used: int = 0
    ids_used: int = 0


def _empty() -> _Entries:
    return _Entries(
        np.full(1 << 10, -1, np.int32),
        np.empty(256, np.uint64),
        np.empty((256, 4), np.int64),
        np.empty(1 << 9, np.uint64),
        np.empty(1 << 10, np.uint32),
    )


class SpanMemo:
    """Encodes pieces by ``encode``, remembering them; safe to share between threads.

    ``budget`` bounds what it holds, in bytes; when it is full it is emptied.
    """

    def __init__(self, encode: EncodeSpans, budget: int = 32 << 20) -> None:
        self._encode = encode
        self._budget = budget
        self._entries = _empty()
        self._lock = threading.Lock()
        renew_lock_after_fork(self)

    def encode(self, text: Bytes, starts: Positions, lengths: Positions) -> IdsAndCounts:
        """The ids of non-empty pieces, none longer than :data:`LONGEST`, and how many each piece has.

        ``text`` must have :data:`~toktier.bpe.tables.PADDING` bytes after the last piece.
        """
        entries = self._entries
        pieces = _read(text, starts, lengths)
        hashes = _hash(pieces)
        found, place = _find(entries, pieces, hashes)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            _, first, which = np.unique(hashes[unknown], return_index=True, return_inverse=True)
            first = unknown[first]
            # equal hashes hardly ever deceive; a piece that they do is encoded for itself
            same = _equal(pieces.take(unknown), pieces.take(first[which]))
            apart = unknown[~same]
            which[~same] = len(first) + np.arange(len(apart))
            distinct = np.concatenate((first, apart))
            ids, counts = self._encode(text, starts[distinct], lengths[distinct])
            self._remember(pieces.take(first), hashes[first], ids, counts)
            if len(unknown) == len(starts):
                begins = np.cumsum(counts) - counts
                return ids[ranges(begins[which], counts[which])], counts[which]
            # one array to take from: what was known, then what is new
            place[unknown, 2] = entries.ids_used + (np.cumsum(counts) - counts)[which]
            place[unknown, 3] = counts[which]
            source = np.concatenate((entries.ids[: entries.ids_used], ids))
        else:
            source = entries.ids
        begin, count = np.ascontiguousarray(place[:, 2]), np.ascontiguousarray(place[:, 3])
        return source[ranges(begin, count)], count

    def _remember(self, pieces: _Pieces, hashes: Words, ids: NDArray[np.uint32], counts: Positions) -> None:
        """Add pieces whose hashes are new: another thread may have been here, or other bytes have the same hash.

        Readers take no lock: an entry is complete before a slot points at it.
        """
        with self._lock:
            now = self._entries
            new = np.flatnonzero(_by_hash(now, hashes) < 0)
            fresh = len(new)
            begins, counts = (np.cumsum(counts) - counts)[new], counts[new]
            ids, hashes, pieces = ids[ranges(begins, counts)], hashes[new], pieces.take(new)
            sizes = _word_counts(pieces.lengths)
            words = pieces.words[ranges(pieces.first, sizes)]
            if now.count + fresh > len(now.slots) // 4:
                now = _rehashed(now, now.count + fresh)
            now = replace(
                now,
                hashes=_room(now.hashes, now.count, fresh),
                place=_room(now.place, now.count, fresh),
                words=_room(now.words, now.words_used, len(words)),
                ids=_room(now.ids, now.ids_used, len(ids)),
            )
            numbers = np.arange(now.count, now.count + fresh)
            now.hashes[numbers] = hashes
            now.place[numbers] = np.stack(
                (
                    now.words_used + np.cumsum(sizes) - sizes,
                    pieces.lengths,
                    now.ids_used + np.cumsum(counts) - counts,
                    counts,
                ),
                axis=1,
            )
            now.words[now.words_used : now.words_used + len(words)] = words
            now.ids[now.ids_used : now.ids_used + len(ids)] = ids
            _place(now.slots, hashes, numbers.astype(np.int32))
            now = replace(
                now,
                count=now.count + fresh,
                words_used=now.words_used + len(words),
                ids_used=now.ids_used + len(ids),
            )
            full = 8 * now.words_used + 4 * now.ids_used + _ENTRY * now.count > self._budget
            self._entries = _empty() if full else now


def _word_counts(lengths: Positions) -> Positions:
    return (lengths + 7) >> 3


def _read(text: Bytes, starts: Positions, lengths: Positions) -> _Pieces:
    sizes = _word_counts(lengths)
    ends = np.cumsum(sizes)
    first = ends - sizes
    words = np.ndarray((len(text) - 7,), "<u8", buffer=text, strides=(1,))[ranges(starts, sizes, step=8)]
    words[ends - 1] &= _TAIL_MASKS[(lengths - 1) & 7]
    return _Pieces(words, first, lengths)


def _hash(pieces: _Pieces) -> Words:
    """A 64-bit hash of each piece: its words times odd numbers that depend on their place, summed."""
    sizes = _word_counts(pieces.lengths)
    number = ranges(np.zeros(len(sizes), np.int64), sizes)
    mixed = _sums(pieces.words * _FACTORS[number], sizes) + pieces.lengths.astype(np.uint64)
    mixed ^= mixed >> np.uint64(32)
    mixed *= MULTIPLIER
    mixed ^= mixed >> np.uint64(29)
    return mixed * MULTIPLIER


_TAIL_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(1, 8)] + [(1 << 64) - 1], np.uint64)
#: Odd, and others in each process, so that nobody can make up texts whose pieces collide.
_FACTORS = np.frombuffer(os.urandom(8 * (LONGEST // 8 + 1)), np.uint64) | np.uint64(1)


def _sums(values: NDArray[Any], sizes: Positions) -> NDArray[Any]:
    """Sums of values in a row, ``sizes[0]`` of them, then ``sizes[1]``, …; ``np.add.reduceat`` is slower."""
    return np.diff(np.cumsum(values)[np.cumsum(sizes) - 1], prepend=values.dtype.type(0))


def _equal(one: _Pieces, other: _Pieces) -> NDArray[np.bool_]:
    """Whether two rows of pieces hold the same bytes, piece by piece."""
    equal: NDArray[np.bool_] = one.lengths == other.lengths
    pair = np.flatnonzero(equal)
    if len(pair):
        sizes = _word_counts(one.lengths[pair])
        same = one.words[ranges(one.first[pair], sizes)] == other.words[ranges(other.first[pair], sizes)]
        equal[pair] = _sums(same, sizes) == sizes
    return equal


def _find(entries: _Entries, pieces: _Pieces, hashes: Words) -> tuple[Positions, Positions]:
    """The numbers of the entries of pieces, -1 for pieces that are not there, and the places of the entries."""
    found = _by_hash(entries, hashes)
    place = entries.place.take(found, axis=0, mode="clip")  # indexing is slower
    if entries.count:
        same = _equal(pieces, _Pieces(entries.words, place[:, 0], place[:, 1]))
        found[~same] = -1
    return found, place


def _by_hash(entries: _Entries, hashes: Words) -> NDArray[np.int64]:
    """The numbers of the entries with these hashes, -1 where there is none."""
    found = np.full(len(hashes), -1, np.int64)
    if entries.count == 0:
        return found
    pending = np.arange(len(hashes))
    slot, mask = _first_slot(entries.slots, hashes), len(entries.slots) - 1
    while len(pending):
        entry = entries.slots[slot[pending]].astype(np.int64)
        there = (entry >= 0) & (entry < entries.count)  # another thread may have added some since
        pending, entry = pending[there], entry[there]
        hit = entries.hashes[entry] == hashes[pending]
        found[pending[hit]] = entry[hit]
        pending = pending[~hit]
        slot[pending] = (slot[pending] + 1) & mask
    return found


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
    """The same entries with slots for at least four times ``count``: chains are short, and so are look-ups."""
    slots = np.full(1 << (4 * count).bit_length(), -1, np.int32)
    _place(slots, entries.hashes[: entries.count], np.arange(entries.count, dtype=np.int32))
    return replace(entries, slots=slots)


def _room(array: NDArray[Scalar], used: int, more: int) -> NDArray[Scalar]:
    """``array``, or a longer copy of its used part, with room for ``more`` after it."""
    if used + more <= len(array):
        return array
    longer = np.empty((2 * (used + more), *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer
