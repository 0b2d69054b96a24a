"""Marks that a pre-tokenizer puts into a text: the space of ``ByteLevel``, the word mark of ``Metaspace``.

Both put their mark before what does not begin with one already, and ``Metaspace`` first writes the mark for every
space.  Behind ``WhitespaceSplit`` it does so for each word, and white space is left out.  The engines get the text
after that, so that their stages have nothing to add.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .pipeline import ByteLevel, Metaspace, Other, PreTokenizer, PreTokenizerSequence
from .records import record


@record
class WordMark:
    """``mark``: one character; ``before``: what it is put before; ``for_spaces``: spaces are written as marks.

    A stretch is what stands between two added tokens; ``text`` is the first one alone; a word is what stands
    between white space.
    """

    mark: str
    before: Literal["stretch", "text", "word", "nothing"]
    for_spaces: bool

    def put(self, stretches: Sequence[str], continuing: bool) -> list[str]:
        """The stretches of a text with their marks; an empty one gets none.

        ``continuing``: the text goes on from a certified cut, and so does its first stretch, unless an added token
        ends there.  Only ``Metaspace`` has such cuts; its others lie before spaces and marks.
        """
        if self.before == "word":  # as which all begins that a certified cut leaves
            return [self._words(stretch) for stretch in stretches]
        if self.for_spaces:
            stretches = [stretch.replace(" ", self.mark) for stretch in stretches]
        if self.before == "nothing":
            return list(stretches)
        goes_on = continuing and not (self.for_spaces and self.before == "stretch")
        last = len(stretches) if self.before == "stretch" else 1
        return [
            self.mark + stretch
            if stretch and goes_on <= number < last and not stretch.startswith(self.mark)
            else stretch
            for number, stretch in enumerate(stretches)
        ]

    def _words(self, stretch: str) -> str:
        """The words of a stretch, each with its mark."""
        if len(stretch) >= _LONG:
            return self._many_words(stretch)
        known_alike = not any(separator in stretch for separator in _SEPARATORS)
        words = stretch.split() if known_alike else _word().findall(stretch)
        if self.mark not in stretch:
            return self.mark + self.mark.join(words) if words else ""
        return "".join([word if word.startswith(self.mark) else self.mark + word for word in words])

    def _many_words(self, stretch: str) -> str:
        """As :meth:`_words`, on an array: white space before a word becomes its mark, all other is left out."""
        mark = np.uint32(ord(self.mark))
        points = np.frombuffer(f" {stretch}".encode("utf-32-le"), np.uint32).copy()
        kept = ~_is_space().take(points, mode="clip")
        before = kept[1:] > kept[:-1]
        if self.mark in stretch:
            before &= points[1:] != mark
        kept[:-1] |= before
        points[np.flatnonzero(before)] = mark
        return str(points.take(np.flatnonzero(kept)).data, "utf-32-le")


#: Longer stretches are put on arrays.
_LONG = 1000
#: White space in Python, but not in the reference.
_SEPARATORS = "\x1c\x1d\x1e\x1f"


@cache
def _is_space() -> NDArray[np.bool_]:
    """Whether a character is white space in the reference, by code point; the last one stands for all further."""
    return np.array([chr(code).isspace() and chr(code) not in _SEPARATORS for code in range(0x3002)])


@cache
def _word() -> re.Pattern[str]:
    from .added_tokens import white_space

    return re.compile(f"[^{re.escape(white_space())}]+")


def word_mark(pre_tokenizer: PreTokenizer | None) -> WordMark | None:
    """The mark of a pre-tokenizer of one step, or of words; None if it has none, or more steps."""
    match pre_tokenizer:
        case PreTokenizerSequence((only,)):
            return word_mark(only)
        case PreTokenizerSequence((Other("WhitespaceSplit", _), Metaspace(mark, "always", True))):
            return WordMark(mark, "word", for_spaces=True)
        case ByteLevel(add_prefix_space=True):
            return WordMark(" ", "stretch", for_spaces=False)
        case Metaspace(mark, "always", _):
            return WordMark(mark, "stretch", for_spaces=True)
        case Metaspace(mark, "first", _):
            return WordMark(mark, "text", for_spaces=True)
        case Metaspace(mark, _, _):
            return WordMark(mark, "nothing", for_spaces=True)
    return None
