"""What the device gives, on the host: where its bytes are in the text, and ids put in place of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...segments import PreparedText


class Positions:
    """Bytes of what the device was given, where an added token is one byte, and characters of the text."""

    def __init__(self, data: bytes, text: PreparedText) -> None:
        buffer = np.frombuffer(data, np.uint8)
        self._begins = np.append(np.flatnonzero((buffer & 0xC0) != 0x80), len(data))
        more = text.stops - text.starts - 1  # characters that an added token has and its byte does not show
        self._more = np.append(0, np.cumsum(more))
        self._tokens = text.starts - self._more[:-1]  # counted as the device does
        self._stops = text.stops

    def characters(self, places: NDArray[np.integer]) -> NDArray[np.int64]:
        """The characters that begin at these bytes."""
        found = np.searchsorted(self._begins, places)
        shown: NDArray[np.int64] = found + self._more[np.searchsorted(self._tokens, found)]
        return shown

    def bytes(self, characters: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bytes at which characters begin, none of which lies inside an added token."""
        hidden = self._more[np.searchsorted(self._stops, characters, side="right")]
        found: NDArray[np.int64] = self._begins[characters - hidden]
        return found


def marked(words: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The places of the bits that are set, the lowest of the first word being place 0."""
    found: NDArray[np.int64] = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
    return found


def combined(
    one: NDArray[np.int64], ones_ids: list[NDArray[Any]], other: NDArray[np.int64], others_ids: list[NDArray[Any]]
) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
    """Spans of shape (n, 2) with the ids that take their place, and those of the others that lie in none of them.

    Both are ordered, and so is the result.
    """
    begun, done = (np.searchsorted(edges, other[:, 0], side="right") for edges in one.T)
    inside = begun > done
    kept = np.flatnonzero(~inside)
    spans, ids = np.concatenate((one, other[kept])), [*ones_ids, *(others_ids[i] for i in kept.tolist())]
    order = np.argsort(spans[:, 0], kind="stable")
    return spans[order], [ids[i] for i in order.tolist()]


def replaced(ids: NDArray[np.int32], spans: NDArray[np.int64], fresh: Sequence[NDArray[Any]]) -> NDArray[np.int32]:
    """``ids`` with others, of four bytes each, in place of those of ``spans``, which are ordered and apart."""
    parts: list[NDArray[np.int32]] = []
    done = 0
    for own, (start, stop) in zip(fresh, spans.tolist(), strict=True):
        parts += [ids[done:start], own.view(np.int32)]
        done = stop
    return np.concatenate((*parts, ids[done:]))


def moved(places: NDArray[np.int64], spans: NDArray[np.int64], fresh: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Where the ids at ``places`` are after :func:`replaced`; without meaning for those that were replaced."""
    grown = np.cumsum([len(own) for own in fresh], dtype=np.int64) - np.cumsum(spans[:, 1] - spans[:, 0])
    found: NDArray[np.int64] = places + np.append(0, grown)[np.searchsorted(spans[:, 1], places, side="right")]
    return found
