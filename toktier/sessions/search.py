"""The paper's search for a place to splice (section 3.2): windows, matched runs, and a certificate inside.

Where :mod:`~toktier.sessions.repair` computes the place from which tokens change, this looks for it: the last
characters of the old text are encoded together with what is new, and compared with the stored tokens by position
and id.  The longest run on which both agree is accepted if it

* has at least two tokens,
* is longer than the longest token of the vocabulary, and
* has a certified cut inside, so that from there on both sequences are those of the same text.

The new sequence is the stored one up to the end of the run, and the fresh one from there on (corollary A.6).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .engine import Engine
from .repair import Splice, State, tail_seam, window_seam

_WINDOW = 512
_ATTEMPTS = 6


def search(engine: Engine, state: State, start: int, new: str, widths: NDArray[np.int64]) -> Splice | None:
    """Replace everything from ``start`` on; None if no window was accepted.

    ``widths``: from :func:`~toktier.sessions.engine.token_widths`.
    """
    size = len(state.text)
    longest = int(widths.max())
    for attempt in range(_ATTEMPTS):
        begin = max(0, start - (_WINDOW << attempt))
        kept, former = state.text.slice(begin, start), state.text.slice(begin, size)
        if any(engine.normal(text) != text for text in (kept + new, former)):
            return None  # tokens have the places that their bytes say only where nothing changes
        window = engine.window(kept + new, begin == 0)
        place = _Places(widths, window.ids, 0)
        tail = len(former.encode("utf-8"))
        first = max(0, len(state.ids) - tail)  # a token has at least one byte
        stored = _Places(widths, state.ids.read(first, len(state.ids)), tail)
        run = _longest_run(stored, place, len(kept.encode("utf-8")))
        if run is not None:
            old, fresh, count = run
            low, high = (
                int(place.starts[fresh]),
                int(place.starts[fresh + count - 1] + place.widths[fresh + count - 1]),
            )
            if count >= 2 and high - low > longest and _certified(engine, state, begin, kept, new, low, high):
                total = first + old + count + len(window.ids) - (fresh + count)
                text = state.text.replaced(start, size, new)
                anchors = state.anchors.edited(begin, size + 1, (0, 0))
                seam = window_seam(engine, window, begin, total)
                if seam is None or seam.start == begin:
                    seam = tail_seam(engine, text, anchors, total)
                token = first + old + count
                ids = window.ids[fresh + count :]
                return Splice(text, token, len(state.ids) - token, ids, anchors, seam, "search", attempt)
        if not begin:
            return None
    return None


class _Places:
    """Where tokens begin, in bytes: from 0 on, or backwards from ``end``."""

    def __init__(self, widths: NDArray[np.int64], ids: NDArray[np.uint32], end: int) -> None:
        self.ids = ids.copy()
        self.widths = widths.take(ids, mode="clip")
        stops = np.cumsum(self.widths)
        total = int(stops[-1]) if len(stops) else 0
        self.starts = stops - self.widths + ((end - total) if end else 0)
        self.end = end or total


def _longest_run(stored: _Places, fresh: _Places, most: int) -> tuple[int, int, int] | None:
    """The longest run of tokens of the same id and place, up to byte ``most``: index in either, and length."""
    _, old, new = np.intersect1d(stored.starts, fresh.starts, assume_unique=True, return_indices=True)
    equal = (stored.ids[old] == fresh.ids[new]) & (fresh.starts[new] + fresh.widths[new] <= most)
    old, new = old[equal], new[equal]
    if not len(old):
        return None
    breaks = np.flatnonzero((np.diff(old) != 1) | (np.diff(new) != 1)) + 1
    edges = np.concatenate(([0], breaks, [len(old)]))
    best = int(np.argmax(np.diff(edges)))
    at = int(edges[best])
    return int(old[at]), int(new[at]), int(edges[best + 1]) - at


def _certified(engine: Engine, state: State, begin: int, kept: str, new: str, low: int, high: int) -> bool:
    """Whether a certified cut lies between the bytes ``low`` and ``high`` of the window, both excluded.

    Tokens may begin and end inside a character, so either may be there.
    """
    data = kept.encode("utf-8")
    first, last = (len(data[:at].decode("utf-8", "ignore")) for at in (low, high))
    before = state.text.slice(max(0, begin - engine.cuts.longest_literal), begin)
    return engine.cuts.last(before + kept + new, len(before) + first, len(before) + last) is not None
