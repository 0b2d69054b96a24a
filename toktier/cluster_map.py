"""Running SentencePiece's character maps (:mod:`~toktier.charsmap`) on the characters that they change.

The engine looks up a whole cluster if it has fewer than six bytes and some key begins with its first character,
which is *active* then.  In all other clusters each character becomes what it becomes alone; the engine is asked
about that once.  So it is enough to look for the first two characters of a cluster that is looked up: the first
is active, both have five bytes together at most, and nothing parts them.

Characters part unless one *joins* the other: on its left, as marks do, or on its right, as the few do that
Unicode calls prepended, and a carriage return before a line feed.  Others join their like (Hangul, flags, emoji,
conjuncts) but such clusters have six bytes or more.  Where two such characters are found, the stretch around them
goes through the engine, up to places where a cluster certainly ends: beside ASCII, where nothing joins.
"""

from __future__ import annotations

import json
from base64 import b64encode
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import normalizers

from .character_map import AskedCharacters, distinct
from .lazy import lazy
from .normalization import engine_normalizer

Positions = NDArray[np.int64]

_CODE_POINTS = 0x110000
#: Shorter texts are not put on arrays.
_SHORT = 200
#: Stretches of so many characters are remembered.
_RECURS = 8
#: Of a code point: how many bytes it has, and whether it is active, changes alone, and joins its neighbours.
_SIZE, _ACTIVE, _CHANGES, _LEFT, _RIGHT, _UNKNOWN = 7, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 0xFF
#: A cluster of more bytes is not looked up.
_CLUSTER = 5
#: In place of a character: it does not become a single one.
_NOT_ONE = np.uint32(0xFFFFFFFF)


class ClusterMap(AskedCharacters):
    """A ``Precompiled`` normalizer.

    ``inert``: bool by code point, those with which no key begins.
    """

    def __init__(self, engine: normalizers.Normalizer, inert: NDArray[np.bool_]) -> None:
        super().__init__(engine)
        self._again = lru_cache(1 << 12)(self._normalize)
        self._inert = inert

    @lazy
    def _alone(self) -> set[str]:
        """The characters that are known to join no others."""
        return {*map(chr, range(0x80))} - {"\r"}

    @lazy
    def _kinds(self) -> NDArray[np.uint8]:
        found = np.full(_CODE_POINTS, _UNKNOWN, np.uint8)
        found[:0x80] = [1 + _CHANGES * (self._known[code] != chr(code)) for code in range(0x80)]
        found[:0x80][~self._inert[:0x80]] |= _ACTIVE
        found[ord("\r")] |= _RIGHT
        return found

    @lazy
    def _becomes(self) -> NDArray[np.uint32]:
        """What each code point becomes alone, if that is one character."""
        found = np.zeros(_CODE_POINTS, np.uint32)
        found[:0x80] = [_one(self._known[code]) for code in range(0x80)]
        return found

    def _text(self, text: str) -> str:
        if text.isascii():
            return self._ascii(text)
        if len(text) >= _SHORT:
            return self._long(text)
        if not self._alone.issuperset(text):
            points = np.frombuffer("".join({*text} - self._alone).encode("utf-32-le"), np.uint32)
            self._ask(points[self._kinds[points] == _UNKNOWN])
            if not self._alone.issuperset(text):
                return self._normalize(text)
        return text.translate(self._known)

    def _ascii(self, text: str) -> str:
        if "\r\n" not in text:
            return text.translate(self._known)
        return self._again("\r\n").join([part.translate(self._known) for part in text.split("\r\n")])

    def _long(self, text: str) -> str:
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        kinds = self._kinds.take(points)
        if kinds.max() == _UNKNOWN:
            self._ask(distinct(points[kinds == _UNKNOWN]))
            kinds = self._kinds.take(points)
        starts, stops = _stretches(points, kinds)
        changes = np.flatnonzero(kinds & _CHANGES != 0)
        becomes = self._becomes.take(points[changes])
        one = becomes != _NOT_ONE
        fresh = points.copy()
        fresh[changes[one]] = becomes[one]
        others = changes[~one]
        others = others[others >= np.append(0, stops)[np.searchsorted(starts, others, side="right")]]
        found = [self._known[code] for code in points[others].tolist()]
        edits = [(at, at + 1, new) for at, new in zip(others.tolist(), found, strict=True)]
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            run = self._again if stop - start <= _RECURS else self._normalize
            edits.append((start, stop, run(text[start:stop])))
        return _edited(str(fresh.data, "utf-32-le"), edits)

    def _ask(self, points: NDArray[np.uint32]) -> None:
        """Look code points up in the engine."""
        if len(points) == 0:
            return
        characters = points.tobytes().decode("utf-32-le")
        found = [*map(self._normalize, characters)]
        left, right = joining(characters)
        kinds = np.array([len(character.encode()) for character in characters], np.uint8)
        kinds[~self._inert[points]] |= _ACTIVE
        kinds[[a != b for a, b in zip(characters, found, strict=True)]] |= _CHANGES
        kinds[left] |= _LEFT
        kinds[right] |= _RIGHT
        self._becomes[points] = [*map(_one, found)]
        self._known.update(zip(points.tolist(), found, strict=True))
        self._kinds[points] = kinds
        self._alone.update(points[~(left | right)].tobytes().decode("utf-32-le"))


