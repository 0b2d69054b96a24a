"""The text of a session: versions of it against plain strings."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from toktier.sessions.text import BlockText

_ALPHABETS = ("ab\n", "aé\u4e2d", "a\U0001f600")


def _stretch(source: random.Random) -> str:
    size = source.choice((0, 1, 8, 700, 3_000, 20_000, 150_000))
    return "".join(source.choices(source.choice(_ALPHABETS), k=source.randrange(size + 1)))


def assert_is(text: BlockText, wanted: str, source: random.Random) -> None:
    assert str(text) == wanted and len(text) == len(wanted) and text == BlockText(wanted)
    assert all(text), "no block is empty"
    for _ in range(4):
        start = source.randrange(len(wanted) + 1)
        stop = source.choice((start, min(len(wanted), start + 50), source.randrange(start, len(wanted) + 1)))
        assert text.slice(start, stop) == wanted[start:stop]
    place = source.randrange(len(wanted) + 1)
    other = wanted[:place] + "\x00" + wanted[place:]
    assert text.common_prefix(other) == place
    assert text.common_suffix(other, len(wanted)) == len(wanted) - place
    assert text.common_suffix(other, 3) == min(3, len(wanted) - place)


@pytest.mark.parametrize("seed", range(12))
def test_versions_go_their_own_ways(seed: int) -> None:
    source = random.Random(seed)
    first = _stretch(source)
    versions = [(BlockText(first), first)]
    for _ in range(60):
        text, wanted = source.choice(versions[-6:])
        size = len(wanted)
        start = source.choice((size, max(0, size - 8), source.randrange(size + 1)))
        stop = source.choice((size, start, min(size, start + source.randrange(5_000))))
        stop = max(start, stop)
        new = _stretch(source)
        versions.append((text.replaced(start, stop, new), wanted[:start] + new + wanted[stop:]))
        assert_is(*versions[-1], source)
    for text, wanted in versions:
        assert_is(text, wanted, source)


def test_versions_share_what_is_the_same() -> None:
    text = BlockText("x" * 10_000_000)
    longer = text
    for _ in range(100):
        longer = longer.replaced(len(longer), len(longer), "y" * 10_000)
    changed = longer.replaced(5_000_000, 5_000_001, "z")
    fork = changed.replaced(9_000_000, len(changed), "z" * 100_000)
    assert str(longer) == "x" * 10_000_000 + "y" * 1_000_000 and str(text) == "x" * 10_000_000
    assert str(fork) == "x" * 5_000_000 + "z" + "x" * 3_999_999 + "z" * 100_000
    for one, other in pairwise((text, longer, changed, fork)):
        alike = {*map(id, one)} & {*map(id, other)}
        assert len(alike) >= len({*map(id, other)}) - 25, "blocks"
        assert {*map(id, one._chunks)} & {*map(id, other._chunks)}


def test_forks_grow_in_threads() -> None:
    base = BlockText("é" * 10_000)

    def grow(letter: str) -> str:
        text = base
        for _ in range(400):
            text = text.replaced(len(text), len(text), letter * 701)
        return str(text)

    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            for letter, found in zip("abcd", pool.map(grow, "abcd"), strict=True):
                assert found == "é" * 10_000 + letter * 701 * 400
    assert str(base) == "é" * 10_000
