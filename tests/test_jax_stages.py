"""Each stage of the ``jax`` backend against its twin in numpy."""

from __future__ import annotations

from dataclasses import astuple
from functools import cache, partial
from typing import Any

import adversarial
import numpy as np
import pytest
from judge import engine
from unoptimized import UNOPTIMIZED, jax

from toktier.backends.jax import assembling, bits, forms, merging, pieces, symbols, utf8
from toktier.backends.jax.tables import NO_RANK, device_tables, find_ranks
from toktier.bpe import batch
from toktier.bpe.tables import short_keys
from toktier.normalization import inert_table
from toktier.segments import PreparedText

jit = partial(jax.jit, compiler_options=UNOPTIMIZED)


@pytest.mark.parametrize("density", [0.0, 0.01, 0.3, 0.97, 1.0])
@pytest.mark.parametrize("size", [pytest.param(32, marks=pytest.mark.campaign), 2048])
def test_bits(density: float, size: int) -> None:
    random = np.random.default_rng(size)
    marks = random.random(size) < density
    places = np.flatnonzero(marks)
    numbers = np.arange(size, dtype=np.int32)

    def run(marks: Any) -> Any:
        found = bits.bits(marks)
        last, first = bits.last_at(found.words, numbers), bits.first_after(found.words, numbers)
        return found.count, found.select(numbers), last, first

    count, selected, last, first = jit(run)(marks)
    assert int(count) == len(places)
    assert (np.asarray(selected) == np.append(places, np.full(size - len(places), size))).all()
    before = np.searchsorted(places, numbers, side="right")
    assert (np.asarray(last) == np.append(-1, places)[before]).all()
    assert (np.asarray(first) == np.append(places, size)[before]).all()


