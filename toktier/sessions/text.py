"""The text of a session: immutable, in blocks, about one byte a character.

A Python string takes one, two or four bytes for each of its characters, whatever its widest character needs, so
that one emoji makes a long text four times as large.  Here every block has a width of its own.  Blocks are shared
between versions of a text, and comparing with a string goes block by block, at the speed of ``memcmp`` where the
string is no wider than the block.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

#: Characters of a block at most, and of one that is not all ASCII (so that few are as wide as the widest).
_BLOCK = 1 << 16
_WIDE_BLOCK = 1 << 11


class BlockText:
    """An immutable text.  ``len``, ``str`` and equality of two of them mean what they mean for strings."""

    __slots__ = ("_blocks", "_length", "_starts")

    def __init__(self, text: str = "") -> None:
        self._blocks = _cut(text)  # none is empty, and there is none for the empty text
        *self._starts, self._length = accumulate(map(len, self._blocks), initial=0)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return "".join(self._blocks)

    def __iter__(self) -> Iterator[str]:
        """The blocks."""
        return iter(self._blocks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockText):
            return NotImplemented
        return self is other or (self._length == other._length and str(self) == str(other))

    __hash__ = None  # type: ignore[assignment]  # compared by content, which may be long

    @property
    def nbytes(self) -> int:
        """Bytes that the text occupies, its index included."""
        return sum(map(sys.getsizeof, self._blocks)) + 16 * len(self._blocks) + sys.getsizeof(self._starts)

    def slice(self, start: int, stop: int) -> str:
        """The characters ``start..stop``; the caller keeps both within the text."""
        if start >= stop:
            return ""
        first = bisect_right(self._starts, start) - 1
        offset = self._starts[first]
        block = self._blocks[first]
        if stop - offset <= len(block):
            return block[start - offset : stop - offset]
        last = bisect_right(self._starts, stop - 1) - 1
        parts = [block[start - offset :], *self._blocks[first + 1 : last]]
        parts.append(self._blocks[last][: stop - self._starts[last]])
        return "".join(parts)

    def replaced(self, start: int, stop: int, new: str) -> BlockText:
        """The text with ``new`` in place of the characters ``start..stop``.

        Cost: what changes, at most three blocks, and a list of blocks.
        """
        result = BlockText.__new__(BlockText)
        if start == stop == self._length and self._blocks:  # as is usual: only the last block is another
            last = self._blocks[-1] + new
            if len(last) <= (_BLOCK if last.isascii() else _WIDE_BLOCK):
                result._blocks = (*self._blocks[:-1], last)
                result._starts, result._length = self._starts, self._length + len(new)
                return result
        first = max(0, bisect_right(self._starts, start) - 1)
        last_block = bisect_right(self._starts, max(stop - 1, start, 0)) - 1
        before = self._blocks[first][: start - self._starts[first]] if self._blocks else ""
        after = self._blocks[last_block][stop - self._starts[last_block] :] if self._blocks else ""
        middle = before + new + after
        if last_block + 1 < len(self._blocks) and len(middle) < _WIDE_BLOCK // 4:  # keep blocks from becoming tiny
            last_block += 1
            middle += self._blocks[last_block]
        middle_blocks = _cut(middle)
        result._blocks = (*self._blocks[:first], *middle_blocks, *self._blocks[last_block + 1 :])
        result._length = self._length + len(new) - (stop - start)
        begin = self._starts[first] if self._blocks else 0
        starts = self._starts[:first]
        starts += accumulate(map(len, middle_blocks[:-1]), initial=begin) if middle_blocks else ()
        shift = result._length - self._length
        starts += [at + shift for at in self._starts[last_block + 1 :]]
        result._starts = starts
        return result

    def common_prefix(self, other: str) -> int:
        """How many characters this text and ``other`` begin with in common."""
        for start, block in zip(self._starts, self._blocks, strict=True):
            if not other.startswith(block, start):
                return start + _common_prefix(block, other[start : start + len(block)])
        return self._length

    def common_suffix(self, other: str, most: int) -> int:
        """How many characters both end with in common; ``most`` at most."""
        found = 0
        for block in reversed(self._blocks):
            end = len(other) - found
            if found + len(block) > most or not other.endswith(block, 0, end):
                size = min(len(block), most - found)
                part = block[len(block) - size :]
                return found + _common_suffix(part, other[end - size : end])
            found += len(block)
        return found


def _cut(text: str) -> tuple[str, ...]:
    """Blocks of a text."""
    if len(text) <= _WIDE_BLOCK or (len(text) <= _BLOCK and text.isascii()):
        return (text,) if text else ()
    blocks: list[str] = []
    for start in range(0, len(text), _BLOCK):
        block = text[start : start + _BLOCK]
        if block.isascii():
            blocks.append(block)
        else:
            blocks += [block[at : at + _WIDE_BLOCK] for at in range(0, len(block), _WIDE_BLOCK)]
    return tuple(blocks)


def _common_prefix(one: str, other: str) -> int:
    """By halving: strings are compared as a whole, never character by character."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(one: str, other: str) -> int:
    """The same from the right; both have the same length."""
    low, high = 0, len(one)
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
