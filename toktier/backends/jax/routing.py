"""From how many characters on a text is worth the way to the device: measured, since it depends on the machine."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

from ...bpe.tables import TokenBytes

#: Texts that each length is measured with; each is new to both sides.
_TEXTS = 5
#: One word in so many is two stuck together, so that as many pieces are no token as in English.
_STUCK = 12
_FEWEST_WORDS = 100


def faster_from(
    host: Callable[[str], object],
    device: Callable[[str], object],
    lengths: Sequence[int],
    text: Callable[[int, int], str],
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> int | None:
    """The least number of characters from which ``device`` is faster than ``host``; None if it is not.

    Both take a text.  ``lengths``: the two lengths that are measured, ascending, or one; between them times are
    taken to be linear.  ``text`` makes one of a length and a seed; ``clock`` gives seconds.
    """
    gains = []
    for length in lengths:
        times: tuple[list[float], list[float]] = ([], [])
        for seed in range(_TEXTS):
            own = text(length, seed)
            for taken, encode in zip(times, (host, device), strict=True):  # in turns: a machine has moods
                began = clock()
                encode(own)
                taken.append(clock() - began)
        gains.append(median(times[0]) - median(times[1]))
    if gains[-1] <= 0:
        return None
    if gains[0] >= 0:
        return lengths[0]
    return lengths[0] + round((lengths[-1] - lengths[0]) * -gains[0] / (gains[-1] - gains[0]))


def made_up_texts(tokens: TokenBytes) -> Callable[[int, int], str]:
    """Makes texts of a length and a seed: words of a vocabulary in random order, ASCII, some stuck together."""
    blob = tokens.blob.tobytes()
    bounds = pairwise(tokens.offsets.tolist())
    found = (blob[start:stop] for start, stop in bounds if blob[start : start + 1] == b" ")
    words = [word.decode("ascii") for word in found if word.isascii() and word[1:].isalpha()]
    if len(words) < _FEWEST_WORDS:
        words = [f" {number}" for number in range(10_000)]
    least = min(map(len, words)) - 1

    def text(length: int, seed: int) -> str:
        chance = random.Random(seed)
        chosen = chance.choices(words, k=length // least + 1)
        for at in range(chance.randrange(_STUCK), len(chosen), _STUCK):
            chosen[at] = chosen[at][1:]
        return "".join(chosen)[:length]

    return text
