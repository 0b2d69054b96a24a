"""What a change of the text changes of its ids: the paper's incremental repair (sections 3.2 and 3.3).

Write F(S) for the ids of a text S.  If p is a certified cut of S, then F(S) = (the ids left of p) + F(S[p:]), and
if p closes, the ids left of p are F(S[:p]).  So a change needs nothing but the stretch between a certified cut on
either side of it, and the places of those cuts among the tokens.

Before anything is spliced, the engine has encoded a stretch of the old text beside the change once more, and got
the ids that are stored.  That is a check of the state, not part of the proof; if it fails, more of the text is
encoded again (:func:`widen`).
"""

from __future__ import annotations

from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ..records import record
from ..segments import NO_IDS
from .anchors import Anchors
from .engine import EVERY, Engine, Window
from .ids import IdBuffer
from .text import BlockText

#: How far a cut is looked for at first, and at last, before an anchor is taken, in characters.
_REACH = (64, 1024, 1 << 14)
#: How often a repair is widened before the reference encodes the whole text.
_WIDENINGS = 5
#: A change is repaired from a cut so many characters before it, so that what lies between is checked.
_CHECKED = 64
#: An append starts so many certified cuts before the last one, and the tokens between are checked.
_OVERLAP = 3
#: Anchors at the end are at least so many characters apart.
_APART = 4096
#: Characters whose ids are compared before a widened repair believes an anchor.
_PROBE = 256
#: Counting the tokens of a stretch by their bytes costs as much as encoding one that is so many times shorter.
_COUNTING = 16


@record
class Seam:
    """A certified cut close to the end of the text, final whatever is appended: the next append starts there.

    ``token`` tokens lie before it, and the first ``overlap`` behind it are final, too: they must come out again.
    """

    start: int = 0
    token: int = 0
    overlap: int = 0


@record
class State:
    """A text and its ids, with what is known of where they meet."""

    text: BlockText
    ids: IdBuffer
    anchors: Anchors
    seam: Seam


@record
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


def opened(engine: Engine, state: State, text: str) -> Splice:
    """The first text of a session."""
    if engine.refusal is not None:
        return whole(engine, state, BlockText(text), engine.refusal)
    return _to_the_end(engine, state, 0, 0, 0, text, "open")


def append(engine: Engine, state: State, new: str) -> Splice:
    """Continue the text: from the seam on, encode again."""
    seam, size = state.seam, len(state.text)
    window = engine.window(state.text.slice(seam.start, size) + new, seam.start == 0)
    if not same(window.ids[: seam.overlap], state.ids.read(seam.token, seam.token + seam.overlap)):
        return widen(engine, state, size, new)
    return _end(engine, state, window, size, new, state.anchors, "append")


def change_tail(engine: Engine, state: State, start: int, new: str) -> Splice:
    """Replace everything from ``start`` on."""
    cut = cut_before(engine, state, start - _CHECKED)
    try:
        token, _, anchors = locate(engine, state, cut, max(cut, cut_before(engine, state, start)))
    except _Mismatch:
        return widen(engine, state, start, new)
    state = State(state.text, state.ids, anchors, state.seam)
    return _to_the_end(engine, state, cut, token, start, new, "tail")


def _to_the_end(
    engine: Engine, state: State, cut: int, token: int, start: int, new: str, path: str, widenings: int = 0
) -> Splice:
    """Encode from ``cut`` on, before which ``token`` tokens lie, with ``new`` for everything from ``start`` on."""
    window = engine.window(state.text.slice(cut, start) + new, cut == 0)
    anchors = state.anchors.edited(cut, len(state.text) + 1, (0, 0))
    state = State(state.text, state.ids, anchors, Seam(cut, token))
    return _end(engine, state, window, start, new, anchors, path, widenings)


