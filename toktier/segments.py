"""The text as the engines see it: normalized, with added tokens marked.

``PreparedText`` is what stands between the front of the pipeline (added
tokens, normalizer) and the engines (pre-tokenizer and model).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class PreparedText(NamedTuple):
    """Normalized text with the added tokens found in it.

    ``text``
        The whole text after normalization.  Every added token occupies at least one
        character; what it holds there is not looked at by the engines.
    ``starts``, ``stops``, ``ids``
        Arrays of shape (number of added tokens,): character positions in ``text``
        (int64, sorted, not overlapping) and token ids (uint32).
    ``unchanged``
        Whether ``text`` is the caller's text itself, so that positions are the caller's.

    The stretches between added tokens are separate texts to the pre-tokenizer.  (A tuple, since each text has one,
    and a record takes a microsecond more to make.)
    """

    text: str
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    ids: NDArray[np.uint32]
    unchanged: bool


NO_POSITIONS: NDArray[np.int64] = np.empty(0, np.int64)
NO_IDS: NDArray[np.uint32] = np.empty(0, np.uint32)
