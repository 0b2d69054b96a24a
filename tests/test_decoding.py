"""Decoding, whole and as a stream, against the reference."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import small
from conftest import parsed, reference, tokenizers, usual_tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from toktier.added_tokens import as_loaded
from toktier.bpe.tables import token_bytes
from toktier.decoding import (
    ByteLevelDecoder,
    ChainDecoder,
    Decoder,
    ReferenceDecoder,
    check_ids,
    is_byte_level,
    make_decoder,
)
from toktier.errors import TokenIdError
from toktier.front import Front
from toktier.pipeline import parse


def own(document: dict[str, Any], judge: Tokenizer) -> Decoder:
    """The decoder of this package for a decoded ``tokenizer.json``."""
    pipeline = parse(document)
    vocab = document["model"]["vocab"]
    if not isinstance(vocab, dict):
        vocab = {token: index for index, (token, _) in enumerate(vocab)}

    def table() -> Any:
        tokens = token_bytes(vocab, True)
        return tokens.blob, tokens.offsets

    def strings() -> list[str | None]:
        by_id: list[str | None] = [None] * (max(vocab.values(), default=-1) + 1)
        for token, token_id in vocab.items():
            by_id[token_id] = token
        return by_id

    return make_decoder(
        pipeline.decoder,
        table=table,
        tokens=strings,
        reference=lambda: judge,
        added_tokens=as_loaded(pipeline.added_tokens, vocab),
        normalize=None if pipeline.normalizer is None else Front(pipeline).normalizer.normalize,
    )


def check(decoder: Decoder, judge: Tokenizer, ids: Sequence[int], splits: Sequence[int] = ()) -> None:
    """Whole, one by one, and cut at ``splits``: all must be the reference's text."""
    for skip in (True, False):
        right = judge.decode(list(ids), skip_special_tokens=skip)
        assert decoder.decode(ids, skip) == right
        stream = decoder.stream(skip)
        pieces = [stream.put(token_id) for token_id in ids]
        assert "".join(pieces) + stream.flush() == right
        bounds = [0, *sorted(splits), len(ids)]
        pieces = [stream.put_many(ids[a:b]) for a, b in itertools.pairwise(bounds)]
        assert "".join(pieces) + stream.flush() == right


# --- real tokenizers ----------------------------------------------------------------------

TEXT = (
    "It's a test:  don't stop \n\t naïve 漢字かな 👩🏽\u200d🚀 ①½ e\u0301 \u0000 \u2028 12345 "
    "<|im_end|><s></s>[CLS]<|endoftext|>"
)


@pytest.mark.parametrize("name", usual_tokenizers())
def test_real_tokenizers(name: str) -> None:
    document, judge = parsed(name), reference(name)
    decoder = own(document, judge)
    assert decoder.unsupported is None
    random_ = random.Random(name)
    top = judge.get_vocab_size() + 60
    added = sorted(judge.get_added_tokens_decoder())
    some = [[i] for i in (*range(min(top, 300)), *random_.sample(range(top), 3000))]
    alone = judge.decode_batch(some, skip_special_tokens=False)
    # Tokens that are parts of characters, or single bytes: most of what is not UTF-8 comes from them.
    broken = [i for (i,), text in zip(some, alone, strict=True) if "\ufffd" in text] or [0]
    for _ in range(40):
        ids = []
        for _ in range(random_.randint(0, 25)):
            pool = random_.choice((range(top), added, broken, broken))
            ids.append(random_.choice(pool))
        check(decoder, judge, ids, random_.choices(range(len(ids) + 1), k=3))
    real = judge.encode(TEXT).ids
    for cut in random_.choices(range(len(real)), k=6):
        check(decoder, judge, real, [cut])
    for skip in (True, False):
        assert decoder.decode_batch(some, skip) == judge.decode_batch(some, skip_special_tokens=skip)
        whole = judge.decode(list(range(top)), skip_special_tokens=skip)
        assert decoder.decode(np.arange(top), skip) == whole
        assert decoder.decode_bytes(real, skip).decode() == decoder.decode(real, skip)
    assert decoder.decode_bytes(real) == decoder.decode_bytes(real, False)


