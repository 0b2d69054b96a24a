"""Piece starts on arrays: a text as atoms, the machine's lanes over it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..bpe.barriers import Barriers
from ..bpe.memo import ranges
from ..compiled import Split
from ..records import record, replace
from ..segments import PreparedText

#: A text has few characters beyond ASCII if these have fewer bytes beyond their first than one in so many
#: characters, and it has many if they have as many as one in so many.
_FEW, _MANY = 64, 8
#: The bytes of UTF-8 that begin no character.
_CONTINUATION = bytes(range(0x80, 0xC0))


@record
class EncodedText:
    """A text in the forms that the steps need.

    ``wide``: where the characters of more than one byte are, if they are few, and ``extra`` the bytes beyond
    the first that they and those before them have.  If they are not that few, ``at_byte`` tells where every
    character begins, and ``points`` are the code points of a text that has many.  All are None where a character
    is a byte.
    """

    data: bytes  # UTF-8
    atoms: NDArray[np.uint8]  # (characters,)
    wide: NDArray[np.int64] | None = None
    extra: NDArray[np.int64] | None = None
    at_byte: NDArray[np.int64] | None = None
    points: NDArray[np.uint32] | None = None

    def bytes_at(self, characters: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where characters, given in ascending order, begin in ``data``."""
        if self.at_byte is not None:
            return self.at_byte.take(characters)
        if self.wide is None or self.extra is None:
            return characters
        after = np.searchsorted(characters, self.wide, side="right")
        counts = np.diff(after, prepend=0, append=len(characters))
        shifts: NDArray[np.int64] = np.repeat(np.concatenate(([0], self.extra)), counts)
        return characters + shifts


class KeptCharacters(dict[str, bool]):
    """Whether pieces that begin with a character stay in the text; remembers those that it was asked about."""

    def __init__(self, split: Split) -> None:
        super().__init__()
        self._split = split

    def __missing__(self, character: str) -> bool:
        removed = self._split.removed
        found = self[character] = removed is None or not removed[self._split.atom_of[ord(character)]]
        return found


class Splitting:
    """Reads texts and cuts them into pieces; immutable."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._ascii_atoms = split.atom_of[:256].tobytes()

    def read(self, text: PreparedText) -> EncodedText:
        """The text in the forms that the steps need; raises ``UnicodeEncodeError`` for a lone surrogate."""
        data = text.text.encode("utf-8")
        size, more = len(text.text), len(data) - len(text.text)
        if more == 0:
            encoded = EncodedText(data, np.frombuffer(data.translate(self._ascii_atoms), np.uint8))
        elif more < size // _FEW:
            encoded = self._read_few(data)
        else:
            points = np.frombuffer(text.text.encode("utf-32-le"), np.uint32)
            atoms = self._split.atom_of.take(points, mode="clip")
            at_byte = np.flatnonzero(np.frombuffer(data, np.int8) >= -64)  # not a continuation byte
            many = points if more >= size // _MANY else None
            encoded = EncodedText(data, atoms, at_byte=at_byte, points=many)
        if len(text.starts):
            atoms = encoded.atoms if encoded.atoms.flags.writeable else encoded.atoms.copy()
            atoms[ranges(text.starts, text.stops - text.starts)] = self._split.splitter.end
            encoded = replace(encoded, atoms=atoms)
        return encoded

    def _read_few(self, data: bytes) -> EncodedText:
        """A text of which few characters have more than one byte: the standard library is fast with bytes."""
        units = np.frombuffer(data, np.uint8)
        beyond = np.flatnonzero(units >= 0x80)
        own = units[beyond]
        points = np.frombuffer(own.tobytes().decode("utf-8").encode("utf-32-le"), np.uint32)
        more = 1 + (points >= 0x800) + (points >= 0x10000)
        extra = np.cumsum(more, dtype=np.int64)
        wide = beyond[own >= 0xC0] - extra + more
        atoms = np.frombuffer(bytearray(data).translate(self._ascii_atoms, _CONTINUATION), np.uint8)
        atoms[wide] = self._split.atom_of[points]
        return EncodedText(data, atoms, wide, extra)

    def starts(
        self, text: PreparedText, encoded: EncodedText, barriers: Barriers | None = None
    ) -> NDArray[np.int64]:
        """Where pieces begin, an added token being one piece: characters, int64.

        Those of a text with many characters beyond ASCII are cut further at ``barriers``.
        """
        begins = self._split.splitter.piece_starts(encoded.atoms)
        if barriers is not None and encoded.points is not None:
            begins[barriers.find(encoded.points)] = True
        if len(text.starts):
            begins[ranges(text.starts, text.stops - text.starts)] = False
            begins[text.starts] = True
        return np.flatnonzero(begins)
