"""Finding certified cuts in a text: the last one before a place in microseconds, or all of them on arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..bpe.hashing import ABSENT, pair_table, single_items
from ..lazy import lazy
from .barriers import CODE_POINT_BITS
from .certificate import ASK, CLOSES, ENDS, RESTARTS, Certificate
from .literals import Continuations, Literals, Splits, beginnings, inner_pairs, lies_across, splits

#: Characters that are looked at one by one before arrays take over, and in the first of these; each next one is
#: as many times longer.
_NEAR, _BLOCK, _GROWTH = 48, 512, 8
_CODE_POINTS = 0x110000
#: The bits of an entry as Python's integers, which are faster one by one.
_RESTARTS, _CLOSES, _ASK, _ENDS = map(int, (RESTARTS, CLOSES, ASK, ENDS))


class Cuts:
    """The certified cuts of texts of one artifact; immutable.

    Write F for the ids of a text before post-processing, and G for those of a continuation (F, but a ``Prepend``
    of the normalizer adds nothing).  A cut p *restarts*: the ids of the text are those left of p followed by
    ``G(text[p:])``, whatever is appended later; and the ids left of p depend on nothing right of p but
    ``text[p]``.  Where it *closes*, too, they are ``F(text[:p])``.

    ``ends``: added tokens behind which a text is cut, too; they must be sure to be found
    (:meth:`~toktier.certificates.literals.Literals.sure`).  ``refusal`` says why no cut is certified, or is None.
    """

    def __init__(self, certificate: Certificate, literals: Literals, ends: tuple[str, ...] = ()) -> None:
        self._ends = frozenset(ends)
        self._end_lengths = sorted(set(map(len, ends)))
        self._end_tails = frozenset(end[-2:] for end in ends)
        self.refusal = certificate.refusal
        self._certificate = certificate
        self._literals = literals
        self._table = certificate.table.tobytes()
        self._flat = certificate.table.ravel()
        self._count = len(certificate.table)
        self._class_of = certificate.class_of
        self._classes = single_items(certificate.class_of)
        self._ascii = certificate.class_of[:256].tobytes().ljust(256, b"\0")

    def with_token_ends(self) -> Cuts:
        """These and the ends of the added tokens that are sure to be found."""
        return Cuts(self._certificate, self._literals, self._literals.sure())

    def last(self, text: str, low: int, high: int, closes: bool = False) -> int | None:
        """The last certified cut p with ``low < p < high``, or None."""
        return next(self.backwards(text, low, high, closes), None)

    def backwards(self, text: str, low: int, high: int, closes: bool = False) -> Iterator[int]:
        """The certified cuts p with ``low < p < high``, the last one first."""
        if self.refusal is not None:
            return
        low, place = max(low, 0), min(high, len(text)) - 1
        bit = self._bits(closes)
        table, count, class_ = self._table, self._count, self._class
        stop = max(low, place - _NEAR)
        if place > stop:
            behind = class_(text[place])
            while place > stop:
                before = class_(text[place - 1])
                entry = table[before * count + behind]
                if entry & bit and self._is_cut(text, place, entry, bit):
                    yield place
                behind = before
                place -= 1
        block = _BLOCK
        while place > low:
            start = max(low, place - block)
            for found in reversed(self._places(text, start, place + 1, bit)):
                if self._is_cut(text, found, self._entry(text, found), bit):
                    yield found
            place, block = start, block * _GROWTH

    def first(self, text: str, low: int, high: int, closes: bool = False) -> int | None:
        """The first certified cut p with ``low < p < high``, or None."""
        if self.refusal is not None:
            return None
        low, high = max(low, 0), min(high, len(text))
        bit, block = self._bits(closes), _NEAR
        while low + 1 < high:
            stop = min(high, low + block + 1)
            for found in self._places(text, low, stop, bit):
                if self._is_cut(text, found, self._entry(text, found), bit):
                    return found
            low, block = stop - 1, block * _GROWTH
        return None

    def near(self, text: str, place: int, low: int, high: int) -> int | None:
        """A cut p that closes, with ``low < p < high``: the last before ``place`` or the first behind it."""
        found = self.last(text, max(low, place - _BLOCK), min(place, high), True)
        if found is None:
            found = self.first(text, max(low, place - 1), high, True)
        return self.last(text, low, min(place, high), True) if found is None else found

    def parts(self, text: str, size: int) -> list[int]:
        """Where to cut a text into parts of about ``size`` characters, at cuts that close; with its two ends."""
        edges = [0]
        while len(text) - edges[-1] > size + size // 4:
            found = self.near(text, edges[-1] + size, edges[-1], len(text))
            if found is None:
                break
            edges.append(found)
        return [*edges, len(text)]

    def all(self, text: str, closes: bool = False) -> NDArray[np.int64]:
        """All certified cuts, int64, ascending."""
        if self.refusal is not None or len(text) < 2:
            return np.empty(0, np.int64)
        bit = self._bits(closes)
        points = None if text.isascii() else _points(text)
        entries = self._entries(text, points)
        found = np.flatnonzero(entries & np.uint8(bit))
        entries = entries.take(found)
        found += 1
        unsure = np.flatnonzero(entries & np.uint8(_ASK | bit & _ENDS))
        if not len(unsure):
            return found
        kept = np.ones(len(found), np.bool_)
        places, entries = found.take(unsure), entries.take(unsure)
        holds, asked = self._sieve.sift(_points(text) if points is None else points, places, entries, bit)
        one_by_one = zip(places[asked].tolist(), entries[asked].tolist(), strict=True)
        holds[asked] = [self._is_cut(text, place, entry, bit) for place, entry in one_by_one]
        kept[unsure] = holds
        return found[kept]

    def is_closing(self, text: str, cut: int) -> bool:
        """Whether a certified cut closes."""
        return bool(self._entry(text, cut) & _CLOSES) or self._token_ends(text, cut)

    @lazy
    def longest_literal(self) -> int:
        """The length of the longest added token, in characters."""
        return max((len(token.content) for token in self._literals.given), default=0)

    # --- one place ----------------------------------------------------------------------------

    def _class(self, char: str) -> int:
        code = ord(char)
        return self._ascii[code] if code < 0x80 else self._classes[code]

    def _entry(self, text: str, place: int) -> int:
        return self._table[self._class(text[place - 1]) * self._count + self._class(text[place])]

    def _bits(self, closes: bool) -> int:
        """Those of an entry that make a place worth a look."""
        return (_CLOSES if closes else _RESTARTS) | (_ENDS if self._ends else 0)

    def _is_cut(self, text: str, place: int, entry: int, bits: int) -> bool:
        """Whether a place with an entry that has some of ``bits`` is certified."""
        if entry & bits & ~_ENDS and (not entry & _ASK or self._holds(text, place, entry)):
            return True
        return bool(entry & bits & _ENDS) and self._token_ends(text, place)

    def _token_ends(self, text: str, place: int) -> bool:
        if text[max(0, place - 2) : place] not in self._end_tails and text[place - 1] not in self._end_tails:
            return False
        lengths = (length for length in self._end_lengths if length <= place)
        return any(text[place - length : place] in self._ends for length in lengths)

    def _holds(self, text: str, place: int, entry: int) -> bool:
        """What the classes at ``place``, whose entry of the table is given, leave open."""
        pair = text[place - 1 : place + 1]
        before, behind = map(ord, pair)
        if self._mapped:
            before, behind = self._mapped.get(before, before), self._mapped.get(behind, behind)
        if self._adjacent is not None and before << CODE_POINT_BITS | behind in self._adjacent:
            return False
        if chr(before) + chr(behind) in self._blocked:
            return False
        if not entry & _CLOSES and self._token_behind(text, place, chr(behind)):
            return False
        if self._certificate.prefix and self._token_before(text, place, chr(before)):
            return False
        parts = self._splits.get(pair)
        return parts is None or not lies_across(text, place, parts)

    def _token_behind(self, text: str, place: int, normal: str) -> bool:
        """Whether an added token begins at ``place``, or may; ``normal``: the normalized character there."""
        given = self._first_given.get(text[place])
        return normal in self._first_normalized or (given is not None and given.follow(text, place))

    def _token_before(self, text: str, place: int, normal: str) -> bool:
        """Whether an added token ends at ``place``, or may; ``normal``: the normalized character before it."""
        return normal in self._last_normalized or text.endswith(self._contents, 0, place)

    @lazy
    def _contents(self) -> tuple[str, ...]:
        return tuple(token.content for token in self._literals.given)

    @lazy
    def _last_normalized(self) -> frozenset[str]:
        return frozenset(token.content[-1] for token in self._literals.normalized)

    @lazy
    def _first_given(self) -> dict[str, Continuations]:
        return beginnings(self._literals.given)

    @lazy
    def _first_normalized(self) -> frozenset[str]:
        return frozenset(beginnings(self._literals.normalized))

    @lazy
    def _splits(self) -> dict[str, Splits]:
        return splits(self._literals.given)

    @lazy
    def _blocked(self) -> frozenset[str]:
        return inner_pairs(self._literals.normalized)

    @lazy
    def _mapped(self) -> dict[int, int]:
        return dict(self._certificate.mapped.tolist())

    @lazy
    def _adjacent(self) -> frozenset[int] | None:
        pairs = self._certificate.adjacent
        return frozenset(pairs.tolist()) if len(pairs) else None

    # --- many places --------------------------------------------------------------------------

    @lazy
    def _sieve(self) -> _Sieve:
        return _Sieve(self._certificate, self._literals, self._ends)

    def _entries(self, text: str, points: NDArray[np.uint32] | None) -> NDArray[np.uint8]:
        """The table's entries for all neighbours in ``text``; ``points``: its code points, if it is not ASCII."""
        if points is None:
            classes = np.frombuffer(text.encode("ascii").translate(self._ascii), np.uint8)
        else:
            classes = self._class_of.take(points, mode="clip")
        pairs = classes[:-1] * np.uint16(self._count)
        pairs += classes[1:]
        return self._flat.take(pairs, mode="clip")

    def _places(self, text: str, low: int, high: int, bit: int) -> list[int]:
        """Places p with ``low < p < high`` whose classes allow a cut, or may."""
        part = text[low:high]
        entries = self._entries(part, None if part.isascii() else _points(part))
        places: list[int] = (np.flatnonzero(entries & np.uint8(bit)) + low + 1).tolist()
        return places


