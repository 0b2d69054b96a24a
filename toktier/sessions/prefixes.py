"""Which stored text has most in common with a request: an index of prefixes by their hashes.

A text is cut into blocks, and each prefix that ends where a block does gets a hash, made of the hash of the prefix
before it and of the block: a chain, so that all prefixes of a text cost one pass over it.  What is left over at
the end is chained in smaller blocks, and the whole text is hashed last.  The request's own chain is followed as
long as somebody has stored the same, which finds

* a stored text that is a prefix of the request, to the character;
* else one that agrees with it up to the last block before they part, as when the end of a prompt was replaced.

The index only proposes: hashes may collide, and whoever uses a proposal compares the characters.  Hashes are those
of Python's strings, keyed anew in each process, so that no text can be made to collide with another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

#: Characters of a block, and of a small one.  Small ones divide a block.
BLOCK = 2048
SMALL = 128
#: What one prefix of one text costs in the index, in bytes (a slot in two dictionaries and a number).
_MARK = 370

Owner = TypeVar("Owner", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Marks:
    """The hashes of a text's prefixes: one for each block, then those of the rest; none for the empty text."""

    blocks: tuple[int, ...] = ()
    rest: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        return _MARK * (len(self.blocks) + len(self.rest))


NO_MARKS = Marks()


def marks(seed: int, read: Callable[[int, int], str], length: int, old: Marks, unchanged: int) -> Marks:
    """The marks of a text of ``length`` characters, ``read(start, stop)`` being a stretch of it.

    ``old`` are its marks before a change, which left the first ``unchanged`` characters alone: only what comes
    later is read.  ``seed`` keeps texts of one kind apart from those of another.
    """
    blocks = list(old.blocks[: unchanged // BLOCK])
    start = BLOCK * len(blocks)
    text = read(start, length)
    mark = blocks[-1] if blocks else seed
    at = 0
    while at + BLOCK <= len(text):
        mark = hash((mark, text[at : at + BLOCK]))
        blocks.append(mark)
        at += BLOCK
    rest = []
    while at + SMALL <= len(text):
        mark = hash((mark, text[at : at + SMALL]))
        rest.append(mark)
        at += SMALL
    if length:
        rest.append(hash((mark, text[at:])))  # less than a small block, perhaps nothing: here a text ends
    return Marks(tuple(blocks), tuple(rest))


class PrefixIndex(Generic[Owner]):
    """From marks to who has them.  Callers see to it that one thread at a time calls all but :meth:`follow`."""

    def __init__(self) -> None:
        self._owners: dict[int, dict[Owner, None]] = {}  # a dictionary keeps the order of insertion

    def replace(self, owner: Owner, old: Marks, new: Marks) -> None:
        """Let ``owner`` have ``new`` marks in place of ``old`` ones."""
        kept, most = 0, min(len(old.blocks), len(new.blocks))
        while kept < most:  # a mark says that all before it are the same, too
            middle = (kept + most + 1) // 2
            kept, most = (middle, most) if old.blocks[middle - 1] == new.blocks[middle - 1] else (kept, middle - 1)
        for mark in (*old.blocks[kept:], *old.rest):
            owners = self._owners.get(mark)
            if owners is not None:
                owners.pop(owner, None)
                if not owners:
                    del self._owners[mark]
        for mark in (*new.blocks[kept:], *new.rest):
            self._owners.setdefault(mark, {})[owner] = None

    def follow(self, seed: int, text: str) -> tuple[int, int]:
        """The mark of the longest prefix of ``text`` that somebody has, and its length in characters."""
        known = self._owners
        mark, at = seed, 0
        for size in (BLOCK, SMALL):
            while at + size <= len(text):
                following = hash((mark, text[at : at + size]))
                if following not in known:
                    break
                mark, at = following, at + size
        for stop in range(min(at + SMALL - 1, len(text)), at - 1, -1):
            whole = hash((mark, text[at:stop]))
            if whole in known:
                return whole, stop
        return mark, at

    def newest(self, mark: int) -> Owner | None:
        """Who came to have this mark last; None if nobody has it any more."""
        owners = self._owners.get(mark)
        return next(reversed(owners)) if owners else None
