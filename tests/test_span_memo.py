"""The memo of stretches: it only remembers, it is bounded, and hashes decide nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from toktier.bpe import span_memo
from toktier.bpe.memo import IdsAndCounts
from toktier.bpe.span_memo import LONGEST, SpanMemo
from toktier.bpe.tables import PADDING


def encode(text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> IdsAndCounts:
    """Ids that spell the piece: its bytes, two at a time, and its length."""
    ids: list[int] = []
    counts = []
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        piece = text[start : start + length].tolist()
        own = [length, *(a * 256 + b for a, b in zip(piece[::2], [*piece[1::2], 0], strict=False))]
        ids += own
        counts.append(len(own))
    return np.array(ids, np.uint32), np.array(counts, np.int64)


def laid_out(pieces: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Pieces in a buffer with other bytes between them."""
    text, starts = b"", []
    for number, piece in enumerate(pieces):
        text += bytes([number % 251] * (number % 4))
        starts.append(len(text))
        text += piece
    padding = bytes([255] * PADDING)
    return np.frombuffer(text + padding, np.uint8), np.array(starts), np.array([len(p) for p in pieces])


def random_pieces(random_: random.Random, count: int) -> list[bytes]:
    alphabet = random_.choice((b"\0", b"\0\1", b"ab", bytes(range(256))))
    longest = random_.choice((1, 8, 9, 16, 17, 40, LONGEST))
    return [bytes(random_.choices(alphabet, k=random_.randint(1, longest))) for _ in range(count)]


def check(memo: SpanMemo, pieces: list[bytes]) -> None:
    spans = laid_out(pieces)
    for found, right in zip(memo.encode(*spans), encode(*spans), strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("budget", [64 << 20, 20_000, 0])
def test_ids_do_not_depend_on_what_was_seen(budget: int) -> None:
    random_ = random.Random(budget)
    memo = SpanMemo(encode, budget)
    for _ in range(150):
        check(memo, random_pieces(random_, random_.randint(1, 300)))


def test_a_hash_that_always_collides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_memo, "_hash", lambda low, high: np.full(len(low), 7, np.uint64))
    random_ = random.Random(1)
    memo = SpanMemo(encode)
    for _ in range(40):
        check(memo, random_pieces(random_, 20))
    assert 20 < memo._entries.count <= 40, "one of each text is remembered, unless all are known"


def test_long_pieces_whose_keys_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_memo, "_FACTORS", span_memo._FACTORS * (np.arange(LONGEST // 8 + 1) == 0))
    random_ = random.Random(2)
    memo = SpanMemo(encode)
    for _ in range(40):
        check(memo, [b"the same" + random_.randbytes(random_.choice((8, 32))) for _ in range(20)])
        assert memo._entries.count == 2, "a piece that another one hides is not remembered again and again"


def test_what_is_remembered_is_not_encoded_again() -> None:
    asked: list[int] = []

    def counting(text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> IdsAndCounts:
        asked.append(len(starts))
        return encode(text, starts, lengths)

    memo = SpanMemo(counting)
    pieces = [b"one", b"two", b"one", b"three" * 40, b"two\0"]
    check(memo, pieces)
    check(memo, pieces[::-1])
    check(memo, [*pieces, b"four"])
    assert asked == [4, 1]


def test_it_is_bounded() -> None:
    memo = SpanMemo(encode, 50_000)
    for number in range(400):
        check(memo, [f"piece {number} {i}".encode() for i in range(50)])
        entries = memo._entries
        held = 8 * entries.words_used + 4 * entries.ids_used + 64 * entries.count
        assert held <= 50_000
        own = entries.low, entries.high, entries.first, entries.begins, entries.counts
        assert sum(array.nbytes for array in (entries.words, entries.ids, entries.slots, *own)) < 400_000


def test_threads_share_it() -> None:
    memo = SpanMemo(encode, 200_000)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        random_ = random.Random(seed)
        try:
            for _ in range(60):
                check(memo, [f"{random_.randint(0, 3000)} pieces".encode() for _ in range(200)])
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
