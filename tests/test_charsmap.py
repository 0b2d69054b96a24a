"""Compiled character maps: what becomes of ASCII characters, by the reference's own normalizer."""

from __future__ import annotations

import json
import random
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest
import small
from conftest import parsed, tokenizers

from toktier.artifact import Artifact
from toktier.charsmap import ascii_becomes, inert_characters, prepended, read_charsmap
from toktier.errors import ReferenceFailedError
from toktier.normalization import CHARSMAPS, TextNormalizer, engine_normalizer
from toktier.pipeline import NormalizerSequence, Other
from toktier.tokenizer import Tokenizer

MARKS = "\u0301\u0323\u0338\u200d\ufe0f"
PREPENDED = "\u0600\u06dd\U000110bd"
#: Of clusters of several characters: Hangul, flags, emoji, conjuncts; and marks of two, three and four bytes.
TOGETHER = "a©\u00e9\uac00\u1100\u11a8\U0001f1e6\u200d\U0001f44d\u0915\u094d\u0301\u3099\U0001d165" + PREPENDED
#: Makes a text one that is put on arrays.
LONG = "中" + "z" * 250
ALPHABET = "ab=~ \t\n\r\x01" + MARKS + PREPENDED + "é\uff41\u1100\u1161\u4e2d😂"


def compiled(keys: dict[str, str]) -> str:
    """A normalizer with a map of these keys: each node of the double array has 256 units to itself."""
    children: dict[bytes, set[int]] = {b"": set()}
    ends = {key.encode(): result for key, result in keys.items()}
    for key in ends:
        for size in range(len(key)):
            children.setdefault(key[:size], set()).add(key[size])
            children.setdefault(key[: size + 1], set())
    base = {prefix: 256 * (number + 1) for number, prefix in enumerate(children)}
    units, results = np.zeros(256 * (len(base) + 1), "<u4"), b""
    for prefix in children:
        node = base[prefix[:-1]] ^ prefix[-1] if prefix else 0
        units[node] = (node ^ base[prefix]) << 10 | (prefix in ends) << 8 | (prefix[-1] if prefix else 0)
        if prefix in ends:
            units[base[prefix]] = 1 << 31 | len(results)
            results += ends[prefix].encode() + b"\0"
    data = units.nbytes.to_bytes(4, "little") + units.tobytes() + results
    return json.dumps({"type": "Precompiled", "precompiled_charsmap": b64encode(data).decode()})


def random_map(random_: random.Random, further: str = "") -> dict[str, str]:
    def text(letters: str, least: int, most: int) -> str:
        return "".join(random_.choices(letters, k=random_.randint(least, most)))

    heads = random_.choice((ALPHABET, ALPHABET.translate(dict.fromkeys(map(ord, PREPENDED)))))
    return {text(heads + further, 1, 1) + text(MARKS + "\u1161", 0, 2): text("axé \u0301", 0, 2) for _ in range(8)}


def check(source: str, seed: int, count: int) -> int:
    """Texts made for it, cut between ASCII characters; how many cuts there were."""
    normalize, becomes = engine_normalizer(source).normalize_str, ascii_becomes(source)
    if becomes is None:
        return 0
    random_, cuts = random.Random(seed), 0
    for _ in range(count):
        text = "".join(random_.choices(ALPHABET, k=random_.randint(2, 9)))
        for at in range(1, len(text)):
            before, behind = text[:at], text[at:]
            seam = before[-1] + behind[0]
            if not seam.isascii() or "\r" in seam or "\n" in seam:
                continue
            cuts += 1
            left, right = normalize(before), normalize(behind)
            assert normalize(text) == left + right, (text, at)
            assert left.endswith(becomes[before[-1]][0]), (text, at)
            alone, longer = becomes[behind[0]]
            assert any(map(right.startswith, {alone, *longer})), (text, at)
    return cuts


def check_stretches(source: str, seed: int, count: int) -> None:
    """What only sends through the engine what may change, on texts of which much does not."""
    part = Other("Precompiled", source)
    inert = inert_characters(part)
    assert inert is not None
    subject, judge = TextNormalizer(part, inert={CHARSMAPS: inert}), engine_normalizer(source)
    random_ = random.Random(seed)
    for letters in (ALPHABET, ALPHABET + "xyz. " * 12, "abxyz \r\n\x01", TOGETHER):
        for _ in range(count):
            text = "".join(random_.choices(letters, k=random_.randint(0, 60)))
            for some in (text, text + "\n" + LONG):
                assert subject.normalize(some) == judge.normalize_str(some), repr(some)