def _one(text: str) -> int:
    return ord(text) if len(text) == 1 else int(_NOT_ONE)


def _stretches(points: NDArray[np.uint32], kinds: NDArray[np.uint8]) -> tuple[Positions, Positions]:
    """Where stretches begin and end that the engine has to see, in order."""
    size = len(points)
    left, right = (np.flatnonzero(kinds & side != 0) for side in (_LEFT, _RIGHT))
    first = np.concatenate((left[left > 0] - 1, right[right < size - 1]))
    a, b = kinds[first], kinds[first + 1]
    first = first[(a & _ACTIVE != 0) & ((a & _SIZE) + (b & _SIZE) <= _CLUSTER)]
    if len(first) == 0:
        return first, first
    ascii = points < 0x80
    ends = ascii[:-1] | ascii[1:]
    ends[left[left > 0] - 1] = ends[right[right < size - 1]] = False
    places = np.concatenate(([0], np.flatnonzero(ends) + 1, [size]))
    at = np.unique(np.searchsorted(places, first, side="right"))
    return places[at - 1], places[at]


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    """``text`` with stretches of it replaced, which do not overlap."""
    if not edits:
        return text
    parts: list[str] = []
    done = 0
    for start, stop, new in sorted(edits):
        parts += (text[done:start], new)
        done = stop
    return "".join([*parts, text[done:]])


@lru_cache(1)
def _joining_map() -> normalizers.Normalizer:
    """A map that shows clusters: it drops what begins with a "z", and writes "x" for what begins beyond ASCII."""
    leads = np.arange(0xC2, 0xF5)
    keys = np.append(leads, ord("z"))
    units = np.zeros(1024, "<u4")
    units[0] = 0x100 << 10
    units[0x100 ^ keys] = keys | 1 << 8 | 0x200 << 10
    units[0x300 ^ leads] = 1 << 31
    units[0x300 ^ ord("z")] = 1 << 31 | 1
    data = units.nbytes.to_bytes(4, "little") + units.tobytes() + b"x\0"
    source = {"type": "Precompiled", "precompiled_charsmap": b64encode(data).decode()}
    return engine_normalizer(json.dumps(source))


def joining(characters: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which of some characters beyond ASCII share a cluster with ASCII on their left, and which on their right.

    Bool arrays, one element for each; as the engine has it.
    """
    shown = _joining_map().normalize_str("".join([f"z{c}\n{c}y\n" for c in characters])).split("\n")
    return np.array(shown[:-1:2]) == "", np.array(shown[1::2]) == "x"
