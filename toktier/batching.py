"""Many texts as one, for engines that are at their best on long ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .segments import PreparedText

#: Stands between texts; whatever it is, the engines see an added token there.
_SEAM = "\n"


def join(texts: Sequence[PreparedText]) -> tuple[PreparedText, NDArray[np.int64]]:
    """One text with a made-up added token after each of ``texts``.

    Returns it and the numbers of the made-up ones among its added tokens, int64.
    """
    lengths = np.array([len(text.text) + 1 for text in texts], np.int64)
    offsets = np.cumsum(lengths) - lengths
    counts = np.array([len(text.ids) for text in texts], np.int64)
    seams = np.cumsum(counts + 1) - 1
    total = int(counts.sum()) + len(texts)
    starts, stops = np.empty(total, np.int64), np.empty(total, np.int64)
    ids = np.zeros(total, np.uint32)
    starts[seams] = offsets + lengths - 1
    stops[seams] = offsets + lengths
    real = np.ones(total, np.bool_)
    real[seams] = False
    shift = np.repeat(offsets, counts)
    starts[real] = np.concatenate([text.starts for text in texts]) + shift
    stops[real] = np.concatenate([text.stops for text in texts]) + shift
    ids[real] = np.concatenate([text.ids for text in texts])
    whole = "".join([part for text in texts for part in (text.text, _SEAM)])
    return PreparedText(whole, starts, stops, ids, False), seams


def split(ids: NDArray[np.uint32], added: NDArray[np.int64], seams: NDArray[np.int64]) -> list[NDArray[np.uint32]]:
    """The ids of each text: cut at the made-up tokens, which are left out.

    Copies, so that one result that is kept does not keep the others.
    """
    ends = added[seams].tolist()
    starts = [0, *(end + 1 for end in ends[:-1])]
    return [ids[start:end].copy() for start, end in zip(starts, ends, strict=True)]
