"""The symbols that merging starts from.

For a byte-level vocabulary these are bytes, for a character-level one (SentencePiece style) characters, with
the bytes of those that the vocabulary lacks.  Merging may also start from certain *whole* characters of a
byte-level vocabulary, which saves most merges of non-Latin text:

**Certified starts.**  Let the bytes of the character c alone merge to one token, with m(c) the greatest rank
used.  Call its *right ends* the symbols at c's right end while it merges, c itself included, and its *left
ends* likewise.  Suppose that in the word at hand every rule that merges a right end of c with a symbol that
begins with the byte after c ranks above m(c), and every rule that merges a symbol that ends in the byte before
c with a left end of c does too.  Then BPE from bytes and BPE from a word in which all such characters are
merged already give the same tokens.

Proof.  Run both side by side, passing over the merges inside such characters in the first.  Before each merge
of the first run, of rank r say, every such c that is not whole yet has a merge of its own at hand, of rank at
most m(c), so r <= m(c).  A pair that only the second run has contains such a c, whole, and a neighbour, so its
rank is above m(c) by assumption; a pair that only the first run has lies inside such a c, or consumes a proper
part of it from outside and ranks above m(c).  So both have the same leftmost pair of least rank, the merges
inside aside.  (The condition on c itself, and not only on its parts, is needed: where a rule that consumes c
ranks below m(c), as happens in vocabularies derived from rank files, starting from c could use it too soon.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..records import record
from .hashing import ABSENT
from .memo import ranges
from .tables import Merges, TokenBytes

_NONE = int(ABSENT)


@record
class FirstSymbols:
    """Which symbols a text starts from.

    ``of_byte``: uint32 (256,), ABSENT for a byte that the vocabulary lacks; like the reference, such a byte is
    passed over.  ``of_character``: uint32 by code point, the symbol of a whole character, ABSENT where its bytes
    are used, as for the last one, beyond ASCII, and all that would follow (a model with an unknown token has that
    instead); empty where words may be parts of characters, and begin from bytes.  ``neighbours``: for a byte-level
    vocabulary the conditions of certified starts, None for a character-level one, where a character's symbol never
    depends on what is around it.  ``of_last``: uint32, the symbols of bytes, or of characters, that end a word, if
    the vocabulary marks ends of words; None if not.  ``fused``: the unknown token, if the model has one for all
    unknown characters in a row.
    """

    of_byte: NDArray[np.uint32]
    of_character: NDArray[np.uint32]
    neighbours: Neighbours | None
    of_last: NDArray[np.uint32] | None = None
    fused: int | None = None

    @property
    def lossy(self) -> bool:
        """Whether some byte that can begin a character of UTF-8 text is not in the vocabulary.

        (The others are: a vocabulary without one is left to the reference.)
        """
        return bool((self.of_byte[0xC2:0xF5] == ABSENT).any())

    def of(self, text: bytes, starts: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The first symbols of words, and where in them each word begins.

        ``text``: all words one after another, in UTF-8; ``starts``: int64, where each begins.
        """
        data = np.frombuffer(text, np.uint8)
        if self.neighbours is not None and (len(self.of_character) == 0 or text.isascii()):
            return self.by_bytes(data, starts), starts
        code_points = np.frombuffer(text.decode("utf-8").encode("utf-32-le"), np.uint32)
        at = np.flatnonzero(data.view(np.int8) >= -64)  # where characters begin
        words = np.searchsorted(at, starts)
        whole = self.of_character.take(code_points, mode="clip")
        if self.neighbours is not None:
            is_ascii = np.flatnonzero(code_points < 0x80)
            whole[is_ascii] = self.of_byte.take(code_points[is_ascii])
            whole[self.neighbours.forbid(data, at, words, code_points)] = ABSENT
        if self.of_last is not None:
            last = _ends(words, len(at))
            of_last = self.of_last.take(code_points[last], mode="clip")
            whole[last] = ABSENT if self.neighbours is not None else of_last
        if self.fused is not None:
            unknown = whole == self.fused
            kept = ~unknown
            kept[1:] |= ~unknown[:-1]
            kept[words] = True
            return whole[kept], (np.cumsum(kept) - kept)[words]
        broken = np.flatnonzero(whole == ABSENT)
        if len(broken) == 0:
            return whole, words
        sizes = np.ones(len(at), np.int64)
        sizes[broken] = np.diff(at, append=len(text))[broken]
        before = np.cumsum(sizes) - sizes
        symbols = np.repeat(whole, sizes)
        symbols[ranges(before[broken], sizes[broken])] = self.of_byte.take(data[ranges(at[broken], sizes[broken])])
        ends = _ends(starts, len(data))
        starts = before[words]
        if self.of_last is not None and self.neighbours is not None:
            symbols[_ends(starts, len(symbols))] = self.of_last[data[ends]]
        if self.lossy:
            kept = symbols != ABSENT
            starts = (np.cumsum(kept) - kept)[starts]
            symbols = symbols[kept]
        return symbols, starts

    def by_bytes(self, data: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The symbols of the bytes of words, which begin at ``starts``, of a byte-level vocabulary."""
        symbols = self.of_byte.take(data)
        if self.of_last is not None:
            ends = _ends(starts, len(data))
            symbols[ends] = self.of_last[data[ends]]
        return symbols


def _ends(starts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The last places of what begins at ``starts`` and fills ``size`` places, nothing being empty."""
    return np.append(starts[1:], size) - 1


@record
class Neighbours:
    """Between which bytes a character may be a certified start.

    ``row``: int32, as long as :attr:`FirstSymbols.of_character`, the row of each character in ``before`` and
    ``after``, -1 for characters that may always be one.  These are bit sets over bytes, uint8 of shape (rows, 32):
    the last byte of what comes before, the first of what comes after.
    """

    row: NDArray[np.int32]
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]

    def forbid(
        self,
        data: NDArray[np.uint8],
        at: NDArray[np.int64],
        words: NDArray[np.int64],
        code_points: NDArray[np.uint32],
    ) -> NDArray[np.int64]:
        """The numbers of the characters whose neighbours are not of the allowed kind.

        ``data``: UTF-8; ``at``: where characters begin; ``words``: the numbers of those that begin a word.
        """
        row = self.row.take(code_points, mode="clip")
        asked = np.flatnonzero(row >= 0)
        row = row[asked]
        edge = np.zeros(len(at) + 1, np.bool_)
        edge[words] = edge[-1] = True
        before = data[at[asked] - 1]
        after = data.take(np.append(at, 0)[asked + 1])
        clash = ~edge[asked] & ~has_bit(self.before, row, before)
        clash |= ~edge[asked + 1] & ~has_bit(self.after, row, after)
        return asked[clash]