def _points(text: str) -> NDArray[np.uint32]:
    """Code points."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


# What a character may be a part of, as bits; those for the right one of two are twice those for the left one.
_ADJACENT, _BLOCKED, _LITERAL, _LAST = np.array((1, 4, 16, 32), np.uint8)
#: As many characters before a place are looked at for an added token that lies across it.
_BACK = 5
_POINT = np.uint64((1 << CODE_POINT_BITS) - 1)


class _Sieve:
    """Decides about many places by the two characters there, as far as these are enough.

    Of most places one of the two says that nothing is to be feared; the pairs of the others are looked up.
    """

    def __init__(self, certificate: Certificate, literals: Literals, ends: Collection[str]) -> None:
        self._mapped = certificate.mapped
        left = (certificate.adjacent >> np.uint64(CODE_POINT_BITS)).astype(np.uint32)
        right = (certificate.adjacent & _POINT).astype(np.uint32)
        self._adjacent = _PairSet(left, right)
        contents = [token.content for token in literals.given]
        # a token's characters up to the one behind the place: all, if few stand before it, or the last of them
        self._begun = [_CodeSet({c[: n + 1] for c in contents if len(c) > n}) for n in range(1, _BACK)]
        self._inner = _pair_set(inner_pairs(literals.given))
        self._under_way = _CodeSet({c[i : i + _BACK + 1] for c in contents for i in range(len(c) - _BACK)})
        blocked = inner_pairs(literals.normalized)
        self._blocked = _pair_set(blocked)

        self._flags = flags = np.zeros(_CODE_POINTS, np.uint8)
        flags[left] |= _ADJACENT
        flags[right] |= 2 * _ADJACENT
        flags[[ord(pair[0]) for pair in blocked]] |= _BLOCKED
        flags[[ord(pair[1]) for pair in blocked]] |= 2 * _BLOCKED
        for code, normal in self._mapped.tolist():
            flags[code] = flags[normal]
        flags[[*map(ord, {char for content in contents for char in content})]] |= _LITERAL
        self._ended = []
        if certificate.prefix:
            flags[[*map(ord, {token.content[-1] for token in literals.normalized})]] |= _LAST
            self._ended = _endings(contents)
        self._ends = _endings(ends)

    def sift(
        self, points: NDArray[np.uint32], places: NDArray[np.int64], entries: NDArray[np.uint8], bits: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which places of a text certainly hold, and which need a look at what lies around them."""
        before, behind = points.take(places - 1), points.take(places)
        flags, right = self._flags.take(before, mode="clip"), self._flags.take(behind, mode="clip")
        flags &= right >> 1 & (_ADJACENT | _BLOCKED) | (_LITERAL if self._ended else right & _LITERAL) | _LAST
        holds = entries & np.uint8(bits) & ~ENDS != 0
        asked = (entries & CLOSES == 0) & (entries & RESTARTS != 0)  # an added token behind may matter
        asked |= flags & _LAST != 0
        literal = np.flatnonzero(flags & _LITERAL)
        if len(literal):
            if self._ended:
                asked[literal[_ends_with(self._ended, _window(points, places[literal], 3))]] = True
            inner = literal[self._inner.has(before[literal], behind[literal])]
            # one lies across that has begun a few characters before the place, or is farther under way
            window = [*_window(points, places[inner], _BACK), behind[inner]]
            across = self._under_way.has(*window)
            for size, begun in enumerate(self._begun, 2):
                across |= begun.has(*window[-size:])
            asked[inner[across]] = True
        suspect = np.flatnonzero(flags & (_ADJACENT | _BLOCKED))
        if len(suspect):
            before, behind = before[suspect], behind[suspect]
            for code, normal in self._mapped.tolist():
                before[before == code] = normal
                behind[behind == code] = normal
            asked[suspect[self._blocked.has(before, behind)]] = True
            holds[suspect[self._adjacent.has(before, behind)]] = False
        asked &= holds
        end = np.flatnonzero(entries & np.uint8(bits) & ENDS)
        if len(end):
            asked[end[_ends_with(self._ends, _window(points, places[end], 3))]] = True
        return holds, asked


