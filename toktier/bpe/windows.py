"""Pieces of any length in linear time, by windows that overlap.

**Lemma** (local validity).  Let t1 … tn be tokens whose symbols make up a word w, each what BPE makes of its
own symbols.  BPE of w is t1 … tn if and only if BPE of the symbols of t(i) t(i+1) is t(i) t(i+1), for every i.

*If*: look at the first merge of w's BPE that crosses the border of some t(i), t(i+1), and at the moment before.
Until then each t(j) has merged by itself, and the steps inside t(i) and t(i+1) were each the leftmost pair of
least rank in all of w, hence also among the pairs of t(i) t(i+1) alone; so BPE of t(i) t(i+1) is at this point
too, and takes the crossing pair as well.  But it never crosses.  *Only if*: the same comparison the other way
round: a merge that BPE of t(i) t(i+1) would make across the border would be at hand in w too, with less rank
than what w's BPE does next inside the two, or at its end.  Nothing here depends on the order of ranks.

So two tokenizations of overlapping windows may be joined at a token that both contain: every neighbouring
pair of the joined sequence stands in one of the two.  A long piece is cut into windows, equal windows are
encoded once, and neighbours are joined at the first token that they share.  Two windows that share none are
encoded again as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .batch import MergeWord, merge_words, word_bounds
from .tables import Merges

#: Strides and overlaps of windows, in symbols, tried in this order.  Ordinary text falls into step within a
#: few tokens.  The wide ones are for periodic text: they hold whole numbers of tokens of 2^i 3^j symbols.
_SIZES = ((96, 48), (768, 768))
#: Fewer windows than this are merged one by one.
_FEW = 12
#: Give a size up once it has cost this many times the piece's symbols.
_PATIENCE = 4

Ids = NDArray[np.uint32]


class _Window:
    """A stretch of symbols and its tokens: where each begins (int64, from the start of the piece)."""

    __slots__ = ("begin", "stop", "tokens")

    def __init__(self, tokens: Ids, begin: NDArray[np.int64], stop: int) -> None:
        self.tokens, self.begin, self.stop = tokens, begin, stop


def merge_long(symbols: Ids, merges: Merges, merge_word: MergeWord) -> Ids | None:
    """Merge one long word: uint32 symbols in, uint32 tokens out.

    ``merge_word`` merges a single word and tells where each token begins; it is used where there are only a few.
    None where no size of windows
    works (then the caller uses the reference).
    """
    for stride, overlap in _SIZES:
        joined = _by_windows(symbols, stride, overlap, merges, merge_word)
        if joined is not None:
            return joined
    return None


def _by_windows(symbols: Ids, stride: int, overlap: int, merges: Merges, merge_word: MergeWord) -> Ids | None:
    count = len(symbols)
    starts = np.arange(0, max(1, count - overlap), stride)
    spans = [(start, min(start + stride + overlap, count)) for start in starts.tolist()]
    windows = _encode(symbols, spans, merges, merge_word)
    spent = sum(stop - start for start, stop in spans)
    joints = _joints(windows)
    if joints.count(None) > len(joints) // 8:
        return None
    while None in joints:
        # encode again, as one, every group of windows that do not join, with one more on either side
        groups: list[list[int]] = []
        for at in (i for i, joint in enumerate(joints) if joint is None):
            first, last = max(0, at - 1), min(len(windows) - 1, at + 2)
            if groups and first <= groups[-1][1]:
                groups[-1][1] = last
            else:
                groups.append([first, last])
        wide = [(int(windows[first].begin[0]), windows[last].stop) for first, last in groups]
        spent += sum(stop - start for start, stop in wide)
        if spent > _PATIENCE * count:
            return None
        for (first, last), window in zip(
            reversed(groups), reversed(_encode(symbols, wide, merges, merge_word)), strict=True
        ):
            windows[first : last + 1] = [window]
            joints[first:last] = []
            if first > 0:
                joints[first - 1] = _shared(windows[first - 1], window)
            if first < len(joints):
                joints[first] = _shared(window, windows[first + 1])
    parts, entered = [], 0
    for window, joint in zip(windows, [*joints, (len(windows[-1].tokens), 0)], strict=True):
        assert joint is not None
        if joint[0] < entered:  # the joints on either side of this window crossed
            return None
        parts.append(window.tokens[entered : joint[0]])
        entered = joint[1]
    return np.concatenate(parts)


def _encode(
    symbols: Ids, spans: Sequence[tuple[int, int]], merges: Merges, merge_word: MergeWord
) -> list[_Window]:
    """The tokens of each span of ``symbols``; equal ones are encoded once."""
    texts = [symbols[start:stop].tobytes() for start, stop in spans]
    number = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    lengths = np.array([len(text) // 4 for text in number])
    starts = np.cumsum(lengths) - lengths
    words = np.frombuffer(b"".join(number), np.uint32)
    if len(number) < _FEW:
        found = [
            merge_word(words[a : a + n].tolist()) for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)
        ]
        tokens = [np.array(ids, np.uint32) for ids, _ in found]
        begins = [np.array(begin, np.int64) for _, begin in found]
    else:
        merged, first = merge_words(words, starts, merges, merge_word)
        bounds = word_bounds(first, starts)[1:-1]
        tokens = np.split(merged, bounds)
        begins = [b - b[0] for b in np.split(first, bounds)]
    which = [number[text] for text in texts]
    return [_Window(tokens[w], begins[w] + start, stop) for w, (start, stop) in zip(which, spans, strict=True)]


def _joints(windows: Sequence[_Window]) -> list[tuple[int, int] | None]:
    """:func:`_shared` for all neighbours at once; each window overlaps with its neighbours alone."""
    sizes = np.array([len(window.tokens) for window in windows])
    starts = np.cumsum(sizes) - sizes
    number = np.repeat(np.arange(len(windows)), sizes)
    begin = np.concatenate([window.begin for window in windows])
    ids = np.concatenate([window.tokens for window in windows])
    stops = np.array([window.stop for window in windows])
    end = np.append(begin[1:], 0)
    end[starts + sizes - 1] = stops
    # of each pair of neighbours, the tokens of the first that lie in the second, and the other way round
    ours = np.flatnonzero(begin >= np.append(begin[starts[1:]], end.max())[number])
    theirs = np.flatnonzero(end <= np.append(0, stops[:-1])[number])
    if len(ours) == 0:
        return [None] * (len(windows) - 1)
    match = ours[np.minimum(np.searchsorted(begin[ours], begin[theirs]), len(ours) - 1)]
    same = (begin[match] == begin[theirs]) & (end[match] == end[theirs]) & (ids[match] == ids[theirs])
    same &= number[match] == number[theirs] - 1
    match, theirs = match[same], theirs[same]
    pair, first = np.unique(number[match], return_index=True)
    joints: list[tuple[int, int] | None] = [None] * (len(windows) - 1)
    here, there = match[first] - starts[pair], theirs[first] - starts[pair + 1]
    for at, i, j in zip(pair.tolist(), here.tolist(), there.tolist(), strict=True):
        joints[at] = (i, j)
    return joints


def _shared(here: _Window, there: _Window) -> tuple[int, int] | None:
    """Where in each of two overlapping windows the first token stands that both contain."""
    skip = int(np.searchsorted(here.begin, there.begin[0]))
    limit = int(np.searchsorted(there.begin, here.stop))
    ours = {token: skip + i for i, token in enumerate(_tokens(here, skip, len(here.begin)))}
    for j, token in enumerate(_tokens(there, 0, limit)):
        if token in ours:
            return ours[token], j
    return None


def _tokens(window: _Window, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Begin, end and id of the tokens numbered ``first`` to ``last - 1``."""
    bounds = [*window.begin[first : last + 1].tolist(), window.stop]
    return zip(bounds, bounds[1:], window.tokens[first:last].tolist(), strict=False)