def _end(
    engine: Engine,
    state: State,
    window: Window,
    start: int,
    new: str,
    anchors: Anchors,
    path: str,
    widenings: int = 0,
) -> Splice:
    """``window`` reaches from the seam of ``state`` to the end of the new text."""
    begin, token = state.seam.start, state.seam.token
    total = token + len(window.ids)
    if len(window.anchors):
        anchors = anchors.with_anchors(window.anchors, begin, token)
    seam = window_seam(engine, window, begin, total) or state.seam
    if seam.start - anchors.last[0] >= _APART and engine.cuts.is_closing(window.text, seam.start - begin):
        anchors = anchors.with_anchor(seam.start, seam.token)
    text = state.text.replaced(start, len(state.text), new)
    return Splice(text, token, len(state.ids) - token, window.ids, anchors, seam, path, widenings)


def window_seam(engine: Engine, window: Window, begin: int, total: int) -> Seam | None:
    """The seam of a text that ends with ``window``, which begins at ``begin``, a certified cut or the start.

    ``total``: how many tokens the text has.  None if there is no cut in the window.
    """
    cuts = list(islice(engine.cuts.backwards(window.text, 0, len(window.text)), _OVERLAP + 1))
    if not cuts:
        return None
    first = cuts[-1] if len(cuts) > _OVERLAP else 0
    behind = window.behind(first) if first else len(window.ids)
    return Seam(begin + first, total - behind, behind - window.behind(cuts[0]))


# --- the middle ----------------------------------------------------------------------------


def edit(engine: Engine, state: State, start: int, stop: int, new: str) -> Splice:
    """Replace the characters ``start..stop`` by ``new``, something being left after them."""
    size = len(state.text)
    low = cut_before(engine, state, start - _CHECKED)
    high = cut_after(engine, state, low, start, stop, new)
    if high is None:
        return change_tail(engine, state, start, new + state.text.slice(stop, size))
    try:
        token, end_token, anchors = locate(engine, state, low, high)
    except _Mismatch:
        return widen(engine, state, start, new + state.text.slice(stop, size))
    window = engine.window(state.text.slice(low, start) + new + state.text.slice(stop, high), low == 0)
    fresh = window.ids
    more = len(new) - (stop - start)
    more_tokens = len(fresh) - (end_token - token)
    anchors = anchors.edited(low, high, (more, more_tokens)).with_anchors(window.anchors, low, token)
    anchors = anchors.with_anchor(low, token).with_anchor(high + more, end_token + more_tokens)
    text = state.text.replaced(start, stop, new)
    seam = state.seam
    if high <= seam.start:
        seam = Seam(seam.start + more, seam.token + more_tokens, seam.overlap)
    else:
        seam = tail_seam(engine, text, anchors, len(state.ids) + more_tokens)
    return Splice(text, token, end_token - token, fresh, anchors, seam, "edit")


def tail_seam(engine: Engine, text: BlockText, anchors: Anchors, total: int) -> Seam:
    """The seam of a text of ``total`` tokens of which only anchors are known."""
    size = len(text)
    cut = cut_before(engine, State(text, IdBuffer(NO_IDS), anchors, Seam()), size)
    cut = cut_before(engine, State(text, IdBuffer(NO_IDS), anchors, Seam()), cut)
    window = engine.window(text.slice(cut, size), cut == 0)
    token = total - len(window.ids)
    return window_seam(engine, window, cut, total) or Seam(cut, token)


def cut_before(engine: Engine, state: State, position: int) -> int:
    """A cut that closes, before ``position``, whatever the text goes on with from there; or the start."""
    for reach in _REACH:
        low = max(0, position - reach)
        begin = max(0, low - engine.cuts.longest_literal)
        found = engine.cuts.last(state.text.slice(begin, position), low - begin, position - begin, True)
        if found is not None:
            return begin + found
        if not low:
            return 0
    # farther away than any added token is long
    return state.anchors.before(position - max(_REACH[-1], engine.cuts.longest_literal))[0]


def cut_after(engine: Engine, state: State, low: int, start: int, stop: int, new: str) -> int | None:
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


