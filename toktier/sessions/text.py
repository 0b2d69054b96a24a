"""The text of a session: immutable, in blocks, about one byte a character.

A Python string takes one, two or four bytes for each of its characters, whatever its widest character needs, so
that one emoji makes a long text four times as large.  Here every block has a width of its own.  Blocks are shared
between versions of a text, and comparing with a string goes block by block, at the speed of ``memcmp`` where both
are ASCII.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from operator import is_

#: Characters of a block at most, and of one that is not all ASCII (so that few are as wide as the widest).
_BLOCK = 1 << 16
_WIDE_BLOCK = 1 << 11


class BlockText:
    """An immutable text.  ``len``, ``str`` and equality of two of them mean what they mean for strings.

    ``_blocks`` and ``_starts`` (where each begins) grow at their ends and are shared between versions: a version
    is the first ``_count`` of them, ``_bytes`` in all, and ``_tail``.  So appending never touches what lies
    before, which would have to be fetched from memory for it.
    """

    __slots__ = ("_blocks", "_bytes", "_count", "_starts", "_tail", "_tail_start")

    def __init__(self, text: str = "") -> None:
        *full, tail = _cut(text)
        *starts, tail_start = accumulate(map(len, full), initial=0)
        self._set(full, starts, len(full), _bytes_of(full), tail_start, tail)

    def _set(
        self, blocks: list[str], starts: list[int], count: int, bytes: int, tail_start: int, tail: str
    ) -> None:
        self._blocks, self._starts, self._count, self._bytes = blocks, starts, count, bytes
        self._tail_start, self._tail = tail_start, tail  # the tail alone may be empty

    def __len__(self) -> int:
        return self._tail_start + len(self._tail)

    def __str__(self) -> str:
        return "".join(self)

    def __iter__(self) -> Iterator[str]:
        """The blocks."""
        yield from islice(self._blocks, self._count)
        if self._tail:
            yield self._tail

    def _from_end(self) -> Iterator[str]:
        """The blocks, the last one first."""
        if self._tail:
            yield self._tail
        yield from map(self._blocks.__getitem__, range(self._count - 1, -1, -1))

    def _block(self, number: int) -> str:
        """A block; the tail behind the last one."""
        return self._blocks[number] if number < self._count else self._tail

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockText):
            return NotImplemented
        return self is other or (len(self) == len(other) and str(self) == str(other))

    __hash__ = None  # type: ignore[assignment]  # compared by content, which may be long

    @property
    def nbytes(self) -> int:
        """Bytes that the text occupies, its index included."""
        index = sys.getsizeof(self._blocks) + sys.getsizeof(self._starts) + sys.getsizeof(0) * self._count
        return self._bytes + sys.getsizeof(self._tail) + index

    def slice(self, start: int, stop: int) -> str:
        """The characters ``start..stop``; the caller keeps both within the text."""
        if start >= stop:
            return ""
        if start >= self._tail_start:
            return self._tail[start - self._tail_start : stop - self._tail_start]
        first = bisect_right(self._starts, start, 0, self._count) - 1
        offset = self._starts[first]
        block = self._blocks[first]
        if stop - offset <= len(block):
            return block[start - offset : stop - offset]
        last = bisect_right(self._starts, stop - 1, 0, self._count)
        parts = [
            block[start - offset :],
            *self._blocks[first + 1 : last],
            self._tail[: max(0, stop - self._tail_start)],
        ]
        if stop <= self._tail_start:
            parts[-2] = parts[-2][: stop - self._starts[last - 1]]
        return "".join(parts)

    def replaced(self, start: int, stop: int, new: str) -> BlockText:
        """The text with ``new`` in place of the characters ``start..stop``.

        Cost: what changes and the blocks that it touches, if it reaches to the end; else a list of blocks, too.
        """
        before = bisect_right(self._starts, start, 0, self._count) - 1 if start < self._tail_start else self._count
        begin = self._starts[before] if before < self._count else self._tail_start
        if stop >= self._tail_start:
            return self._ended(before, self.slice(begin, start) + new + self.slice(stop, len(self)))
        # the blocks that are touched, and one more if what is left of them would be tiny
        last = bisect_right(self._starts, max(stop - 1, start), 0, self._count) - 1
        end = self._end(last)
        if end - stop + len(new) + start - begin < _WIDE_BLOCK // 4 and last + 1 < self._count:
            last += 1
            end = self._end(last)
        middle = [block for block in _cut(self.slice(begin, start) + new + self.slice(stop, end)) if block]
        shift = len(new) - (stop - start)
        starts = self._starts[:before]
        starts += accumulate(map(len, middle[:-1]), initial=begin) if middle else ()
        starts += [at + shift for at in self._starts[last + 1 : self._count]]
        bytes = self._bytes - _bytes_of(self._blocks[before : last + 1]) + _bytes_of(middle)
        blocks = [*self._blocks[:before], *middle, *self._blocks[last + 1 : self._count]]
        result = BlockText.__new__(BlockText)
        result._set(blocks, starts, len(blocks), bytes, self._tail_start + shift, self._tail)
        return result

    def _end(self, number: int) -> int:
        """Where a block ends."""
        return self._starts[number + 1] if number + 1 < self._count else self._tail_start

    def _ended(self, count: int, tail: str) -> BlockText:
        """The first ``count`` blocks, and after them ``tail``."""
        blocks, starts = self._blocks, self._starts
        bytes = self._bytes - _bytes_of(islice(blocks, count, self._count))
        begin = self._tail_start if count == self._count else starts[count]
        if len(tail) > (_BLOCK if tail.isascii() else _WIDE_BLOCK):
            *full, tail = _cut(tail)
            for block in full:
                # what another version has put there is not touched
                if len(blocks) != count or len(starts) != count:
                    blocks, starts = blocks[:count], starts[:count]
                starts.append(begin)
                blocks.append(block)
                if starts[count] != begin or blocks[count] is not block:  # another thread was faster
                    blocks, starts = [*blocks[:count], block], [*starts[:count], begin]
                count, begin = count + 1, begin + len(block)
            bytes += _bytes_of(full)
        result = BlockText.__new__(BlockText)
        result._set(blocks, starts, count, bytes, begin, tail)
        return result

    def common_prefix(self, other: str) -> int:
        """How many characters this text and ``other`` begin with in common."""
        start = 0
        for block in self:
            if not _stands(block, other, start):
                return start + common_prefix(block, other[start : start + len(block)])
            start += len(block)
        return start

    def common_suffix(self, other: str, most: int) -> int:
        """How many characters both end with in common; ``most`` at most."""
        found = 0
        for block in self._from_end():
            end = len(other) - found
            if found + len(block) > most or not _stands(block, other, end - len(block)):
                size = min(len(block), most - found)
                part = block[len(block) - size :]
                return found + common_suffix(part, other[end - size : end])
            found += len(block)
        return found


def _cut(text: str) -> list[str]:
    """Blocks of a text, at least one."""
    if len(text) <= _WIDE_BLOCK or (len(text) <= _BLOCK and text.isascii()):
        return [text]
    blocks: list[str] = []
    for start in range(0, len(text), _BLOCK):
        block = text[start : start + _BLOCK]
        if block.isascii():
            blocks.append(block)
        else:
            blocks += [block[at : at + _WIDE_BLOCK] for at in range(0, len(block), _WIDE_BLOCK)]
    return blocks


def _bytes_of(blocks: Iterable[str]) -> int:
    return sum(map(sys.getsizeof, blocks))


def _stands(block: str, text: str, start: int) -> bool:
    """Whether ``block`` stands in ``text`` at ``start``.

    A copy as narrow as the block is made and compared faster than strings of unlike widths are.
    """
    return text.startswith(block, start) if text.isascii() else text[start : start + len(block)] == block


def common_ends(old: BlockText, new: BlockText) -> tuple[int, int]:
    """Characters that two versions of a text are sure to begin and to end with in common; never too many.

    Versions share their blocks, so that this looks at little more than where they differ.
    """
    count = min(old._count, new._count)
    if old._blocks is not new._blocks:  # else the one is a continuation of the other, block for block
        alike = map(is_, islice(old._blocks, count), new._blocks)
        count = next((number for number, same in enumerate(alike) if not same), count)
    one, other = old._block(count), new._block(count)
    start = old._starts[count] if count < old._count else old._tail_start
    start += len(one) if other.startswith(one) else common_prefix(one, other)
    most = min(len(old), len(new)) - start
    after = 0
    for one, other in zip(old._from_end(), new._from_end(), strict=False):
        if one is not other or after + len(one) > most:
            size = min(len(one), len(other), most - after)
            return start, after + common_suffix(one[len(one) - size :], other[len(other) - size :])
        after += len(one)
    return start, after


def common_prefix(one: str, other: str) -> int:
    """By halving: strings are compared as a whole, never character by character."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(one: str, other: str) -> int:
    """The same from the right; both have the same length."""
    low, high = 0, len(one)
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