def test_random_maps() -> None:
    random_ = random.Random(1)
    cuts = [check(compiled(random_map(random_)), seed, 60) for seed in range(120)]
    for seed in range(40):
        check_stretches(compiled(random_map(random_, TOGETHER)), seed, 30)
    assert 20 < cuts.count(0) < 100 and sum(cuts) > 1_500


@pytest.mark.parametrize("name", tokenizers("xlm_roberta"))
def test_a_real_map(name: str) -> None:
    source = json.dumps(parsed(name)["normalizer"])
    assert check(source, 1, 3_000) > 1_000
    check_stretches(source, 1, 500)
    becomes = ascii_becomes(source)
    assert becomes is not None and becomes["\n"] == (" ", frozenset()) and "é" in becomes["e"][1]


def test_the_shortest_key_is_all_that_counts() -> None:
    becomes = ascii_becomes(compiled({"a": "x", "a\u0301": "á", "b\u0301": "", "b\u0301\u0323": "y"}))
    assert becomes is not None
    assert (
        becomes["a"] == ("x", frozenset())
        and becomes["b"] == ("b", {"", "y"})
        and becomes["c"] == ("c", frozenset())
    )


@pytest.mark.parametrize("key", ["\u0600", "\u0600\u0601", "éa", "e\u0301b", "\r\n"])
def test_what_stands_before_ascii_may_matter(key: str) -> None:
    assert ascii_becomes(compiled({"a\u0301": "á", key: "x"})) is None


def test_several_maps() -> None:
    one, other = (Other("Precompiled", compiled({key: "b"})) for key in ("a", "\u0600"))
    both = NormalizerSequence((one, other))
    inert = inert_characters(both)
    assert inert is not None and np.flatnonzero(~inert).tolist() == [ord("a"), 0x600]
    assert inert_characters(None) is None and inert_characters(NormalizerSequence(())) is None
    for tables in ({}, {CHARSMAPS: inert}):
        assert TextNormalizer(both, inert=tables).normalize("xa\u0600a") == "xbb"


def test_heads_and_prepended_characters() -> None:
    keys = ["a", "a\u0301", "\u0600", "é", "\U000110bd\u0301", "\uff41b"]
    charsmap = read_charsmap(compiled(dict.fromkeys(keys, "")))
    assert charsmap is not None and charsmap.heads() == ["a", "é", "\u0600", "\uff41", "\U000110bd"]
    assert prepended([*ALPHABET, *MARKS]) == [*PREPENDED]


def damaged() -> Iterator[bytes]:
    """Maps that the reference loads; it fails with all but the last."""
    whole = b64decode(json.loads(compiled({"a": "x", "é": "y"}))["precompiled_charsmap"])
    size = int.from_bytes(whole[:4], "little")
    node = 4 + 4 * (256 ^ ord("a"))
    yield whole[:-4]  # without what the keys become
    yield bytes(4)
    yield whole[:node] + (ord("a") | 1 << 30).to_bytes(4, "little") + whole[node + 4 :]  # leads out of the array
    yield (size + 1).to_bytes(4, "little") + whole[4:]


def test_damaged_maps_are_left_to_the_reference() -> None:
    for number, data in enumerate(damaged()):
        broken = {"type": "Precompiled", "precompiled_charsmap": b64encode(data).decode()}
        content = json.dumps(small.document(normalizer=broken)).encode()
        tok = Tokenizer(Artifact.from_bytes(content, "damaged"))
        assert tok.backends == ("reference",) and "damaged" in str(tok.explain())
        assert tok.encode("") == []
        with nullcontext() if number == 3 else pytest.raises(ReferenceFailedError):
            assert tok.encode("a\u0301é") == small.build(json.loads(content)).encode("a\u0301é").ids


def test_a_node_that_leads_back_to_itself() -> None:
    source = json.loads(compiled({"a": "x"}))
    data = bytearray(b64decode(source["precompiled_charsmap"]))
    node = 256 ^ ord("a")
    data[4 + 4 * node : 8 + 4 * node] = ((node ^ 256) << 10 | ord("a")).to_bytes(4, "little")
    source["precompiled_charsmap"] = b64encode(data).decode()
    assert ascii_becomes(json.dumps(source)) is None  # an "a" goes on behind another