def test_a_vocabulary_hole_ends_nothing() -> None:
    judge = reference("qwen3")
    decoder = own(parsed("qwen3"), judge)
    assert decoder.decode([9707, 151927, 11]) == judge.decode([9707, 151927, 11]) == "Hello,"
    stream = decoder.stream()
    assert [stream.put(i) for i in (9707, 151927, 2**32 - 1, 11)] == ["Hello", "", "", ","]


@pytest.mark.parametrize("name", tokenizers("llama3_1"))
def test_a_primed_stream_gives_only_what_is_new(name: str) -> None:
    decoder = own(parsed(name), reference(name))
    stream = decoder.stream()
    stream.prime([9906, 1917, 11410, 234])
    assert stream.put(114) + stream.flush() == decoder.decode([9906, 1917, 11410, 234, 114])[-1]


# --- bytes and UTF-8 -------------------------------------------------------------------------

BYTES = small.build(small.document())
OWN_BYTES = own(small.document(), BYTES)  # the id of each byte is the byte
# One of each kind that the UTF-8 rules tell apart, and its neighbours.
EDGES = [
    *(0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1),
    *(0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF),
]


def test_invalid_utf8_is_replaced_as_the_reference_does() -> None:
    for length in (1, 2, 3):
        batch = [list(combination) for combination in itertools.product(EDGES, repeat=length)]
        assert OWN_BYTES.decode_batch(batch) == BYTES.decode_batch(batch)


@given(data=st.lists(st.sampled_from(EDGES) | st.integers(0, 255), max_size=24), cut=st.integers(0, 24))
def test_streams_of_any_bytes(data: list[int], cut: int) -> None:
    check(OWN_BYTES, BYTES, data, [min(cut, len(data))])
    assert OWN_BYTES.decode_bytes(data) == bytes(data)


def test_a_stream_holds_back_no_more_than_an_incomplete_character() -> None:
    stream = OWN_BYTES.stream()
    assert [stream.put(byte) for byte in "a漢b".encode()] == ["a", "", "", "漢", "b"]
    assert stream.put(0xE6) == "" and stream.flush() == "\ufffd"
    assert stream.put(0x41) == "A"  # as new after a flush


def test_a_step_does_not_depend_on_what_came_before() -> None:
    """The state of a stream stays a few bytes, however long the prompt was."""
    stream = OWN_BYTES.stream()
    stream.prime(np.tile(np.array([0x41, 0xE6, 0xBC, 0xA2], np.uint32), 250_000))
    pending, _ = stream._utf8.getstate()  # type: ignore[attr-defined]
    assert pending == b""
    assert stream.put(0x42) == "B"


# --- added tokens ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [None, "NFC", "NFKC"])
@pytest.mark.parametrize("kind", ["ByteLevel", "Fuse"])
def test_added_tokens(form: str | None, kind: str) -> None:
    """Spaces and other characters outside the byte alphabet, specials, normalized contents."""
    contents = ["<a>", "a b", "Ġx", "漢", "e\u0301", "ﬁ", "fi", "é", "a\u00a0", "Ã©"]
    flags = ["normalized", "special"]
    tokens = [
        small.added(content + "#" * n, 0, *chosen)
        for n, chosen in enumerate([(), flags[:1], flags[1:], flags])
        for content in contents
    ]
    # A special token whose normalized form is the content of another special token.
    tokens += [small.added("ﬁ#!", 0, *flags), small.added("fi#!", 0, "special")]
    document = small.document(
        added_tokens=tokens,
        normalizer={"type": form} if form else None,
        decoder={"type": kind, "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
    )
    judge = small.build(document)
    decoder = own(document, judge)
    top = judge.get_vocab_size() + 5
    for skip in (True, False):
        for i in range(top):
            assert decoder.decode([i], skip) == judge.decode([i], skip_special_tokens=skip), i
    check(decoder, judge, list(range(top)), [100, 270])


# --- chains -----------------------------------------------------------------------------------------

MARK = "\u2581"
STRINGS = [
    *(
        "a",
        "b",
        MARK,
        f"{MARK}a",
        f"a{MARK}{MARK}b",
        " ",
        "  a ",
        "",
        "é",
        "##a",
        "##",
        "a##",
        "</w>",
        "a</w>b</w>",
    ),
    *("<0x41>", "<0xC3>", "<0xA9>", "<0xE6>", "<0xBC>", "<0xA2>", "<0x0A>", "<0xff>", "<0x+F>", "<0xZZ>"),
    *(
        "<0xé>",
        ".",
        "?",
        "'",
        " n't",
        "n't",
        "'m",
        "do not",
        "do",
        "not",
        "'s",
        "Ġ",
        "Ã",
        "©",
        "漢",
        "aa",
        "aaa",
    ),
]
REPLACE = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}


