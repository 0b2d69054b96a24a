"""Pre-tokenizers that put a mark before texts: engines, cuts, sessions and streams against the reference."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import small
from conftest import artifact
from tokenizers import Tokenizer as HuggingFace

from toktier.artifact import Artifact
from toktier.chat.guarded import GuardedText
from toktier.chat.provenance import Origin, Traced
from toktier.errors import BackendUnsupportedError
from toktier.tokenizer import Tokenizer

MARK = "\u2581"
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
METASPACES = [
    {"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme, "split": split}
    for mark, scheme, split in (
        *product([MARK], ["always", "first", "never"], [True, False]),
        ("a", "always", True),
    )
]
PRE_TOKENIZERS = [BYTE_LEVEL, {**BYTE_LEVEL, "use_regex": False}, *METASPACES]
NORMALIZERS = [
    None,
    {"type": "NFC"},
    {"type": "Replace", "pattern": {"String": "b"}, "content": " "},
    {"type": "Prepend", "prepend": "a"},
    {"type": "Strip", "strip_left": True, "strip_right": False},
]
ADDED = [
    ("<a>", "special"),
    ("< b", "normalized"),
    ("ab ", "lstrip"),
    (MARK + "1", "rstrip", "normalized"),
    ("b",),
]


def document(
    pre_tokenizer: dict[str, Any], normalizer: dict[str, Any] | None, added: tuple[int, ...]
) -> dict[str, Any]:
    parts: dict[str, Any] = {"pre_tokenizer": pre_tokenizer, "normalizer": normalizer}
    if pre_tokenizer["type"] == "Metaspace":
        parts |= {"model": small.fallback_model(), "decoder": None}
    size = 1 + max((parts.get("model") or small.document()["model"])["vocab"].values())
    parts["added_tokens"] = [small.added(ADDED[k][0], size + n, *ADDED[k][1:]) for n, k in enumerate(added)]
    return small.document(**parts)


def cases() -> Iterator[tuple[dict[str, Any], dict[str, Any] | None, tuple[int, ...]]]:
    for number, (part, normalizer) in enumerate(product(PRE_TOKENIZERS, NORMALIZERS)):
        yield part, normalizer, ()
        yield part, normalizer, ((0, 2), (1, 4), (3,), (0, 1), (2, 3))[number % 5]


CASES = list(cases())
EACH = [case if case % 4 == 1 else pytest.param(case, marks=pytest.mark.campaign) for case in range(len(CASES))]


@cache
def both(case: int) -> tuple[Tokenizer, HuggingFace]:
    made = document(*CASES[case])
    return Tokenizer(Artifact.from_bytes(json.dumps(made).encode(), "made")), small.build(made)


def texts(seed: int, count: int) -> list[str]:
    random_ = random.Random(seed)
    alphabet = [*"aab1,  \n<", MARK, "\u00e9", "e\u0301", *(token[0] for token in ADDED)]
    return ["", " ", MARK, *("".join(random_.choices(alphabet, k=random_.randint(1, 12))) for _ in range(count))]


def test_most_of_them_run_on_the_engines() -> None:
    """Not those that mark the first stretch alone where the normalizer may have moved it."""
    left = {case for case in range(1, len(CASES), 4) if both(case)[0]._unsupported is not None}
    assert len(left) < len(CASES) // 16
    assert all(CASES[case][0].get("prepend_scheme") == "first" for case in left)


@pytest.mark.parametrize("case", EACH)
def test_ids_and_offsets(case: int) -> None:
    tok, judge = both(case)
    some = texts(case, 60)
    right = [encoding.ids for encoding in judge.encode_batch(some)]
    for backend in ("python", "numpy") if tok._unsupported is None else ("auto",):
        assert [tok.encode(text, backend=backend) for text in some] == right
        assert [[*map(int, ids)] for ids in tok.encode_batch(some, backend=backend)] == right
    for text in some[:12]:
        assert [tuple(span) for span in tok.encode_with_offsets(text).offsets.tolist()] == judge.encode(
            text
        ).offsets


@pytest.mark.parametrize("case", EACH)
def test_cuts_streams_and_sessions(case: int) -> None:
    tok, judge = both(case)
    random_ = random.Random(case)
    for text in texts(1000 + case, 40):
        right = judge.encode(text).ids
        stream = tok.stream_encoder()
        got: list[int] = []
        at = 0
        while at < len(text):
            step = random_.randint(1, 5)
            got.extend(stream.feed(text[at : at + step]).tolist())
            at += step
        assert [*got, *stream.flush().tolist()] == right, text
        for cut in tok.cuts(text).tolist():
            left, behind = tok._left_of(text, cut, "encode", continuing=False), text[cut:]
            rest = tok._encode_part(behind, "encode", None, continuing=True)
            assert [*left.tolist(), *rest.tolist()] == right, (text, cut)
    session, text = tok.session(), ""
    for new in texts(2000 + case, 40):
        start = random_.randint(0, len(text))
        stop = min(len(text), start + random_.choice((0, 0, 1, 5)))
        text = text[:start] + new + text[stop:]
        session.edit(start, stop, new)
        np.testing.assert_array_equal(session.ids, judge.encode(text).ids)


@pytest.mark.parametrize("case", EACH)
def test_chats_with_tokens_of_the_template_alone(case: int) -> None:
    """Their stretches are marked one by one; what a text begins with may move behind a token, and back."""
    tok, judge = both(case)
    _, normalizer, added = CASES[case]
    written = " ".join(ADDED[k][0] for k in added)
    if tok._unsupported is not None or (normalizer and any("normalized" in ADDED[k] for k in added)):
        with pytest.raises(BackendUnsupportedError):
            GuardedText(tok, written)
        return
    guarded = GuardedText(tok, written)
    for text in texts(3000 + case, 20):
        for whole in (text, "<a>" + text, text):
            guarded.update(Traced(whole, Origin.TEMPLATE))
            assert guarded.ids.tolist() == judge.encode(whole).ids, whole


@pytest.mark.parametrize("scheme", ["always", "first"])
@pytest.mark.parametrize("backend", ["python", "numpy"])
def test_a_published_vocabulary(scheme: str, backend: str) -> None:
    """Llama 2 as newer versions of transformers write it: no normalizer, and Metaspace without cuts."""
    made = json.loads(artifact("llama2").read())
    made["normalizer"] = None
    made["pre_tokenizer"] = METASPACES[1] | {"prepend_scheme": scheme}
    tok, judge = Tokenizer(Artifact.from_bytes(json.dumps(made).encode(), "made")), small.build(made)
    assert tok._unsupported is None
    for text in (
        "Hello  world",
        " Hello<s>world </s> a",
        "<s> a",
        MARK,
        "\n\nfoo\tbar " * 400,
        "é中文 mixed " * 30,
    ):
        assert tok.encode(text, backend=backend) == judge.encode(text).ids
        session = tok.session(text[:7])
        session.append(text[7:])
        assert session.ids.tolist() == judge.encode(text, add_special_tokens=False).ids