class Character(NamedTuple):
    """A character in :class:`WordSymbols`.

    ``symbol``: its symbol, in a list.  ``by_bytes``: those of its bytes.  ``first``, ``last``: its first byte and
    its last one.  ``before``, ``after``: by byte, whether it may be a start if that is the last one before it, or
    the first one after it; :data:`_EDGE` stands for an edge of the word.
    """

    symbol: list[int]
    by_bytes: list[int]
    first: int
    last: int
    before: bytes
    after: bytes


_EDGE = 256
_ALWAYS, _NEVER = b"\1" * (_EDGE + 1), bytes(_EDGE + 1)


class WordSymbols(dict[str, Character]):
    """As :meth:`FirstSymbols.of`, for single words, where arrays would cost more than the work.

    Remembers characters.  Bounded: it is emptied when it holds ``limit`` of them.
    """

    def __init__(self, first: FirstSymbols, limit: int = 1 << 14) -> None:
        super().__init__()
        self._first = first
        self._of_byte: list[int] = first.of_byte.tolist()
        self._by_byte = lru_cache(256)(_by_byte)  # few sets are distinct
        self._limit = limit

    def __missing__(self, character: str) -> Character:
        if len(self) >= self._limit:
            self.clear()
        data, neighbours = character.encode("utf-8"), self._first.neighbours
        code = min(ord(character), len(self._first.of_character) - 1)
        symbol = int(self._first.of_character[code])
        by_bytes = [s for s in map(self._of_byte.__getitem__, data) if s != _NONE]
        before = after = _ALWAYS
        if neighbours is not None and code < 0x80:
            symbol = by_bytes[0]
        elif symbol == _NONE:
            before = after = _NEVER
        elif neighbours is not None and neighbours.row[code] >= 0:
            sets = neighbours.before[neighbours.row[code]], neighbours.after[neighbours.row[code]]
            before, after = (self._by_byte(bits.tobytes()) for bits in sets)
        found = Character([symbol], by_bytes, data[0], data[-1], before, after)
        self[character] = found
        return found

    def of(self, data: bytes) -> list[int]:
        """The first symbols of a non-empty word."""
        marks_ends = self._first.of_last is not None
        if self._first.neighbours is not None and (len(self._first.of_character) == 0 or data.isascii()):
            found = [*map(self._of_byte.__getitem__, data)]
            if marks_ends:
                found[-1:] = self._ending(chr(data[-1]))
            return found
        word, found = data.decode("utf-8"), []
        # of the last character: what it is unless the next one forbids it to be a start, and if so; what it allows
        start: list[int] = []
        by_bytes, after, left = start, _ALWAYS, _EDGE
        for symbol, its_bytes, first, last, before, its_after in map(self.__getitem__, word):
            found += start if after[first] else by_bytes
            start = symbol if before[left] else its_bytes
            by_bytes, after, left = its_bytes, its_after, last
        if marks_ends:
            found += self._ending(word[-1])
        else:
            found += start if after[_EDGE] else by_bytes
        return found if self._first.fused is None else [*_fused(found, self._first.fused)]

    def _ending(self, character: str) -> list[int]:
        """The symbols of a word's last character where the vocabulary marks it."""
        of_last = self._first.of_last
        assert of_last is not None
        if self._first.neighbours is None:
            return [int(of_last[min(ord(character), len(of_last) - 1)])]
        data = character.encode("utf-8")
        return [*map(self._of_byte.__getitem__, data[:-1]), int(of_last[data[-1]])]


