"""The text of a session: immutable, in blocks, about one byte a character.

A Python string takes one, two or four bytes for each of its characters, whatever its widest character needs, so
that one emoji makes a long text four times as large.  Here every block has a width of its own.  Blocks stand in
chunks, which versions of a text share, so that a change costs what it touches and a list of chunks.  Comparing
with a string goes block by block, at the speed of ``memcmp`` where both are ASCII.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, takewhile
from operator import is_

#: Characters of a block at most, and of one that is not all ASCII (so that few are as wide as the widest).
_BLOCK = 1 << 16
_WIDE_BLOCK = 1 << 11
#: Blocks of a chunk at most.
_CHUNK = 16
#: Bytes that a chunk takes, and one of its blocks, besides the block itself: objects, references, an integer.
_CHUNK_BYTES, _BLOCK_BYTES = 200, 48


class _Chunk:
    """Some blocks in a row, immutable.

    ``starts``: where each begins, counted from the beginning of the chunk, which has ``size`` characters.
    """

    __slots__ = ("blocks", "size", "starts")

    def __init__(self, blocks: Sequence[str]) -> None:
        self.blocks = tuple(blocks)
        *starts, self.size = accumulate(map(len, blocks), initial=0)
        self.starts = tuple(starts)


class BlockText:
    """An immutable text.  ``len``, ``str`` and equality of two of them mean what they mean for strings.

    ``_chunks`` and ``_starts`` (where each begins) hold all but the end, ``_tail``, so that a short append makes
    no block; ``_bytes``: what the blocks take.
    """

    __slots__ = ("_bytes", "_chunks", "_starts", "_tail", "_tail_start")

    def __init__(self, text: str = "") -> None:
        *blocks, tail = _cut(text)
        chunks = _in_chunks(blocks)
        *starts, tail_start = accumulate([chunk.size for chunk in chunks], initial=0)
        self._set(tuple(chunks), tuple(starts), _bytes_of(blocks), tail_start, tail)

    def _set(
        self, chunks: tuple[_Chunk, ...], starts: tuple[int, ...], bytes: int, tail_start: int, tail: str
    ) -> None:
        self._chunks, self._starts, self._bytes = chunks, starts, bytes
        self._tail_start, self._tail = tail_start, tail  # the tail alone may be empty

    def __len__(self) -> int:
        return self._tail_start + len(self._tail)

    def __str__(self) -> str:
        return "".join(self)

    def __iter__(self) -> Iterator[str]:
        """The blocks."""
        return self._from(0)

    def _from(self, number: int) -> Iterator[str]:
        """The blocks of a chunk and of all that follow, and the tail."""
        for chunk in self._chunks[number:]:
            yield from chunk.blocks
        if self._tail:
            yield self._tail

    def _from_end(self) -> Iterator[str]:
        """The blocks, the last one first."""
        if self._tail:
            yield self._tail
        for chunk in reversed(self._chunks):
            yield from reversed(chunk.blocks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockText):
            return NotImplemented
        return self is other or (len(self) == len(other) and str(self) == str(other))

    __hash__ = None  # type: ignore[assignment]  # compared by content, which may be long

    @property
    def nbytes(self) -> int:
        """Bytes that the text occupies, its index included."""
        return self._bytes + _CHUNK_BYTES * (1 + len(self._chunks)) + sys.getsizeof(self._tail)

    def _place(self, position: int) -> tuple[int, int, int]:
        """The block that a position is in: its chunk's number, its own number there, and where it begins.

        The tail is the first block of a chunk behind the last one.
        """
        if position >= self._tail_start:
            return len(self._chunks), 0, self._tail_start
        number = bisect_right(self._starts, position) - 1
        begin, starts = self._starts[number], self._chunks[number].starts
        block = bisect_right(starts, position - begin) - 1
        return number, block, begin + starts[block]

    def _block(self, number: int, block: int) -> str:
        return self._chunks[number].blocks[block] if number < len(self._chunks) else self._tail

    def _between(self, number: int, block: int, last: int, last_block: int) -> Iterator[str]:
        """The blocks from one place on, up to another that is not before it."""
        for at, chunk in enumerate(self._chunks[number : last + 1], number):
            yield from chunk.blocks[block if at == number else 0 : last_block if at == last else _CHUNK]

    def slice(self, start: int, stop: int) -> str:
        """The characters ``start..stop``; the caller keeps both within the text."""
        if start >= stop:
            return ""
        number, at, begin = self._place(start)
        block = self._block(number, at)
        if stop - begin <= len(block):
            return block[start - begin : stop - begin]
        last, last_at, end = self._place(stop - 1)
        between = self._between(number, at + 1, last, last_at)
        return "".join([block[start - begin :], *between, self._block(last, last_at)[: stop - end]])

    def replaced(self, start: int, stop: int, new: str) -> BlockText:
        """The text with ``new`` in place of the characters ``start..stop``.

        Cost: what changes, the chunks that it touches, and a list of chunks.
        """
        count = len(self._chunks)
        number, at, begin = self._place(start)
        if stop >= self._tail_start:
            last, last_at = count, 0
            *fresh, tail = _cut(self.slice(begin, start) + new + self.slice(stop, len(self)))
        else:
            last, last_at, end = self._place(max(stop - 1, start))
            end += len(self._block(last, last_at))
            last_at += 1
            if end - stop + len(new) + start - begin < _WIDE_BLOCK // 4 and end < self._tail_start:
                last, last_at, _ = self._place(end)  # one more, for what is left of them would be tiny
                end += len(self._block(last, last_at))
                last_at += 1
            fresh = [block for block in _cut(self.slice(begin, start) + new + self.slice(stop, end)) if block]
            tail = self._tail
        tail_start = len(self) + len(new) - (stop - start) - len(tail)
        chunks, starts, bytes = self._chunks, self._starts, self._bytes
        if fresh or number < count:
            bytes += _bytes_of(fresh) - _bytes_of([*self._between(number, at, last, last_at)])
            if number == count and count and len(chunks[-1].blocks) < _CHUNK:
                number, at = count - 1, len(chunks[-1].blocks)
            left = chunks[number].blocks[:at] if number < count else ()
            right = chunks[last].blocks[last_at:] if last < count else ()
            made = _in_chunks([*left, *fresh, *right])
            begin = starts[number] if number < count else self._tail_start
            shift = tail_start - self._tail_start
            *begins, _ = accumulate([chunk.size for chunk in made], initial=begin)
            starts = (*starts[:number], *begins, *[place + shift for place in starts[last + 1 :]])
            chunks = (*chunks[:number], *made, *chunks[last + 1 :])
        result = BlockText.__new__(BlockText)
        result._set(chunks, starts, bytes, tail_start, tail)
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


def _in_chunks(blocks: Sequence[str]) -> list[_Chunk]:
    """Chunks of about the same number of blocks."""
    if len(blocks) <= _CHUNK:
        return [_Chunk(blocks)] if blocks else []
    count = -(-len(blocks) // _CHUNK)
    edges = [len(blocks) * number // count for number in range(count + 1)]
    return [_Chunk(blocks[a:b]) for a, b in pairwise(edges)]


def _bytes_of(blocks: Sequence[str]) -> int:
    return sum(map(sys.getsizeof, blocks)) + _BLOCK_BYTES * len(blocks)


def _stands(block: str, text: str, start: int) -> bool:
    """Whether ``block`` stands in ``text`` at ``start``.

    A copy as narrow as the block is made and compared faster than strings of unlike widths are.
    """
    return text.startswith(block, start) if text.isascii() else text[start : start + len(block)] == block


def common_ends(old: BlockText, new: BlockText) -> tuple[int, int]:
    """Characters that two versions of a text are sure to begin and to end with in common; never too many.

    Versions share their chunks and blocks, so that this looks at little more than where they differ.
    """
    alike = sum(takewhile(bool, map(is_, old._chunks, new._chunks)))
    start = old._starts[alike] if alike < len(old._chunks) else old._tail_start
    for one, other in zip(old._from(alike), new._from(alike), strict=False):
        if one is not other:
            start += len(one) if other.startswith(one) else common_prefix(one, other)
            break
        start += len(one)
    most = min(len(old), len(new)) - start
    after = 0
    for one, other in zip(old._from_end(), new._from_end(), strict=False):
        if one is not other or after + len(one) > most:
            size = min(len(one), len(other), most - after)
            return start, after + common_suffix(one[len(one) - size :], other[len(other) - size :])
        after += len(one)
    return start, after


def common_prefix(one: str, other: str) -> int:
    """How many characters two texts have in common at the start.

    By halving: strings are compared as a whole, never character by character.
    """
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(one: str, other: str) -> int:
    """How many characters two texts of the same length have in common at the end."""
    low, high = 0, len(one)
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
