"""Finding cuts: the ways to ask agree with each other, and none looks at more of a text than it must."""

from __future__ import annotations

import random

import numpy as np
import pytest
from certified import judge, texts_for
from conftest import tokenizers
from judge import engine

from toktier.certificates.cuts import Cuts, _PairSet


def assert_agree(cuts: Cuts, text: str, random_: random.Random) -> None:
    """``last``, ``first`` and ``near`` find what ``all`` knows, from everywhere, within any bounds."""
    for closes in (False, True):
        found = cuts.all(text, closes)
        assert found.dtype == np.int64
        known = found.tolist()
        for place in range(len(text) + 2):
            for low, high in ((0, place), (place, len(text)), sorted(random_.choices(range(len(text) + 1), k=2))):
                inside = [cut for cut in known if low < cut < high]
                assert cuts.last(text, low, high, closes) == (inside[-1] if inside else None)
                assert cuts.first(text, low, high, closes) == (inside[0] if inside else None)
    closing = cuts.all(text, True).tolist()
    assert [cut for cut in cuts.all(text).tolist() if cuts.is_closing(text, cut)] == closing
    for place in range(len(text)):
        low, high = sorted(random_.choices(range(len(text) + 1), k=2))
        near = cuts.near(text, place, low, high)
        inside = [cut for cut in closing if low < cut < high]
        assert near in inside if inside else near is None
        before = [cut for cut in inside if cut < place]
        assert near == (before[-1:] or inside[:1] or [None])[0]


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", "llama2", "deepseek_llm", "bert_uncased"))
def test_the_ways_to_ask_agree(name: str) -> None:
    tok = engine(name)
    random_ = random.Random(5)
    for text in texts_for(judge(name).words, 5, 40):
        for cuts in (tok._cuts, tok._cuts_and_ends):
            assert_agree(cuts, text[:60], random_)


@pytest.mark.campaign
@pytest.mark.parametrize("name", tokenizers())
def test_the_ways_to_ask_agree_everywhere(name: str) -> None:
    tok = engine(name)
    random_ = random.Random(6)
    for text in texts_for(judge(name).words, 6, 600):
        for cuts in (tok._cuts, tok._cuts_and_ends):
            assert_agree(cuts, text, random_)


@pytest.mark.parametrize("most", [0, 1 << 27])
def test_pairs_by_a_matrix_or_a_table(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_PairSet, "_MOST", most)
    random_ = random.Random(8)
    characters = random_.sample(range(1, 0x110000), 300)
    inside = {(random_.choice(characters), random_.choice(characters)) for _ in range(2_000)}
    left, right = np.array(sorted(inside), np.uint32).T
    asked = [
        *inside,
        *((random_.choice([*characters, 0, 0x10FFFF]), random_.choice(characters)) for _ in range(5_000)),
    ]
    found = _PairSet(left, right).has(*np.array(asked, np.uint32).T)
    assert found.tolist() == [pair in inside for pair in asked]
    assert not _PairSet(left[:0], right[:0]).has(left, right).any()


def test_bounds_may_lie_outside() -> None:
    cuts = engine("gpt2")._cuts
    assert cuts.last("a b", -5, 50) == cuts.first("a b", -5, 50) == 1
    assert cuts.last("", 0, 0) is cuts.first("", 0, 0) is None
    assert cuts.last("a b", 2, 1) is cuts.first("a b", 2, 1) is None
    assert cuts.all("").tolist() == cuts.all("a").tolist() == []


class Counting(Cuts):
    """Counts the characters that are looked at, one by one or by array."""

    looked = 0

    def _class(self, char: str) -> int:
        self.looked += 1
        return super()._class(char)

    def _places(self, text: str, low: int, high: int, bit: int) -> list[int]:
        self.looked += high - low
        return super()._places(text, low, high, bit)


def counting(name: str) -> Counting:
    cuts = engine(name)._cuts
    return Counting(cuts._certificate, cuts._literals)


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", "gpt-oss", "llama2", "bert_uncased"))
def test_the_last_cut_of_ordinary_text_is_near(name: str) -> None:
    cuts = counting(name)
    text = "It is a truth universally acknowledged, that a man in possession of 1,000 pounds:\n" * 2_000
    places = range(100, len(text), 997)
    for place in places:
        assert cuts.last(text, 0, place) is not None
    assert cuts.looked < 20 * len(places)


def test_far_from_any_cut() -> None:
    """The search widens: what is looked at grows with the way to go, and not faster."""
    cuts = counting("gpt2")
    text = f"x {'a' * 300_000} y"
    assert cuts.last(text, 0, 250_000) == 1
    assert cuts.looked < 9 * 250_000
    cuts.looked = 0
    assert cuts.last(text, 249_000, 250_000) is None
    assert cuts.looked < 2_500
    assert cuts.near(text, 3_000, 2, len(text)) == len(text) - 2
    assert cuts.near("a" * 140_000, 70_000, 0, 140_000) is None


@pytest.mark.parametrize("name", tokenizers("qwen3", "llama2"))
def test_added_tokens_that_may_yet_be_completed(name: str) -> None:
    """Where the text might go on with an added token, the place before it is no cut unless it is one anyhow."""
    tok, word = engine(name), judge(name).words[0]
    for size in range(1, len(word)):
        text = f"x {word[:size]}"
        inside = [cut for cut in tok.cuts(text).tolist() if cut > 2]
        completed = tok.cuts(f"x {word}").tolist()
        assert set(inside) <= set(completed) and not [cut for cut in completed if 2 < cut < 2 + len(word)]