def _fused(symbols: Iterable[int], unknown: int) -> Iterator[int]:
    """The symbols with one unknown one for each row of them."""
    before = -1
    for symbol in symbols:
        if symbol != unknown or before != unknown:
            yield symbol
        before = symbol


def _by_byte(bits: bytes) -> bytes:
    """One byte for each of the bits of a set of bytes, and one for the edge of a word."""
    return np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little").tobytes() + b"\1"


def has_bit(sets: NDArray[np.uint8], row: NDArray[np.int32], byte: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether each ``byte`` is in the set of its ``row``, of :class:`Neighbours`."""
    bits = sets.ravel().take(row.astype(np.int64) * 32 + (byte >> 3))
    return (bits >> (byte & 7) & 1).view(np.bool_)


def certified_starts(
    tokens: TokenBytes, merges: Merges, of_byte: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], Neighbours]:
    """The whole characters of a byte-level vocabulary that merging may start from, and between what.

    The first result is as :attr:`FirstSymbols.of_character`; ASCII is not in it, its one byte is its symbol.
    """
    singles = list(_single_tokens(tokens, merges, of_byte))
    characters = np.array([single.character for single in singles], np.int64)
    greatest = np.array([single.greatest for single in singles], np.int64)[:, None]
    before, after = (least > greatest for least in _least_ranks(singles, tokens, merges))
    asked = np.flatnonzero(~(before.all(axis=1) & after.all(axis=1)))
    size = int(characters.max(initial=0x7F)) + 2
    of_character = np.full(size, ABSENT)
    of_character[characters] = [single.token for single in singles]
    row = np.full(size, -1, np.int32)
    row[characters[asked]] = np.arange(len(asked))
    sets = (np.packbits(allowed[asked], axis=1, bitorder="little") for allowed in (before, after))
    return of_character, Neighbours(row, *sets)


class _Single(NamedTuple):
    """A character whose bytes merge to one token; ``greatest``: m(c)."""

    character: int
    token: int
    greatest: int
    left_ends: set[int]
    right_ends: set[int]


def _single_tokens(tokens: TokenBytes, merges: Merges, of_byte: NDArray[np.uint32]) -> Iterator[_Single]:
    """The non-ASCII characters whose bytes merge to one token."""
    never = len(merges.left)
    lengths = np.diff(tokens.offsets)
    short = np.flatnonzero(lengths[merges.result] <= 4)  # no other rule applies inside a character
    pairs = zip(merges.left[short].tolist(), merges.right[short].tolist(), strict=True)
    rank_of = dict(zip(pairs, short.tolist(), strict=True))
    blob = tokens.blob.tobytes()
    for id in np.flatnonzero(tokens.in_alphabet & (lengths >= 2) & (lengths <= 4)).tolist():
        text = blob[tokens.offsets[id] : tokens.offsets[id + 1]]
        if text[0] < 0xC2 or len(text) != 2 + (text[0] >= 0xE0) + (text[0] >= 0xF0):
            continue
        try:
            character = ord(text.decode("utf-8"))
        except UnicodeDecodeError:
            continue
        symbols = of_byte[list(text)].tolist()
        left_ends, right_ends, greatest = {symbols[0]}, {symbols[-1]}, -1
        while len(symbols) > 1:
            rank, at = min((rank_of.get(pair, never), at) for at, pair in enumerate(pairwise(symbols)))
            if rank == never:
                break
            symbols[at : at + 2] = [int(merges.result[rank])]
            greatest = max(greatest, rank)
            left_ends.add(symbols[0])
            right_ends.add(symbols[-1])
        if symbols == [id]:
            yield _Single(character, id, greatest, left_ends, right_ends)


def _least_ranks(
    singles: Sequence[_Single], tokens: TokenBytes, merges: Merges
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least ranks of rules that merge an end of a character with what stands beside it, by the byte there.

    int64 (characters, 256) each: by the last byte of what stands before it, by the first of what stands after.
    """
    filled = np.flatnonzero(np.diff(tokens.offsets))
    first, last = np.zeros((2, len(tokens.present)), np.uint8)
    first[filled] = tokens.blob[tokens.offsets[:-1][filled]]
    last[filled] = tokens.blob[tokens.offsets[1:][filled] - 1]
    rank = np.arange(len(merges.left))
    before = _least([s.left_ends for s in singles], merges.right, last[merges.left], rank)
    # a rule whose right part begins inside a character never merges across the edge of one
    rank = np.flatnonzero(first[merges.right] & 0xC0 != 0x80)
    after = _least([s.right_ends for s in singles], merges.left[rank], first[merges.right[rank]], rank)
    return before, after


def _least(
    ends: Sequence[set[int]], ids: NDArray[np.uint32], byte: NDArray[np.uint8], rank: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each character and byte the least ``rank`` of the rules with that byte whose id is one of its ``ends``.

    Where there is none, the greatest number.
    """
    end = np.fromiter(chain.from_iterable(ends), np.int64)
    owner = np.repeat(np.arange(len(ends)), [*map(len, ends)])[np.argsort(end, kind="stable")]
    owners = np.bincount(end, minlength=int(ids.max(initial=0)) + 1)
    starts = np.cumsum(owners) - owners
    used = np.flatnonzero(owners[ids])
    times = owners[ids[used]]
    cells = owner[ranges(starts[ids[used]], times)] * 256 + np.repeat(byte[used], times)
    least = np.full(256 * len(ends), np.iinfo(np.int64).max)
    np.minimum.at(least, cells, np.repeat(rank[used], times))
    return least.reshape(len(ends), 256)
