"""What a change of the text changes of its ids: the paper's incremental repair (sections 3.2 and 3.3).

Write F(S) for the ids of a text S.  If p is a certified cut of S, then F(S) = (the ids left of p) + F(S[p:]), and
if p closes, the ids left of p are F(S[:p]).  So a change needs nothing but the stretch between a certified cut on
either side of it, and the places of those cuts among the tokens.

Before anything is spliced, the engine has encoded a stretch of the old text beside the change once more, and got
the ids that are stored.  That is a check of the state, not part of the proof; if it fails, more of the text is
encoded again (:func:`widen`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .anchors import Anchors
from .engine import Engine
from .ids import IdBuffer
from .text import BlockText

#: How far a cut is looked for at first, and at last, before an anchor is taken, in characters.
_REACH = (64, 1024, 1 << 14)
#: The overlap that is checked has at least so many tokens, if so many are there.
_OVERLAP = 2
#: How often a repair is widened before the reference encodes the whole text.
_WIDENINGS = 5


@dataclass(frozen=True, slots=True)
class Seam:
    """Two certified cuts close to the end of the text, final whatever is appended.

    The next append starts at ``start`` (``start_token`` tokens lie before it), and what is stored up to ``stop``
    must come out again.
    """

    start: int = 0
    start_token: int = 0
    stop: int = 0
    stop_token: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """A text and its ids, with what is known of where they meet."""

    text: BlockText
    ids: IdBuffer
    anchors: Anchors
    seam: Seam


@dataclass(frozen=True, slots=True)
class Splice:
    """``ids[token : token + removed] = fresh``, and the state around it afterwards.

    ``widenings`` and ``fallback``: how often the check failed, and why the whole text was encoded, if it was.
    """

    text: BlockText
    token: int
    removed: int
    fresh: NDArray[np.uint32]
    anchors: Anchors
    seam: Seam
    path: str
    widenings: int = 0
    fallback: str | None = None


class _Mismatch(Exception):
    """The stored ids are not those of the stored text."""


def same(one: NDArray[np.uint32], other: NDArray[np.uint32]) -> bool:
    """Equality of two short arrays of ids."""
    return one.tobytes() == other.tobytes()


# --- the end of the text ------------------------------------------------------------------


def append(engine: Engine, state: State, new: str) -> Splice:
    """Continue the text: from the seam on, encode again."""
    seam, size = state.seam, len(state.text)
    window = state.text.slice(seam.start, size) + new
    fresh, inner = engine.encode_long(window, seam.start == 0)
    overlap = seam.stop_token - seam.start_token
    if not same(fresh[:overlap], state.ids.read(seam.start_token, seam.stop_token)):
        return widen(engine, state, size, new)
    anchors = state.anchors.with_anchors(inner, seam.start, seam.start_token)
    return _tail(engine, state, size, new, window, fresh, anchors, "append")


def change_tail(engine: Engine, state: State, start: int, new: str) -> Splice:
    """Replace everything from ``start`` on."""
    try:
        cut = cut_before(engine, state, start)
        token, anchors = locate(engine, state, cut)
    except _Mismatch:
        return widen(engine, state, start, new)
    window = state.text.slice(cut, start) + new
    fresh, inner = engine.encode_long(window, cut == 0)
    anchors = anchors.edited(cut, len(state.text) + 1, (0, 0)).with_anchors(inner, cut, token)
    kept = State(state.text, state.ids, anchors, Seam(cut, token, cut, token))
    return _tail(engine, kept, start, new, window, fresh, anchors, "tail")


def _tail(
    engine: Engine,
    state: State,
    start: int,
    new: str,
    window: str,
    fresh: NDArray[np.uint32],
    anchors: Anchors,
    path: str,
    widenings: int = 0,
) -> Splice:
    """``fresh`` are the ids of ``window``, which reaches from the seam of ``state`` to the end of the new text."""
    begin, token = state.seam.start, state.seam.start_token
    seam = _seam(engine, window, begin, token, token + len(fresh), state.seam)
    if seam.stop - anchors.last[0] > 4096 and engine.cuts.last(
        window, seam.stop - begin - 1, seam.stop - begin + 1, True
    ):
        anchors = anchors.with_anchor(seam.stop, seam.stop_token)
    text = state.text.replaced(start, len(state.text), new)
    return Splice(text, token, len(state.ids) - token, fresh, anchors, seam, path, widenings)


def _seam(engine: Engine, window: str, begin: int, token: int, total: int, old: Seam) -> Seam:
    """The seam of a text that ends with ``window``, which begins at a certified cut or at the start.

    ``begin``, ``token``: where it begins; ``total``: how many tokens the text has.
    """
    stop = engine.cuts.last(window, 0, len(window))
    if stop is None:
        return old
    behind = len(engine.encode(window[stop:], False))
    start: int | None = stop
    for _ in range(8):
        start = engine.cuts.last(window, 0, start)
        if start is None:
            break
        more = len(engine.encode(window[start:], False))
        if more - behind >= _OVERLAP:
            return Seam(begin + start, total - more, begin + stop, total - behind)
    return Seam(begin, token, begin + stop, total - behind)


# --- the middle ----------------------------------------------------------------------------


def edit(engine: Engine, state: State, start: int, stop: int, new: str) -> Splice:
    """Replace the characters ``start..stop`` by ``new``, something being left after them."""
    size = len(state.text)
    low = cut_before(engine, state, start)
    high = _cut_after(engine, state, low, start, stop, new)
    if high is None:
        return change_tail(engine, state, start, new + state.text.slice(stop, size))
    try:
        token, anchors = locate(engine, state, low)
        state = State(state.text, state.ids, anchors.with_anchor(low, token), state.seam)
        end_token, anchors = locate(engine, state, high, (low, token))
    except _Mismatch:
        return widen(engine, state, start, new + state.text.slice(stop, size))
    window = state.text.slice(low, start) + new + state.text.slice(stop, high)
    fresh, inner = engine.encode_long(window, low == 0)
    shift = (len(new) - (stop - start), len(fresh) - (end_token - token))
    anchors = anchors.edited(low, high, shift).with_anchors(inner, low, token)
    seam = state.seam
    if high <= seam.start:
        seam = Seam(
            seam.start + shift[0], seam.start_token + shift[1], seam.stop + shift[0], seam.stop_token + shift[1]
        )
        text = state.text.replaced(start, stop, new)
    else:
        text = state.text.replaced(start, stop, new)
        seam = tail_seam(engine, text, anchors, len(state.ids) + shift[1])
    return Splice(text, token, end_token - token, fresh, anchors, seam, "edit")


def tail_seam(engine: Engine, text: BlockText, anchors: Anchors, total: int) -> Seam:
    """The seam of a text of which only anchors are known."""
    for reach in _REACH:
        begin = max(0, len(text) - reach)
        found = _seam(engine, text.slice(begin, len(text)), begin, -1, total, Seam(-1, -1, -1, -1))
        if found.start_token >= 0:
            return found
    position, token = anchors.before(len(text) - _REACH[-1])
    return Seam(position, token, position, token)


def cut_before(engine: Engine, state: State, position: int) -> int:
    """A cut that closes, before ``position``, whatever the text goes on with from there; or the start."""
    for reach in _REACH:
        begin = max(0, position - reach)
        found = engine.cuts.last(state.text.slice(begin, position), 0, position - begin, True)
        if found is not None:
            return begin + found
        if not begin:
            return 0
    return state.anchors.before(position - _REACH[-1])[0]  # farther away than any added token is long


def _cut_after(engine: Engine, state: State, low: int, start: int, stop: int, new: str) -> int | None:
    """A cut that closes in the old and in the new text, after ``stop``; ``low`` is one in both."""
    text, size = state.text, len(state.text)
    for reach in _REACH:
        end = min(size, stop + reach)
        old = text.slice(low, end)
        fresh = old[: start - low] + new + old[stop - low :]
        shift = len(fresh) - len(old)
        at: int | None = stop - low + shift
        while at is not None:
            at = engine.cuts.first(fresh, at, len(fresh), True)
            if at is not None and engine.cuts.last(old, at - shift - 1, at - shift + 1, True) is not None:
                return low + at - shift
        if end == size:
            return None
    return None


def locate(engine: Engine, state: State, cut: int, near: tuple[int, int] | None = None) -> tuple[int, Anchors]:
    """How many tokens lie before a cut that closes, and the anchors met while finding out.

    Encodes from the nearest anchor (or from ``near``, a cut left of this one and its tokens) up to the cut, or
    from the cut to the anchor behind it, and compares with what is stored.
    """
    size, total = len(state.text), len(state.ids)
    left = near or state.anchors.before(cut)
    right = state.anchors.after(cut) or (size, total)
    if right[0] == cut and right[0] < size:
        right = state.anchors.after(cut + 1) or (size, total)  # an anchor is checked, too
        if left[0] == cut:
            left = state.anchors.before(cut - 1) if cut else left
    if cut - left[0] <= right[0] - cut:
        ids, inner = engine.encode_long(state.text.slice(left[0], cut), left[0] == 0)
        token = left[1] + len(ids)
        if not same(ids, state.ids.read(left[1], token)):
            raise _Mismatch
        return token, state.anchors.with_anchors(inner, *left)
    ids, inner = engine.encode_long(state.text.slice(cut, right[0]), cut == 0)
    token = right[1] - len(ids)
    if token < 0 or not same(ids, state.ids.read(token, right[1])):
        raise _Mismatch
    return token, state.anchors.with_anchors(inner, cut, token)


# --- when the check fails ----------------------------------------------------------------------


def widen(engine: Engine, state: State, start: int, new: str) -> Splice:
    """Replace everything from ``start`` on, believing less and less of what is stored.

    From one anchor left of the change, then from the second, the fourth..., the text is encoded again.  What is
    stored must agree over an overlap to the right of the anchor; at the start of the text nothing needs to.
    """
    for attempt in range(_WIDENINGS):
        begin, token = state.anchors.before(start - _REACH[-1], (1 << attempt) - 1)
        window = state.text.slice(begin, start) + new
        fresh, inner = engine.encode_long(window, begin == 0)
        if begin:
            agree = fresh[:64]
            stored = state.ids.read(token, token + len(agree))
            if len(stored) < _OVERLAP or not same(agree, stored):
                continue
        anchors = state.anchors.edited(begin, len(state.text) + 1, (0, 0)).with_anchors(inner, begin, token)
        kept = State(state.text, state.ids, anchors, Seam(begin, token, begin, token))
        return _tail(engine, kept, start, new, window, fresh, anchors, "widened", attempt + 1)
    text = state.text.replaced(start, len(state.text), new)
    return whole(engine, state, text, "the stored ids do not fit the text", _WIDENINGS)


def whole(engine: Engine, state: State, text: BlockText, reason: str, widenings: int = 0) -> Splice:
    """All ids of the new text anew: by the reference, or, for a tokenizer that is refused, by its fastest engine."""
    fresh = engine.encode_whole(str(text), by_reference=engine.refusal is None)
    anchors = Anchors.start()
    seam = Seam() if engine.refusal else tail_seam(engine, text, anchors, len(fresh))
    return Splice(text, 0, len(state.ids), fresh, anchors, seam, f"whole: {reason}", widenings, reason)


def opened(engine: Engine, state: State, text: BlockText) -> Splice:
    """The first text of a session."""
    if engine.refusal is not None:
        return whole(engine, state, text, engine.refusal)
    fresh, anchors = engine.encode_long(str(text), True)
    anchors = Anchors.start().with_anchors(anchors, 0, 0)
    return Splice(text, 0, 0, fresh, anchors, tail_seam(engine, text, anchors, len(fresh)), "open")