def strip(content: str, start: int, stop: int = 0) -> dict[str, Any]:
    return {"type": "Strip", "content": content, "start": start, "stop": stop}


def chain(*decoders: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": list(decoders)}


def metaspace(scheme: str) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": True}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
CHAINS = [
    None,
    chain(REPLACE, FALLBACK, FUSE, strip(" ", 1)),
    chain(REPLACE, FALLBACK, FUSE),
    chain(strip(" ", 2), FUSE, strip("a", 3)),
    chain(FUSE, REPLACE),
    chain(FALLBACK, {"type": "Replace", "pattern": {"String": "aa"}, "content": "b"}),
    chain(),
    chain(chain(FALLBACK), metaspace("first")),
    chain(FALLBACK, strip("<", 1), FALLBACK, strip("\ufffd", 1), FUSE),
    chain(REPLACE, BYTE_LEVEL, strip(" ", 1)),
    FALLBACK,
    FUSE,
    strip("a", 1),
    REPLACE,
    metaspace("always"),
    metaspace("never"),
    {"type": "Metaspace", "replacement": MARK},
    {"type": "WordPiece", "prefix": "##", "cleanup": True},
    {"type": "WordPiece", "prefix": "##", "cleanup": False},
    {"type": "WordPiece", "prefix": "", "cleanup": True},
    {"type": "BPEDecoder", "suffix": "</w>"},
    {"type": "BPEDecoder", "suffix": ""},
]
REFERENCE_ONLY = [
    {"type": "CTC", "pad_token": "a", "word_delimiter_token": "|", "cleanup": True},
    chain(REPLACE, FUSE, strip("x", 0, 1)),
    chain(FUSE, {"type": "Replace", "pattern": {"String": "aa"}, "content": "b"}),
    {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"},
    chain(FUSE, metaspace("always")),
    chain(FUSE, BYTE_LEVEL),
]


def words(decoder: dict[str, Any] | None) -> dict[str, Any]:
    """A tokenizer whose vocabulary is ``STRINGS``, with a hole, and two added tokens after it."""
    vocab = {token: index + (index > 3) for index, token in enumerate(STRINGS)}
    top = len(STRINGS)
    return small.document(
        model={"type": "WordLevel", "vocab": vocab, "unk_token": "a"},
        added_tokens=[small.added("<s>", top, "special"), small.added(" + ", top)],
        pre_tokenizer=None,
        decoder=decoder,
    )


IDS = st.lists(st.integers(0, len(STRINGS) + 4), max_size=16)


@pytest.mark.parametrize("spec", CHAINS, ids=json.dumps)
def test_chains(spec: dict[str, Any] | None) -> None:
    document = words(spec)
    judge = small.build(document)
    decoder = own(document, judge)
    assert isinstance(decoder, ChainDecoder)

    @settings(max_examples=settings.default.max_examples // 2)
    @given(ids=IDS, cut=st.integers(0, 16))
    def each(ids: list[int], cut: int) -> None:
        check(decoder, judge, ids, [min(cut, len(ids))])
        assert decoder.decode_batch([ids, []]) == judge.decode_batch([ids, []])

    each()


@pytest.mark.parametrize("spec", REFERENCE_ONLY, ids=json.dumps)
def test_what_no_chain_can_do_is_left_to_the_reference(spec: dict[str, Any]) -> None:
    document = words(spec)
    judge = small.build(document)
    decoder = own(document, judge)
    assert isinstance(decoder, ReferenceDecoder) and "reference" in str(decoder.unsupported)

    @settings(max_examples=30)
    @given(ids=IDS)
    def each(ids: list[int]) -> None:
        ids = [document["model"]["vocab"]["b"], *ids]  # the reference aborts on stripping an empty text
        check(decoder, judge, ids, [len(ids) // 2])
        assert decoder.decode_bytes(ids, True).decode() == decoder.decode(ids)

    each()


def test_a_chain_gives_exact_bytes() -> None:
    document = words(CHAINS[1])
    decoder = own(document, small.build(document))
    ids = [document["model"]["vocab"][token] for token in ("<0xE6>", "a", "<0xC3>", "<0xff>", f"{MARK}a")]
    assert decoder.decode_bytes(ids) == b"\xe6a\xc3\xff a"
    assert decoder.decode(ids) == "\ufffda\ufffd\ufffd a"


def test_a_stream_gives_text_as_soon_as_it_is_certain() -> None:
    document = words(CHAINS[1])
    decoder = own(document, small.build(document))
    vocab = document["model"]["vocab"]
    stream = decoder.stream()
    steps = [stream.put(vocab[t]) for t in (MARK, f"{MARK}a", "<0xC3>", "<0xA9>", "b")]
    assert steps == ["", " a", "", "", "éb"]


# --- choosing, and ids ---------------------------------------------------------------------------------


def test_what_is_not_needed_is_not_built() -> None:
    def never() -> Any:
        raise AssertionError("built for nothing")

    pipeline = parse(small.document())
    tokens = token_bytes(small.vocabulary(), True)
    decoder = make_decoder(
        pipeline.decoder,
        table=lambda: (tokens.blob, tokens.offsets),
        tokens=never,
        reference=never,
        added_tokens=(),
        normalize=None,
    )
    assert isinstance(decoder, ByteLevelDecoder) and is_byte_level(pipeline.decoder)
    assert not is_byte_level(None)


@pytest.mark.parametrize(
    ("ids", "word"),
    [
        ([1, -1], "index 1"),
        ([2**32], "index 0"),
        ([1, 2, 2**70], "index 2"),
        ([-(2**70)], "index 0"),
        ([1.0], "float"),
        ([1, "2"], "index 1"),
        ([None], "NoneType"),
        ("12", "str"),
        (b"12", "bytes"),
        (7, "int"),
        (np.array([1.5]), "float64"),
        (np.array([True]), "bool"),
        (np.array([[1, 2]]), "2 dimensions"),
        (np.array([3, -2], np.int8), "index 1"),
        (np.array([1, 2**40], np.uint64), "index 1"),
    ],
)
def test_values_that_are_no_ids(ids: Any, word: str) -> None:
    for method in (OWN_BYTES.decode, OWN_BYTES.decode_bytes, OWN_BYTES.stream().put_many):
        with pytest.raises(TokenIdError, match=word):
            method(ids)


@pytest.mark.parametrize("wrong", [-1, 2**32, 1.5, "1", None])
def test_a_value_that_is_no_id(wrong: Any) -> None:
    stream = OWN_BYTES.stream()
    stream.put(0xC3)
    with pytest.raises(TokenIdError, match="token id"):
        stream.put(wrong)
    assert stream.put(0xA9) == "é"  # nothing was lost


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64, ">u4"])
def test_arrays_of_any_integers(dtype: Any) -> None:
    ids = np.array([72, 105], dtype)
    assert OWN_BYTES.decode(ids) == "Hi"
    assert check_ids(ids).dtype == np.uint32


def test_other_iterables() -> None:
    for ids in ((72, 105), iter([72, 105]), [np.uint64(72), np.int8(105)], range(72, 73)):
        assert OWN_BYTES.decode(ids).startswith("H")
    assert OWN_BYTES.decode([]) == "" and OWN_BYTES.decode(np.array([])) == ""
