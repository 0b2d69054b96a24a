"""Comparing our engines with the reference, many short texts at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from conftest import artifact, reference
from tokenizers import Tokenizer as HuggingFace

from toktier import batching
from toktier.tokenizer import Special, Tokenizer

ENGINES = ("python", "numpy")


@cache
def engine(name: str) -> Tokenizer:
    """Our tokenizer of this name, one object per process."""
    return Tokenizer(artifact(name))


@cache
def literals(name: str) -> tuple[str, ...]:
    """The contents of the tokenizer's added tokens."""
    return tuple(token.content for token in reference(name).get_added_tokens_decoder().values())


class AsText:
    """A reference that takes special tokens for text in the calls made here; to make a copy would take seconds."""

    def __init__(self, judge: HuggingFace) -> None:
        self._judge = judge

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._judge, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self._judge.encode_special_tokens = True
            try:
                return method(*arguments, **options)
            finally:
                self._judge.encode_special_tokens = False

        return call


def as_text(name: str) -> AsText:
    """The reference with special tokens taken for text."""
    return AsText(reference(name))


@contextmanager
def truncating(name: str, length: int) -> Iterator[HuggingFace]:
    """The reference, truncating meanwhile."""
    judge = reference(name)
    judge.enable_truncation(length)
    try:
        yield judge
    finally:
        judge.no_truncation()


def shortest_failing(text: str, fails: Callable[[str], bool]) -> str:
    """A text that still fails but from which no stretch can be left out."""
    size = max(1, len(text) // 2)
    while size:
        at = 0
        while at < len(text):
            shorter = text[:at] + text[at + size :]
            if fails(shorter):
                text = shorter
            else:
                at += size
        size //= 2
    return text


def _compare_ids(
    tok: Tokenizer,
    judge: HuggingFace,
    texts: Sequence[str],
    right: list[list[int]],
    backend: str,
    special: Special,
    add_special_tokens: bool,
) -> None:
    found = tok.encode_batch(texts, add_special_tokens, special=special, backend=backend)
    assert len(found) == len(texts)
    wrong = [text for text, a, b in zip(texts, found, right, strict=True) if a != b]
    if not wrong:
        return

    def ours(text: str) -> list[int]:
        return tok.encode(text, add_special_tokens, special=special, backend=backend)

    def fails(text: str) -> bool:
        return ours(text) != judge.encode(text, add_special_tokens=add_special_tokens).ids

    where = f"{tok.name} ({backend}, special={special!r}): {len(wrong)} of {len(texts)} texts differ"
    text = min(wrong, key=len)
    if not fails(text):
        pytest.fail(f"{where} in a batch; {text[:500]!r} does not differ alone")
    text = shortest_failing(text, fails)
    right_ids = judge.encode(text, add_special_tokens=add_special_tokens).ids
    pytest.fail(f"{where}, such as {text!r}: {ours(text)} instead of {right_ids}")


def assert_ids(
    tok: Tokenizer,
    judge: HuggingFace,
    texts: Sequence[str],
    backends: Sequence[str] = ENGINES,
    *,
    special: Special = "encode",
    add_special_tokens: bool = False,
) -> None:
    """All texts in one call; a difference is reported on the shortest text that shows it."""
    right = [e.ids for e in judge.encode_batch_fast(list(texts), add_special_tokens=add_special_tokens)]
    for backend in backends:
        _compare_ids(tok, judge, texts, right, backend, special, add_special_tokens)


def assert_words(tok: Tokenizer, judge: HuggingFace, texts: Sequence[str]) -> list[list[int]]:
    """Texts one by one, as a batch, and as one text, whose words are many and new; the ids of each by itself."""
    together, right = " ".join(texts), [judge.encode(text).ids for text in texts]
    for backend in ENGINES:
        assert tok.encode(together, backend=backend) == judge.encode(together).ids
        assert tok.encode_batch(texts, backend=backend) == right
        for text, ids in zip(texts, right, strict=True):
            assert tok.encode(text, backend=backend) == ids, text
    return right


@cache
def _token_sizes(name: str) -> dict[int, int]:
    """Bytes that each id of a byte-level tokenizer stands for."""
    sizes = {id: len(token) for token, id in reference(name).get_vocab(with_added_tokens=False).items()}
    for id, token in reference(name).get_added_tokens_decoder().items():
        assert not (token.lstrip or token.rstrip), "the size of such a token depends on the text"
        sizes[id] = len(token.content.encode())
    return sizes


def assert_same(name: str, texts: Sequence[str], backends: Sequence[str] = ENGINES) -> None:
    """Ids, and the pieces as well: equal ids can hide a wrong split.

    The reference says of each token which piece it is from; with a byte-level tokenizer that gives the sizes
    of the pieces in bytes.
    """
    sizes = _token_sizes(name)
    right_ids: list[list[int]] = []
    right_pieces: list[list[int]] = []
    for encoding in reference(name).encode_batch(list(texts), add_special_tokens=False):
        right_ids.append(encoding.ids)
        pieces: list[int] = []
        last = -1
        for id, word in zip(encoding.ids, encoding.word_ids, strict=True):
            if word != last:
                pieces.append(0)
                last = word
            pieces[-1] += sizes[id]
        right_pieces.append(pieces)
    for backend in backends:
        _compare_ids(engine(name), reference(name), texts, right_ids, backend, "encode", False)
        found = _piece_sizes(engine(name), texts, backend)
        wrong = [i for i in range(len(texts)) if found[i] != right_pieces[i]]
        if wrong:
            i = min(wrong, key=lambda i: len(texts[i]))
            pytest.fail(
                f"{name} ({backend}): {len(wrong)} of {len(texts)} texts are cut otherwise, such as "
                f"{texts[i][:2000]!r}: pieces of {found[i]} bytes instead of {right_pieces[i]}"
            )


def _piece_sizes(tok: Tokenizer, texts: Sequence[str], backend: str) -> list[list[int]]:
    """By one of our engines; all texts at once where that is what the engine is for."""
    if backend == "python":
        found = [tok.piece_starts(text, backend=backend) for text in texts]
        return [_sizes(text, starts.tolist()) for text, starts in found]
    prepared = [tok._prepare(text, "encode") for text in texts]
    joined, seams = batching.join(prepared)
    starts = tok._backends[backend].piece_starts(joined)
    ends = joined.starts[seams]
    stops = np.searchsorted(starts, ends)
    result, begin, first = [], 0, 0
    for text, end, stop in zip(prepared, ends.tolist(), stops.tolist(), strict=True):
        assert starts[stop] == end, "a seam is a piece of its own"
        result.append(_sizes(text.text, (starts[first:stop] - begin).tolist()))
        begin, first = end + 1, stop + 1
    return result


def _sizes(text: str, starts: list[int]) -> list[int]:
    bounds = [*starts, len(text)] if text else []
    return [len(text[start:stop].encode()) for start, stop in pairwise(bounds)]