def locate(engine: Engine, state: State, low: int, high: int) -> tuple[int, int, Anchors]:
    """How many tokens lie before either of two cuts that close, and the anchors met while finding out.

    Encodes from a known place before them to ``high``, or from ``low`` to the anchor behind them, whichever is
    shorter, and compares with what is stored.
    """
    anchors = state.anchors
    left, right = _around(state, anchors, low, high)
    if min(high - left[0], right[0] - low) > 2 * EVERY:  # as after a session has been read from a file
        stretch = state.text.slice(left[0], right[0]), state.ids.read(left[1], right[1])
        anchors = anchors.with_anchors(engine.inside(*stretch), *left)
        left, right = _around(state, anchors, low, high)
    if low - left[0] < _COUNTING * (right[0] - low):
        counted = engine.count(state.text.slice(left[0], low), state.ids.read(left[1], right[1]))
        if counted is not None:
            left = (low, left[1] + counted)
    if high - left[0] <= right[0] - low:
        begin, end = left[0], high
        window = engine.window(state.text.slice(begin, end), begin == 0)
        token = left[1]
    else:
        begin, end = low, right[0]
        window = engine.window(state.text.slice(begin, end), begin == 0)
        token = right[1] - len(window.ids)
    last = token + len(window.ids)
    if token < 0 or not same(window.ids, state.ids.read(token, last)):
        raise _Mismatch
    anchors = anchors.with_anchors(window.anchors, begin, token)
    low_token = last - window.behind(low - begin) if low > begin else token
    return low_token, last - window.behind(high - begin) if high < end else last, anchors


def _around(state: State, anchors: Anchors, low: int, high: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The anchors closest to a stretch, or the ends of the text."""
    return anchors.before(low), anchors.after(high + 1) or (len(state.text), len(state.ids))


# --- when the check fails ----------------------------------------------------------------------


def widen(engine: Engine, state: State, start: int, new: str) -> Splice:
    """Replace everything from ``start`` on, believing less and less of what is stored.

    From one anchor left of the change, then from the second, the fourth..., the text is encoded again.  What is
    stored must agree over an overlap to the right of the anchor; at the start of the text nothing needs to.
    """
    for attempt in range(_WIDENINGS):
        begin, token = state.anchors.before(max(0, start - _REACH[-1]), (1 << attempt) - 1)
        if begin:
            probe = engine.window(state.text.slice(begin, min(begin + _PROBE, start)), False).ids
            probe = probe[: len(probe) // 2]  # the end of a stretch may not be final
            if len(probe) < 2 or not same(probe, state.ids.read(token, token + len(probe))):
                continue
        return _to_the_end(engine, state, begin, token, start, new, "widened", attempt + 1)
    text = state.text.replaced(start, len(state.text), new)
    return whole(engine, state, text, "the stored ids do not fit the text", _WIDENINGS)


def whole(engine: Engine, state: State, text: BlockText, reason: str, widenings: int = 0) -> Splice:
    """All ids of the new text anew: by the reference, or by the fastest engine of a tokenizer that is refused."""
    fresh = engine.whole(str(text), by_reference=engine.refusal is None)
    anchors = Anchors.start()
    seam = Seam() if engine.refusal else tail_seam(engine, text, anchors, len(fresh))
    return Splice(text, 0, len(state.ids), fresh, anchors, seam, f"whole: {reason}", widenings, reason)


# --- derived from the state ------------------------------------------------------------------------


def offsets(engine: Engine, state: State, first: int, last: int) -> NDArray[np.int64]:
    """Character spans of the tokens ``first..last``, at least one."""
    if engine.spans_alone:
        begin, token = state.anchors.before_token(max(0, first - 1))  # the first token of a text may be special
        end, end_token = state.anchors.after_token(last) or (len(state.text), len(state.ids))
        found = engine.spans(state.text.slice(begin, end))
        if same(found.ids, state.ids.read(token, end_token)):
            return found.offsets[first - token : last - token] + begin
    return engine.spans(str(state.text)).offsets[first:last]
