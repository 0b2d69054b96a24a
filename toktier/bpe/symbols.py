"""The symbols that merging starts from.

For a byte-level vocabulary these are bytes, for a character-level one (SentencePiece style) characters, with
the bytes of those that the vocabulary lacks.  Merging may also start from certain *whole* characters of a
byte-level vocabulary, which saves most merges of non-Latin text:

**Certified starts.**  Let the bytes of the character c alone merge to one token, with m(c) the greatest rank
used.  Suppose every rule that consumes, from outside, a symbol at c's right end (a suffix of c that occurs
while c merges, or c itself) with something that can begin the next character has a rank above m(c), and
likewise at c's left end.  Then BPE from bytes and BPE with c already merged give the same tokens, whatever
stands around c.  For: run both side by side, leaving out the merges inside such characters.  Whenever BPE from
bytes takes another merge, of rank r, each such c that is not merged yet has a merge of its own of rank at most
m(c) at hand, so r <= m(c); a pair that the other run has and this one has not involves such a c and ranks
above m(c), so both runs see the same least pair.  (The condition on c itself is needed: where a rule that
consumes c ranks below m(c), as in vocabularies derived from rank files, starting from c would use it too soon.)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .hashing import ABSENT
from .tables import Merges, TokenBytes

_CODE_POINTS = 0x110000


@dataclass(frozen=True, slots=True)
class FirstSymbols:
    """``of_byte``: uint32 (256,), the symbol of each byte.  ``of_character``: uint32 (0x110000,), the symbol
    of a whole character, or ABSENT where its bytes are to be used.  ``from_ascii``: whether that table speaks
    of ASCII characters too."""

    of_byte: NDArray[np.uint32]
    of_character: NDArray[np.uint32]
    from_ascii: bool

    def of(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The first symbols of words of UTF-8, and where in them each word begins.

        ``text``: uint8, all words one after another; ``starts``: int64, where each begins.
        """
        symbols = self.of_byte.take(text)
        leads = np.flatnonzero(text & 0xC0 != 0x80) if self.from_ascii else np.flatnonzero(text >= 0xC0)
        if len(leads) == 0:
            return symbols, starts
        code_points, lengths = _decode(text, leads)
        whole = self.of_character.take(code_points)
        certified = whole != ABSENT
        leads, lengths = leads[certified], lengths[certified]
        symbols[leads] = whole[certified]
        kept = np.ones(len(text), np.bool_)
        for extra in range(1, 4):
            kept[leads[lengths > extra] + extra] = False
        before = np.cumsum(kept) - kept
        return symbols[kept], before[starts]


def _decode(text: NDArray[np.uint8], leads: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Code points and UTF-8 lengths of the characters at ``leads``."""
    first = text[leads].astype(np.int64)
    length = 1 + (first >= 0xC0).astype(np.int64) + (first >= 0xE0) + (first >= 0xF0)
    code = np.where(first < 0x80, first, first & (0x7F >> length))
    for extra in range(1, 4):
        more = np.flatnonzero(length > extra)
        code[more] = code[more] << 6 | (text[leads[more] + extra] & 0x3F)
    return code, length


def certified_starts(tokens: TokenBytes, merges: Merges, of_byte: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """For a byte-level vocabulary: the tokens of the characters that merging may start from.

    uint32 of shape (0x110000,), ABSENT for all other characters and for ASCII, whose one byte is its symbol.
    """
    size = len(tokens.present)
    lengths = np.diff(tokens.offsets)
    first_byte = np.zeros(size, np.uint8)
    first_byte[lengths > 0] = tokens.blob[tokens.offsets[:-1][lengths > 0]]
    ranks = np.arange(len(merges.left))
    never = len(ranks)
    crossing = first_byte[merges.right] & 0xC0 != 0x80
    consumed_left = np.full(size, never)
    np.minimum.at(consumed_left, merges.left[crossing], ranks[crossing])
    consumed_right = np.full(size, never)
    np.minimum.at(consumed_right, merges.right, ranks)

    rank_of = dict(
        zip(zip(merges.left.tolist(), merges.right.tolist(), strict=True), ranks.tolist(), strict=True)
    )
    result = np.full(_CODE_POINTS, ABSENT, np.uint32)
    candidates = np.flatnonzero(tokens.in_alphabet & (lengths >= 2) & (lengths <= 4) & (first_byte >= 0xC0))
    blob = tokens.blob.tobytes()
    for id in candidates.tolist():
        start, stop = int(tokens.offsets[id]), int(tokens.offsets[id + 1])
        try:
            character = blob[start:stop].decode("utf-8")
        except UnicodeDecodeError:
            continue
        if len(character) != 1:
            continue
        symbols = [int(of_byte[byte]) for byte in blob[start:stop]]
        left_ends, right_ends, greatest = {symbols[0]}, {symbols[-1]}, -1
        while len(symbols) > 1:
            rank, at = min((rank_of.get(pair, never), at) for at, pair in enumerate(pairwise(symbols)))
            if rank == never:
                break
            symbols[at : at + 2] = [int(merges.result[rank])]
            greatest = max(greatest, rank)
            left_ends.add(symbols[0])
            right_ends.add(symbols[-1])
        if (
            symbols == [id]
            and min(consumed_left[list(right_ends)]) > greatest
            and min(consumed_right[list(left_ends)]) > greatest
        ):
            result[ord(character)] = id
    return result
