"""Marks that a pre-tokenizer puts into a text: the space of ``ByteLevel``, the word mark of ``Metaspace``.

Both put their mark before what does not begin with one already, and ``Metaspace`` first writes the mark for every
space.  The engines get the text after that, so that their stages have nothing to add.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .pipeline import ByteLevel, Metaspace, PreTokenizer, PreTokenizerSequence
from .records import record


@record
class WordMark:
    """``mark``: one character; ``before``: what it is put before; ``for_spaces``: spaces are written as marks.

    A stretch is what stands between two added tokens; ``text`` is the first one alone.
    """

    mark: str
    before: Literal["stretch", "text", "nothing"]
    for_spaces: bool

    def put(self, stretches: Sequence[str], continuing: bool) -> list[str]:
        """The stretches of a text with their marks; an empty one gets none.

        ``continuing``: the text goes on from a certified cut, and so does its first stretch, unless an added token
        ends there.  Only ``Metaspace`` has such cuts; its others lie before spaces and marks.
        """
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


def word_mark(pre_tokenizer: PreTokenizer | None) -> WordMark | None:
    """The mark of a pre-tokenizer of one step; None if it has none, or more steps."""
    match pre_tokenizer:
        case PreTokenizerSequence((only,)):
            return word_mark(only)
        case ByteLevel(add_prefix_space=True):
            return WordMark(" ", "stretch", for_spaces=False)
        case Metaspace(mark, "always", _):
            return WordMark(mark, "stretch", for_spaces=True)
        case Metaspace(mark, "first", _):
            return WordMark(mark, "text", for_spaces=True)
        case Metaspace(mark, _, _):
            return WordMark(mark, "nothing", for_spaces=True)
    return None