def _window(points: NDArray[np.uint32], places: NDArray[np.int64], size: int) -> list[NDArray[np.uint32]]:
    """The ``size`` characters before each place, the farthest first; the text's first where there are fewer."""
    return [points.take(np.maximum(places - back, 0)) for back in range(size, 0, -1)]


def _pair_set(pairs: Iterable[str]) -> _PairSet:
    codes = np.array([[*map(ord, pair)] for pair in pairs], np.uint32).reshape(-1, 2)
    return _PairSet(codes[:, 0], codes[:, 1])


def _endings(contents: Collection[str]) -> list[_CodeSet]:
    """Their last characters: one, if that is all, or two, or three."""
    return [_CodeSet({c[-n:] for c in contents if len(c) >= n and n in (3, len(c))}) for n in (1, 2, 3)]


def _ends_with(endings: list[_CodeSet], characters: Sequence[NDArray[np.uint32]]) -> NDArray[np.bool_]:
    """Whether one of :func:`_endings` stands in the last of three characters."""
    found = np.zeros(len(characters[0]), np.bool_)
    for size, ending in enumerate(endings, 1):
        found |= ending.has(*characters[-size:])
    return found


class _PairSet:
    """A set of pairs of characters that is asked about many at once: a matrix of bits.

    Only characters of some pair have a row or a column: 4,068 and 4,612 in Gemma 3, which makes 2.4 MB.
    """

    #: Bits of the largest matrix; beyond it pairs are looked up in a hash table, which takes three times as long.
    _MOST = 1 << 27

    def __init__(self, left: NDArray[np.uint32], right: NDArray[np.uint32]) -> None:
        rows, columns = (np.flatnonzero(np.bincount(side)) for side in (left, right))
        self._width = len(columns) + 1
        self._table = None
        if (len(rows) + 1) * self._width > self._MOST:
            self._table = pair_table(left, right, _CODE_POINTS)
            return
        number = np.min_scalar_type(max(len(rows), len(columns)))
        self._row, self._column = np.zeros((2, _CODE_POINTS), number)  # 0: in no pair
        self._row[rows] = np.arange(1, len(rows) + 1)
        self._column[columns] = np.arange(1, self._width)
        bits = np.zeros((len(rows) + 1) * self._width, np.bool_)
        bits[self._row[left].astype(np.uint32) * self._width + self._column[right]] = True
        self._bits = np.packbits(bits, bitorder="little")

    def has(self, left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Whether each pair is in the set."""
        if self._width == 1:
            return np.zeros(len(left), np.bool_)
        if self._table is not None:
            absent: NDArray[np.bool_] = self._table.find(left, right) == ABSENT
            return ~absent
        place = self._row.take(left, mode="clip").astype(np.uint32)
        place *= np.uint32(self._width)
        place += self._column.take(right, mode="clip")
        bits = self._bits.take(place >> 3, mode="clip") >> (place.astype(np.uint8) & 7) & 1
        found: NDArray[np.bool_] = bits.view(np.bool_)
        return found


class _CodeSet:
    """A set of short strings, all of one length, that is asked about many at once.

    Strings of more than three characters may be taken for others, now and then.
    """

    _BITS = 20

    def __init__(self, strings: Collection[str]) -> None:
        size = max(map(len, strings), default=0)
        joined = np.array([*map(ord, "".join(strings))], np.uint32).reshape(len(strings), size)
        self._codes = np.sort(_packed(joined.T)) if size else np.empty(0, np.int64)
        self._maybe = np.zeros(1 << self._BITS, np.bool_)
        self._maybe[self._hash(self._codes)] = True

    def _hash(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        mixed: NDArray[np.int64] = (codes ^ codes >> 15 ^ codes >> 31) & np.int64((1 << self._BITS) - 1)
        return mixed

    def has(self, *characters: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Whether strings, given by their first code points, their second and so on, are in the set."""
        if not len(self._codes):
            return np.zeros(len(characters[0]), np.bool_)
        codes = _packed(characters)
        found = self._maybe[self._hash(codes)]
        likely = np.flatnonzero(found)
        place = np.searchsorted(self._codes, codes[likely])
        found[likely] = self._codes.take(place, mode="clip") == codes[likely]
        return found


def _packed(characters: Iterable[NDArray[np.uint32]]) -> NDArray[np.int64]:
    """Strings as one number each."""
    first, *others = characters
    codes = first.astype(np.int64)
    for other in others:
        codes = codes << CODE_POINT_BITS ^ codes >> 2 * CODE_POINT_BITS ^ other
    return codes
