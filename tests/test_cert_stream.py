"""A text in chunks: every id as soon as it is certain, and all together those of the whole."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterable

import numpy as np
import pytest
from certified import judge, texts_for
from conftest import reference, tokenizers
from judge import engine

from toktier.errors import LoneSurrogateError, SpecialTokenError, TextTypeError
from toktier.tokenizer import Special, Tokenizer


def fed(
    tok: Tokenizer, chunks: Iterable[str], special: Special = "encode", backend: str | None = None
) -> list[int]:
    """All ids; what has been given never changes, so each part is checked to be an array and appended."""
    stream = tok.stream_encoder(special=special, backend=backend)
    found: list[int] = []
    for chunk in chunks:
        ids = stream.feed(chunk)
        assert ids.dtype == np.uint32
        found += ids.tolist()
    found += stream.flush().tolist()
    assert stream.pending == ""
    return found


def chunkings(text: str) -> Iterable[list[str]]:
    """All ways to cut a short text into chunks that are not empty."""
    for edges in itertools.product((False, True), repeat=max(0, len(text) - 1)):
        bounds = [0, *(i for i, edge in enumerate(edges, 1) if edge), len(text)]
        yield [text[a:b] for a, b in itertools.pairwise(bounds)]


def in_random_chunks(text: str, random_: random.Random, sizes: tuple[int, ...]) -> list[str]:
    chunks, at = [], 0
    while at < len(text):
        size = random_.choice(sizes)
        chunks.append(text[at : at + size])
        at += size
    return chunks


SHORT = ("it's  1", "a \n\n b", "e\u0301 \u0301x", "  中 é", "x.\n'S", "\t\tab", "12 345")


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", "llama2"))
def test_all_chunkings_of_short_texts(name: str) -> None:
    tok, by = engine(name), judge(name)
    word = min(by.words, key=len)
    for text in (*SHORT, f"a{word}b"[:8], f" {word[:4]} x", ""):
        expected = by.whole.encode(text).ids
        for chunks in chunkings(text):
            assert fed(tok, chunks) == expected, chunks


def assert_streams(name: str, seed: int, count: int) -> None:
    tok, by = engine(name), judge(name)
    random_ = random.Random(seed)
    texts = texts_for(by.words, seed, count)
    texts.append("".join(texts[:40]))
    for text in texts:
        expected = reference(name).encode(text).ids
        assert fed(tok, in_random_chunks(text, random_, (1, 1, 2, 3, 7, 40))) == expected, text
    by.whole.encode_special_tokens = True
    try:
        for text in texts[: count // 3]:
            expected = by.whole.encode(text).ids
            if tok._streams:
                chunks = in_random_chunks(text, random_, (1, 2, 5))
                assert fed(tok, chunks, special="text") == expected, text
    finally:
        by.whole.encode_special_tokens = False


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", "gpt-oss", "deepseek-v3", "llama2", "bert_uncased"))
def test_random_chunks(name: str) -> None:
    assert_streams(name, 3, 60)


@pytest.mark.campaign
@pytest.mark.parametrize("name", tokenizers())
def test_random_chunks_of_every_tokenizer(name: str) -> None:
    assert_streams(name, 4, 1_500)


@pytest.mark.parametrize("backend", ["reference", "python", "numpy"])
def test_every_backend(backend: str) -> None:
    tok, text = engine("qwen3"), "It's <|im_start|>e\u0301 12  x\n" * 40
    assert fed(tok, in_random_chunks(text, random.Random(1), (5, 9)), backend=backend) == tok.encode(text)


ORDINARY = (
    "The quick brown fox jumps over the lazy dog; it's 1,234 o'clock.\n\nDéjà vu: 你好 <b>x</b>\t== y\n" * 40
)


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", "gpt-oss", "deepseek-v3", "llama2", "deepseek_llm"))
def test_ids_come_early(name: str) -> None:
    """In ordinary text a few characters wait for their ids, and most ids have been given before the end."""
    tok = engine(name)
    stream = tok.stream_encoder()
    given, waiting = 0, []
    for char in ORDINARY:
        given += len(stream.feed(char))
        waiting.append(len(stream.pending))
    assert max(waiting) <= 32
    assert sum(waiting) / len(waiting) < 8
    rest = len(stream.flush())
    assert given + rest == len(tok.encode(ORDINARY)) and rest < 16


@pytest.mark.parametrize("name", tokenizers("llama2", "bert_uncased"))
def test_special_tokens_around_the_text(name: str) -> None:
    tok = engine(name)
    stream = tok.stream_encoder(add_special_tokens=False)
    ids = [*stream.feed("Hello wor"), *stream.feed("ld and more"), *stream.flush()]
    assert ids == tok.encode("Hello world and more", add_special_tokens=False)
    assert fed(tok, ["Hello wor", "ld and more"]) == tok.encode("Hello world and more")


def test_a_stream_begins_anew_after_flush() -> None:
    stream = engine("gpt2").stream_encoder()
    for text in ("one two", "", "three"):
        ids = [*stream.feed(text), *stream.flush()]
        assert ids == engine("gpt2").encode(text)


def test_special_tokens_that_are_refused() -> None:
    """Whole or in parts, they are refused where they begin, and the stream goes on without the chunk."""
    tok = engine("qwen3")
    stream = tok.stream_encoder(special="raise")
    ids = stream.feed("Hello there ").tolist()
    with pytest.raises(SpecialTokenError) as caught:
        ids += stream.feed("x <|im_start|> and more ").tolist()
    assert (caught.value.token, caught.value.index) == ("<|im_start|>", 14)
    ids += stream.feed("x <|im_st").tolist()
    with pytest.raises(SpecialTokenError) as caught:
        stream.feed("art|> and more words ")
    assert caught.value.index == 14
    ids += stream.feed("op|> y").tolist()
    ids += stream.flush().tolist()
    assert ids == tok.encode("Hello there x <|im_stop|> y")


def test_a_special_token_at_the_end_of_a_chunk_is_refused_with_what_follows() -> None:
    """It might have become a longer token; `flush` drops it, and the stream is as new."""
    stream = engine("qwen3").stream_encoder(special="raise")
    stream.feed("hello <|im_end|>")
    with pytest.raises(SpecialTokenError):
        stream.feed(" and more text")
    with pytest.raises(SpecialTokenError) as caught:
        stream.flush()
    assert caught.value.index == 6
    assert stream.pending == ""
    assert [*stream.feed("hello again"), *stream.flush()] == engine("qwen3").encode("hello again")


def test_bad_chunks_are_not_taken() -> None:
    tok = engine("gpt2")
    stream = tok.stream_encoder()
    ids = stream.feed("Hello wor").tolist()
    pending = stream.pending
    with pytest.raises(TextTypeError):
        stream.feed(b"ld")  # type: ignore[arg-type]
    with pytest.raises(LoneSurrogateError) as caught:
        stream.feed("ab\ud800")
    assert caught.value.index == 2
    assert stream.pending == pending
    ids += [*stream.feed("ld and more"), *stream.flush()]
    assert ids == tok.encode("Hello world and more")


def test_a_run_without_cuts_is_not_looked_at_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million letters in small chunks: what is looked at grows with the text, not with its square."""
    tok = engine("gpt2")
    looked = 0
    last = tok._cuts.__class__.last

    def counted(self: object, text: str, low: int, high: int, closes: bool = False) -> int | None:
        nonlocal looked
        looked += high - max(0, low)
        return last(self, text, low, high, closes)  # type: ignore[arg-type]

    monkeypatch.setattr(tok._cuts.__class__, "last", counted)
    stream = tok.stream_encoder()
    text = "a" * 1_000_000
    for start in range(0, len(text), 100):
        assert len(stream.feed(text[start : start + 100])) == 0
    assert looked < 3 * len(text)
    assert stream.flush().tolist() == tok.encode(text)


@pytest.mark.parametrize("name", tokenizers("gpt2", "llama2"))
def test_copies_of_a_stream_go_their_own_ways(name: str) -> None:
    """Those of decoders, too: several candidates may continue one text."""
    tok = engine(name)
    stream = tok.stream_encoder()
    before = stream.feed("One two tw").tolist()
    for other, end in ((copy.copy(stream), "elve"), (copy.deepcopy(stream), "o"), (stream, "ist")):
        assert [*before, *other.feed(end), *other.flush()] == tok.encode("One two tw" + end)
    head, *rest = tok.encode("\U0001f9ff", add_special_tokens=False)
    decoder = tok.stream_decoder()
    decoder.put(head)
    copies = [copy.copy(decoder), copy.deepcopy(decoder), decoder]
    assert {copy.put_many(rest) + copy.flush() for copy in copies} == {tok.decode([head, *rest])}