@pytest.mark.parametrize("density", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_first_of_stretches(density: float) -> None:
    random = np.random.default_rng(1)
    size = 4096
    marks, cuts = random.random(size) < density, random.random(size) < 0.05
    expected = np.zeros(size, np.bool_)
    seen = False
    for place in range(size):
        seen &= not cuts[place]
        expected[place] = marks[place] and not seen
        seen |= marks[place]

    def run(marks: Any, cuts: Any) -> Any:
        return bits.unpack(bits.first_of_stretches(bits.pack(marks), bits.pack(cuts)))

    assert (np.asarray(jit(run)(marks, cuts)) == expected).all()


@pytest.mark.parametrize("density", [0.02, 0.5, 0.9, 0.999])
def test_floods(density: float) -> None:
    random = np.random.default_rng(4)
    through = random.random((2, 2048)) < density
    marks = through & (random.random(through.shape) < 0.05)
    forth, back = marks.copy(), marks.copy()
    for place in range(1, 2048):
        forth[:, place] |= forth[:, place - 1] & through[:, place]
        back[:, -1 - place] |= back[:, -place] & through[:, -1 - place]

    def run(marks: Any, through: Any) -> Any:
        packed = [jax.numpy.stack([bits.pack(row) for row in rows]) for rows in (marks, through)]
        first, second = zip(*packed, strict=True)
        return [bits.unpack(words.ravel()) for words in bits.floods([tuple(packed), second], [first, second])]

    found = [np.asarray(flooded) for flooded in jit(run)(marks, through)]
    assert (found[0] == forth.ravel()).all() and (found[1] == forth[1]).all()
    assert (found[2] == back[0]).all() and (found[3] == back[1]).all()


@pytest.mark.parametrize("density", [0.0, 0.01, 0.5])
def test_parity_and_earlier(density: float) -> None:
    marks = np.random.default_rng(5).random((2, 1024)) < density
    distances = (1, 3, 31)

    def run(marks: Any) -> Any:
        rows = jax.numpy.stack([bits.pack(row) for row in marks])
        found = [bits.parity(rows), *(bits.earlier(rows, distance) for distance in distances)]
        return [bits.unpack(words.ravel()).reshape(marks.shape) for words in found]

    odd, *moved = map(np.asarray, jit(run)(marks))
    assert (odd == np.cumsum(marks, axis=1) % 2).all()
    for distance, found in zip(distances, moved, strict=True):
        assert (found == np.pad(marks, ((0, 0), (distance, 0)))[:, :-distance]).all()


# --- ids in place of others ---------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_ids_in_place_of_others(seed: int) -> None:
    random = np.random.default_rng(seed)
    ids = random.integers(0, 9, 60).astype(np.int32)
    edges = np.sort(random.choice(61, 8, replace=False)).reshape(-1, 2)
    fresh = [random.integers(100, 109, random.integers(0, 5)).astype(np.uint32) for _ in edges]
    inside = np.flatnonzero(random.random(60) < 0.3)
    singles = np.column_stack((inside, inside + 1))
    own = [np.full(random.integers(0, 3), 200 + i, np.int32) for i in range(len(inside))]
    spans, other = assembling.combined(edges, fresh, singles, own)
    expected, places = [], {}
    at = 0
    while at < 60:
        if at in edges[:, 0]:
            number = edges[:, 0].tolist().index(at)
            expected += fresh[number].tolist()
            at = int(edges[number, 1])
        elif at in inside:
            expected += own[inside.tolist().index(at)].tolist()
            at += 1
        else:
            places[at] = len(expected)
            expected.append(int(ids[at]))
            at += 1
    assert assembling.replaced(ids, spans, other).tolist() == expected
    assert assembling.moved(np.array([*places]), spans, other).tolist() == [*places.values()]


def test_positions() -> None:
    """Bytes and characters, where added tokens of several characters are one byte."""
    text = "a\u00e9<|x|>\u4e2d\u6587<y>\U0001f600z"
    starts, stops = np.array([2, 9]), np.array([7, 12])
    prepared = PreparedText(text, starts, stops, np.array([1, 2], np.uint32), True)
    data = b"a\xc3\xa9\xff" + "\u4e2d\u6587".encode() + b"\xff" + "\U0001f600z".encode()
    positions = assembling.Positions(data, prepared)
    characters = np.array([0, 1, 2, 7, 8, 9, 12, 13, 14])
    places = np.array([0, 1, 3, 4, 7, 10, 11, 15, 16])
    assert positions.characters(places).tolist() == characters.tolist()
    assert positions.bytes(characters).tolist() == places.tolist()


@pytest.mark.parametrize("form", ["NFC", "NFKD"])
def test_active_characters(form: str) -> None:
    inert = inert_table(form)
    data = padded(texts(), 1 << 15)
    found = jit(lambda data, table: forms.active(utf8.decode(data), table))(data, forms.active_table(inert))
    expected = ~inert[[*map(ord, texts())]]
    first = (data & 0xC0 != 0x80) & (data != utf8.PADDING)
    assert np.asarray(found)[first].tolist() == expected.tolist() and expected.any()
    assert not np.asarray(found)[~first].any()


# --- from bytes to symbols ---------------------------------------------------------------


def padded(text: str, size: int) -> np.ndarray:
    data = text.encode()
    return np.frombuffer(data.ljust(size, b"\xfe"), np.uint8)


@cache
def texts() -> str:
    return "".join(adversarial.battery((), 31, 400))[:5_000]


def test_utf8() -> None:
    text = texts()
    size = 1 << 15
    data = padded(text, size)
    found = jit(lambda data: astuple(utf8.decode(data)))(data)
    first, point, length = map(np.asarray, found)
    at = np.flatnonzero(first & (data != utf8.PADDING))
    assert point[at].tolist() == [ord(character) for character in text]
    assert length[at].tolist() == [len(character.encode()) for character in text]
    assert np.cumsum(length[at]).tolist() == [*at[1:].tolist(), len(text.encode())]


def test_stream_of_first_symbols() -> None:
    """Pieces whose first symbols are bytes, whole characters, or some of both."""
    tok = engine("gpt2")
    starts = tok.piece_starts(texts(), backend="numpy")[1]
    bounds = [len(texts()[:start].encode()) for start in starts.tolist()]
    size = 1 << 15
    data = padded(texts(), size)
    begins = np.zeros(size, np.bool_)
    begins[bounds] = True
    first = tok._pieces.tables.first
    expected, where = first.of(texts().encode(), np.array(bounds))

    def run(data: Any, begins: Any, tables: Any) -> Any:
        found = symbols.stream(data, utf8.decode(data), begins, size // 8, tables)
        return found.symbols, found.at, found.marks.rank(np.array(bounds))

    found, at, ranks = map(np.asarray, jit(run)(data, begins, symbols.symbol_tables(first)))
    assert found[: len(expected)].tolist() == expected.tolist()
    assert ranks.tolist() == where.tolist()
    assert at[ranks].tolist() == bounds


@pytest.mark.parametrize("name", ["gpt2", "gpt-oss"])
def test_whole_pieces(name: str) -> None:
    """Tokens, tokens with a byte more, less, or changed, and NULs at the end."""
    tok = engine(name)
    tokens = tok._compiled.tokens
    blob = tokens.blob.tobytes()
    ids = np.random.default_rng(2).choice(np.flatnonzero(np.diff(tokens.offsets)), 700)
    words = [blob[tokens.offsets[id] : tokens.offsets[id + 1]] for id in ids.tolist()]
    words += [word[:-1] + bytes([word[-1] ^ 1]) for word in words] + [word + b"\0" for word in words]
    words += [word[:-1] for word in words if len(word) > 1]
    lengths = np.array([*map(len, words)], np.int64)
    starts = np.cumsum(lengths) - lengths
    data = np.frombuffer(b"".join(words) + bytes(16), np.uint8)
    tables = tok._pieces.tables
    expected = tables.whole.find(*short_keys(data, starts, np.minimum(lengths, 15))).astype(np.int32)
    expected[lengths > 15] = -1
    for i in np.flatnonzero(lengths > 15).tolist():  # their keys may be those of others
        if any(token[:16] == words[i][:16] and len(token) == len(words[i]) for token in tables.whole_long):
            expected[i] = pieces.LONG
    find = jit(lambda data, *rest: pieces.find_whole(pieces.words_of(data), *rest))
    found = find(data, starts.astype(np.int32), lengths.astype(np.int32), pieces.whole_tables(tables))
    assert np.asarray(found).tolist() == expected.tolist()
    assert (expected >= 0).sum() > 500


@pytest.mark.parametrize("name", ["gpt2", "gpt-oss"])
def test_merging(name: str) -> None:
    """Words of two tokens, and runs of a byte."""
    tok = engine(name)
    tokens, tables = tok._compiled.tokens, tok._pieces.tables
    blob = tokens.blob.tobytes()
    random = np.random.default_rng(3)
    pairs = random.integers(0, len(tokens.present), (300, 2)).tolist()
    words = [b"".join(blob[tokens.offsets[id] : tokens.offsets[id + 1]] for id in pair) for pair in pairs]
    words = [word[:24] for word in words if word] + [bytes([random.integers(256)]) * n for n in range(1, 25)]
    lengths = np.array([*map(len, words)])
    rows = np.zeros((len(words), 24), np.int32)
    for row, word in zip(rows, words, strict=True):
        row[: len(word)] = tables.first.of_byte[list(word)]
    found, counts = jit(merging.merge_words)(rows, lengths.astype(np.int32), device_tables(tables.merges))
    flat = tables.first.of_byte[np.frombuffer(b"".join(words), np.uint8)]
    starts = np.cumsum(lengths) - lengths
    merged, first = batch.merge_words(flat, starts, tables.merges)
    expected = np.split(merged, batch.word_bounds(first, starts)[1:-1])
    for row, count, word in zip(np.asarray(found), np.asarray(counts), expected, strict=True):
        assert row[:count].tolist() == word.tolist()


def test_cuckoo_tables_hold_every_rule() -> None:
    merges = engine("gpt2")._pieces.tables.merges
    tables = device_tables(merges)
    left, right = merges.left.astype(np.int32), merges.right.astype(np.int32)
    find = jit(find_ranks)
    assert np.asarray(find(left, right, tables)).tolist() == list(range(len(left)))
    absent = merges.table.find(merges.left, merges.left)
    found = np.asarray(find(left, left, tables))
    assert np.where(found == NO_RANK, np.uint32(0xFFFFFFFF), found).tolist() == absent.tolist()
    assert (np.asarray(find(left, np.full_like(left, -1), tables)) == NO_RANK).all()
