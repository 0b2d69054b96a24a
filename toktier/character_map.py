"""Normalizers that work character by character: what the engine makes of each is asked once.

``Lowercase`` and ``StripAccents`` look at no neighbours.  ``BertNormalizer`` drops control characters, writes
spaces for white space and around Chinese characters, decomposes (NFD), drops nonspacing marks and lower-cases,
and all of it is a matter of single characters but for one: NFD sorts neighbouring marks.  Sorting changes the
order of marks alone, so where all of them are dropped, nothing of it is left to see.  A character whose
decomposition has a mark that is *kept* (musical symbols, Hangul tone marks) sends the stretch that it is in
through the engine as a whole.

What is a mark, and what is dropped, is the engine's word; its Unicode tables are not Python's.  It is asked about
a character when a text has it for the first time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray
from tokenizers import normalizers

from .bpe.memo import ranges
from .lazy import lazy

#: The types of normalizer that this module runs.
BY_CHARACTER = ("BertNormalizer", "Lowercase", "StripAccents")

#: A character becomes at most so many.
_MOST = 4
#: Shorter texts are not put on arrays.
_SHORT = 1000
#: Characters from here on are not looked up: hardly any are assigned, and texts hardly have them.
_LAST = 0x40000
#: In place of a number of characters: the engine has to see the neighbours, too; it has not been asked yet.
_IN_CONTEXT, _UNKNOWN = 254, 255
#: Stands between characters that the engine is asked about; all the normalizers keep it.
_SEPARATOR = "|"


class AskedCharacters(ABC):
    """A normalizer that asks the engine once what a character becomes alone; safe to share between threads.

    ``engine``: the reference's own.  What is found out about a character is written where it belongs, and then
    that it is known, so two threads that ask for one at the same time do the same.
    """

    def __init__(self, engine: normalizers.Normalizer) -> None:
        self._normalize = engine.normalize_str

    def __call__(self, segments: list[str]) -> list[str]:
        """Each segment normalized as a text of its own."""
        return [self._text(text) for text in segments]

    @abstractmethod
    def _text(self, text: str) -> str: ...

    @lazy
    def _known(self) -> dict[int, str]:
        """What was found, for ``str.translate``, which is quick with short texts and those of ASCII."""
        return {code: self._normalize(chr(code)) for code in range(0x80)}


class CharacterMap(AskedCharacters):
    """A normalizer of one of the types :data:`BY_CHARACTER`."""

    @lazy
    def _alone(self) -> set[str]:
        """The characters that are known, and need no look around."""
        return {*map(chr, range(0x80))}

    def _text(self, text: str) -> str:
        if text.isascii() or (len(text) < _SHORT and self._alone.issuperset(text)):
            return text.translate(self._known)
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        counts = self._counts.take(points, mode="clip")
        if counts.max() == _UNKNOWN:
            self._ask(distinct(points[counts == _UNKNOWN]))
            counts = self._counts.take(points, mode="clip")
        if counts.max() == _IN_CONTEXT:
            return self._normalize(text)
        places = ranges(points.astype(np.int64) * _MOST, counts.astype(np.int64))
        return self._characters.take(places).tobytes().decode("utf-32-le")

    @lazy
    def _counts(self) -> NDArray[np.uint8]:
        """How many characters each code point becomes."""
        found = np.full(_LAST + 1, _UNKNOWN, np.uint8)
        found[_LAST] = _IN_CONTEXT
        return found

    @lazy
    def _characters(self) -> NDArray[np.uint32]:
        """These characters, :data:`_MOST` places for each code point."""
        return np.zeros(_LAST * _MOST, np.uint32)

    def _ask(self, points: NDArray[np.uint32]) -> None:
        """Look code points up in the engine."""
        characters = points.tobytes().decode("utf-32-le")
        found = _each(self._normalize, characters)
        for number in self._in_context(characters):
            found[number] = (_MOST + 1) * "?"
        counts = np.fromiter(map(len, found), np.int64, len(found))
        alone = np.flatnonzero(counts <= _MOST)
        flat = "".join([found[number] for number in alone.tolist()])
        places = ranges(points[alone].astype(np.int64) * _MOST, counts[alone])
        self._characters[places] = np.frombuffer(flat.encode("utf-32-le"), np.uint32)
        self._counts[points] = np.where(counts <= _MOST, counts, _IN_CONTEXT)
        self._known.update((ord(characters[number]), found[number]) for number in alone.tolist())
        self._alone.update(characters[number] for number in alone.tolist())

    def _in_context(self, characters: str) -> list[int]:
        """The numbers of the characters of which it matters what is around them."""
        if self._normalize("\u00e9") != "e":  # it does not decompose
            return []
        kept = _each(_WITHOUT_MARKS, characters)
        marks = _marks({*"".join(kept)})
        return [number for number, parts in enumerate(kept) if not marks.isdisjoint(parts)] if marks else []


def distinct(points: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The code points among some, each once, in order."""
    there = np.zeros(int(points.max()) + 1, np.bool_)
    there[points] = True
    return np.flatnonzero(there).astype(np.uint32)


_NFD = normalizers.NFD().normalize_str
_WITHOUT_MARKS = normalizers.BertNormalizer(False, False, True, False).normalize_str


def _each(normalize: Callable[[str], str], characters: str) -> list[str]:
    """What single characters become; together, which is far quicker, unless one becomes the separator."""
    found = normalize(_SEPARATOR.join(characters)).split(_SEPARATOR)
    return found if len(found) == len(characters) else [*map(normalize, characters)]


def _marks(parts: Collection[str]) -> set[str]:
    """Those that NFD sorts, of characters that it leaves alone.

    U+0334 and U+0345 have the least and the greatest class of all marks: one between them moves, or they do.
    """

    def sorted_by(text: str) -> bool:
        return _NFD(text) != text

    if not sorted_by("\u0345" + "\u0334\u0345".join(parts) + "\u0334"):
        return set()
    return {part for part in parts if sorted_by(f"\u0345{part}\u0334")}
