"""Safe cuts: the ids of both sides, put together, are those of the whole, and the reference says so."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import adversarial
import numpy as np
import pytest
import small
from conftest import artifact, reference, tokenizers
from judge import engine, literals
from tokenizers import Tokenizer as HuggingFace

import toktier.tokenizer
from toktier.artifact import Artifact
from toktier.tokenizer import Tokenizer

#: What texts are made of besides the adversarial alphabet.
_COMMON = (
    "a",
    "b",
    " ",
    "  ",
    "\n",
    "1",
    "'s",
    ".",
    "é",
    "e\u0301",
    "\u0301",
    "\u3000",
    "\xa0",
    "x y",
    "\r\n",
    "中",
)


def safe_cuts(tok: Tokenizer, text: str) -> list[int]:
    """Every one that is found from some position, within the text or within a part of it."""
    assert tok._cuts is not None
    found: set[int] = set()
    for position in range(len(text)):
        cut = tok._cuts.near(text, position, max(0, position - 3), min(len(text), position + 3))
        if cut is not None:
            assert max(0, position - 3) < cut < min(len(text), position + 3)
            found.add(cut)
    for position in (0, len(text) // 2, len(text)):
        cut = tok._cuts.near(text, position, 0, len(text))
        if cut is not None:
            assert 0 < cut < len(text)
            found.add(cut)
    return sorted(found)


def assert_cuts(tok: Tokenizer, judge: HuggingFace, texts: Sequence[str]) -> int:
    """How many cuts were tried."""
    sides: list[str] = []
    where: list[tuple[str, int]] = []
    for text in texts:
        for cut in safe_cuts(tok, text):
            sides += (text[:cut], text[cut:])
            where.append((text, cut))
    for special in (False, True):
        judge.encode_special_tokens = special
        whole = dict(zip(texts, judge.encode_batch_fast(list(texts), add_special_tokens=False), strict=True))
        parts = judge.encode_batch_fast(sides, add_special_tokens=False)
        for (text, cut), left, right in zip(where, parts[::2], parts[1::2], strict=True):
            assert left.ids + right.ids == whole[text].ids, (text[:cut], text[cut:], special)
    judge.encode_special_tokens = False
    return len(where)


def battery(words: Sequence[str], seed: int, count: int) -> list[str]:
    random_ = random.Random(seed)
    texts = list(adversarial.battery(words, seed, count))
    fragments = [*adversarial.literal_fragments(words), *words] or ["x"]
    for _ in range(count):
        parts = random_.choices(_COMMON, k=random_.randrange(1, 10)) + random_.choices(fragments, k=2)
        random_.shuffle(parts)
        texts.append("".join(parts))
    return texts


def fresh_judge(name: str) -> HuggingFace:
    return HuggingFace.from_str(artifact(name).read().decode())


def test_embedded(embedded: str) -> None:
    texts = battery(literals(embedded)[:40], 1, 150)
    assert assert_cuts(engine(embedded), fresh_judge(embedded), texts) > 500


@pytest.mark.parametrize("name", tokenizers("deepseek_llm", "starcoder"))
def test_many_stages(name: str) -> None:
    texts = battery(literals(name)[:40], 2, 120)
    assert assert_cuts(engine(name), fresh_judge(name), texts) > 250


@pytest.mark.campaign
@pytest.mark.parametrize("name", tokenizers())
@pytest.mark.parametrize("seed", range(3))
def test_all_tokenizers(name: str, seed: int) -> None:
    tok = Tokenizer(artifact(name))
    if tok._cuts is None or tok._cuts.unavailable:
        pytest.skip("no cuts")
    judge = fresh_judge(name)
    words = [token.content for token in judge.get_added_tokens_decoder().values()]
    assert assert_cuts(tok, judge, battery(words, 100 + seed, 15_000)) > 5_000


# --- added tokens and normalizers made for it ---------------------------------------------------

GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}


def made(*tokens: dict[str, Any], **parts: Any) -> tuple[Tokenizer, HuggingFace, list[str]]:
    first = len(small.vocabulary())
    added = [token | {"id": first + i} for i, token in enumerate(tokens)]
    document = small.document(**({"pre_tokenizer": GPT2} | parts), added_tokens=added)
    tok = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made"))
    return tok, small.build(document), [token["content"] for token in tokens]


NFC = {"type": "NFC"}


@pytest.mark.parametrize(
    "normalizer",
    [None, NFC, *(pytest.param({"type": form}, marks=pytest.mark.campaign) for form in ("NFKC", "NFD"))],
    ids=str,
)
@pytest.mark.parametrize(
    "tokens",
    [
        [small.added("<x>", 0, "special")],
        [small.added("a b", 0), small.added(" b", 0, "special"), small.added("b\n", 0)],
        [small.added("a\n\nb", 0, "normalized"), small.added("\n", 0)],
        [small.added("é !", 0, "normalized"), small.added("x", 0, "normalized")],
        [small.added("e\u0301 !", 0, "normalized"), small.added("\u0301", 0)],
        [small.added("<x>", 0, "lstrip"), small.added("<y>", 0, "rstrip", "special")],
        [small.added("<x>", 0, "lstrip", "rstrip"), small.added("a", 0, "lstrip", "normalized")],
        [small.added(". ", 0), small.added(" a", 0), small.added("1 1", 0, "special")],
    ],
    ids=lambda tokens: "+".join(token["content"] for token in tokens),
)
def test_made_tokenizers(tokens: list[dict[str, Any]], normalizer: dict[str, Any] | None) -> None:
    tok, judge, words = made(*tokens, normalizer=normalizer)
    if tok._cuts is None:
        assert tok.backends == ("reference",)
        return
    random_ = random.Random(4)
    alphabet = [*words, *_COMMON, "!", "é !", "<", "x>", ". a", "a b", "ﬁ", "\u1112\u1161\u11ab"]
    texts = ["".join(random_.choices(alphabet, k=random_.randrange(2, 12))) for _ in range(150)]
    assert assert_cuts(tok, judge, texts) > 25


@pytest.mark.parametrize(
    ("tokens", "parts"),
    [
        ([small.added("word", 0, "single_word")], {}),
        ([], {"normalizer": {"type": "Prepend", "prepend": "x"}}),
        ([], {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"}}),
        ([], {"normalizer": {"type": "Sequence", "normalizers": [NFC, {"type": "Lowercase"}]}}),
    ],
    ids=["single_word", "Prepend", "Replace", "Lowercase"],
)
def test_where_nothing_is_cut(
    tokens: list[dict[str, Any]], parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toktier.tokenizer, "_PART", 1_000)
    tok, judge, _ = made(*tokens, **parts)
    text = "Word words word 1 word.\n" * 800
    assert tok._cuts is None or tok._cuts.unavailable
    assert tok._cuts is None or tok._cuts.near(text, 100, 0, len(text)) is None
    assert tok.encode(text, threads=2) == judge.encode(text).ids
    assert tok.count(text, 10) == 11


def test_a_token_is_never_cut() -> None:
    """Text that is nothing but tokens: a cut may only stand between two of them."""
    tok, judge, _ = made(small.added("a b", 0), small.added("<|x|>", 0, "special"), small.added(" \n ", 0))
    text = "a b<|x|> \n <|x|>a b" * 20
    ends = {0, *np.cumsum([len(part) for part in ["a b", "<|x|>", " \n ", "<|x|>", "a b"] * 20]).tolist()}
    assert set(safe_cuts(tok, text)) <= ends
    assert_cuts(tok, judge, [text])


def test_far_from_any_cut() -> None:
    """The search widens, and gives up where there is nothing; then the text is encoded whole."""
    tok = engine("gpt2")
    assert tok._cuts is not None
    run = "a" * 140_000
    text = f"x {run} y"
    assert tok._cuts.near(run, 70_000, 0, len(run)) is None
    assert tok._cuts.near(text, 10_000, 0, len(text)) in (1, 2)
    assert tok._cuts.near(text, 3_000, 2, len(text)) is None
    found = tok._cuts.near(text, 139_000, 2, len(text))
    assert found is not None and found > 140_000
    assert tok.encode(text) == reference("gpt2").encode(text).ids
    assert tok.count(run, 3) == 4
