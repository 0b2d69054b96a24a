"""Barriers inside words: parts encoded alone give the ids of the whole."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import numpy as np
import pytest
import small
from conftest import artifact
from judge import reference

from toktier.artifact import Artifact
from toktier.backends.python import PythonBackend
from toktier.compiled import compiled
from toktier.tokenizer import Tokenizer

NAMES = ("gpt2", "gpt-oss", "qwen3", "deepseek-v3")


def words(name: str, count: int) -> list[str]:
    """Words of characters that vocabularies know, alone or inside longer tokens, some ASCII among them."""
    found = compiled(artifact(name))
    blob, offsets = found.tokens.blob.tobytes(), found.tokens.offsets.tolist()
    known = [blob[a:b].decode("utf-8", "ignore") for a, b in pairwise(offsets)]
    known = [token for token in known if not token.isascii() and token.isalpha()]
    random_ = random.Random(name)
    pool = [*known, *"abcé中的一是不了人我", "\u0e01\u0e33", "ไทย", "한국어", "かな"]
    return ["".join(random_.choices(pool, k=random_.randrange(2, 9))) for _ in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_parts_between_barriers_are_encoded_apart(name: str) -> None:
    tables = compiled(artifact(name)).engine
    assert tables is not None and tables.pieces.barriers is not None
    cut = 0
    encoder = Tokenizer(artifact(name))._pieces
    for word in words(name, 3_000):
        points = np.array([ord(character) for character in word], np.uint32)
        places = tables.pieces.barriers.find(points).tolist()
        parts = [word[a:b] for a, b in pairwise([0, *places, len(word)])]
        cut += len(places)
        apart = [id for part in parts for id in encoder.encode_one(part)]
        assert apart == list(encoder.encode_one(word)), (word, parts)
    assert cut > 500


@pytest.mark.parametrize("name", NAMES)
def test_texts_of_known_words(name: str) -> None:
    """Both backends cut at barriers, short texts and long ones, with added tokens between."""
    tok, judge = Tokenizer(artifact(name)), reference(name)
    random_ = random.Random(2)
    pool = words(name, 400)
    seams = ["", "，", " ", "\n", "<|endoftext|>", "a", "1"]
    for size in (3, 30, 300):
        for _ in range(12):
            text = "".join(word + random_.choice(seams) for word in random_.choices(pool, k=size))
            right = judge.encode(text).ids
            for backend in ("python", "numpy"):
                assert tok.encode(text, backend=backend) == right, (backend, text)


@pytest.mark.parametrize("control", ["", "\x00", "\x00\x01\x02\x03"])
@pytest.mark.parametrize("seam", ["<|endoftext|>", "é一", "x"])
def test_long_texts_are_cut_by_marks_that_they_lack(
    control: str, seam: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toktier.backends.python._LONG", 1)
    tok, judge = Tokenizer(artifact("gpt2")), reference("gpt2")
    for text in (f"{seam}a b{control}{seam}c\n", f"1{seam}", seam, f"{control}{seam}{seam}"):
        assert tok.encode(text, backend="python") == judge.encode(text).ids, text


def test_a_rule_across_two_characters_is_no_barrier() -> None:
    """Of every token of two characters or more that merging makes, none is cut where its parts were merged."""
    for name in NAMES:
        found = compiled(artifact(name))
        assert found.engine is not None and found.engine.pieces.barriers is not None
        merges = found.engine.pieces.merges
        blob, offsets = found.tokens.blob.tobytes(), found.tokens.offsets.tolist()
        wide = 0
        for left, right in zip(merges.left.tolist(), merges.right.tolist(), strict=True):
            try:
                one, two = (blob[offsets[id] : offsets[id + 1]].decode() for id in (left, right))
            except UnicodeDecodeError:
                continue
            if one[-1].isascii() or two[0].isascii():
                continue
            wide += 1
            points = np.array([ord(character) for character in one + two], np.uint32)
            assert len(one) not in found.engine.pieces.barriers.find(points).tolist(), (one, two)
            if wide == 3_000:
                break
        assert wide > 50, name


def test_words_of_a_character_level_vocabulary() -> None:
    """They are cut beside ASCII, too; characters that the vocabulary lacks are bytes, which nothing merges."""
    random_ = random.Random(7)
    split = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": False}
    for _ in range(15):
        characters = [*"ab\x00 ", "é", "一", "二", "\U0001f600"]
        merges: dict[str, list[str]] = {}
        for _ in range(random_.choice((3, 10, 25))):
            pair = random_.choices([*characters, *merges], k=2)
            merges.setdefault("".join(pair), pair)
        tokens = [*(f"<0x{byte:02X}>" for byte in range(256)), *characters, *merges]
        vocab = {token: id for id, token in enumerate(tokens)}
        model = {"type": "BPE", "vocab": vocab, "merges": [*merges.values()], "byte_fallback": True}
        document = small.document(pre_tokenizer=split, decoder=None, model=model)
        tok = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "small"))
        barriers = tok._pieces.barriers
        assert barriers is not None and barriers.everywhere
        judge = small.build(document)
        for size in (20, 300, 1_500):
            text = "".join(random_.choices([*characters, *merges, " ", "c", "三", "\u0301"], k=size))
            right = judge.encode(text).ids
            assert [tok.encode(text, backend=backend) for backend in ("python", "numpy")] == [right] * 2, merges
        python = tok._backends["python"]
        assert isinstance(python, PythonBackend)
        assert len(python._parts._known) > 1, "pieces were not cut"
