"""The ``reference`` backend: Hugging Face ``tokenizers`` on the full text.

It is the oracle of this project and its last fallback.  It takes raw text, not prepared text: added tokens,
normalizer and post-processor are its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, __version__

from ..artifact import Artifact
from ..errors import ArtifactError, ReferenceFailedError
from ..lazy import lazy


def engine_version() -> str:
    """The installed version of the reference, which names its Unicode tables."""
    found: str = __version__  # what its distribution says takes 20 ms to find out
    return found


#: How an entry of a Unigram model begins that has lost its text.
_ENTRY = '["",'


class _Decimal(str):
    """A number as it is written."""


def _without_text(entry: Any) -> str:
    """The JSON of a Unigram model's entry; one that the reference refuses stays as it is."""
    if type(entry) is list and len(entry) == 2 and type(entry[0]) is str and type(entry[1]) in (_Decimal, int):
        return f"{_ENTRY}{entry[1]}]"
    return json.dumps(entry)


def _gave_up(problem: BaseException) -> bool:
    """Whether it is the reference's own: a bare ``Exception``, or a panic, which is not even that."""
    return type(problem) is Exception or type(problem).__name__ == "PanicException"


@contextmanager
def failures() -> Iterator[None]:
    """Turn what the reference raises where it cannot go on into an error of ours."""
    try:
        yield
    except BaseException as problem:
        if not _gave_up(problem):
            raise
        raise ReferenceFailedError(
            f"the reference gave up on this text ({problem}); encode it in parts, or with another backend if the "
            "tokenizer has one"
        ) from problem


def refusal(document: Mapping[str, Any]) -> str | None:
    """Why the reference refuses a decoded ``tokenizer.json``, asked without vocabulary and merges; or None.

    What it says about these two alone (merges of tokens that are not there, say) is not asked here.
    """
    model = document["model"]
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, list) and model.get("type", "Unigram") == "Unigram":
        model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}  # its scores are asked of the whole file
    else:
        model = model | {"vocab": type(vocabulary)()} | ({"merges": []} if "merges" in model else {})
    try:
        Tokenizer.from_str(json.dumps({**document, "model": model}))
    except BaseException as problem:
        if not _gave_up(problem):
            raise
        return str(problem).partition(" at line ")[0]
    return None


class Reference:
    """The reference objects of one artifact, made on first use and never changed afterwards.

    The reference keeps its settings (truncation, whether special tokens in the text count) on a shared
    object; here every combination in use has an object of its own, so that no call can affect another.
    """

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._truncating: dict[tuple[bool, int], Tokenizer] = {}

    def _new(self, *, as_text: bool = False) -> Tokenizer:
        """Made from the artifact: a copy of an object forgets ``encode_special_tokens``, and more.

        ``as_text``: special tokens in the text are taken for plain text.
        """
        tokenizer = self._loaded(self._artifact.read().decode("utf-8"))
        tokenizer.encode_special_tokens = as_text
        return tokenizer

    def _loaded(self, content: str) -> Tokenizer:
        try:
            return Tokenizer.from_str(content)
        except BaseException as problem:
            if not _gave_up(problem):
                raise
            raise ArtifactError(
                f"{self._artifact.name} is not a tokenizer.json that the installed tokenizers can load: {problem}"
            ) from problem

    @lazy
    def plain(self) -> Tokenizer:
        """The engine's object as the artifact says."""
        return self._new()

    @lazy
    def shown(self) -> Tokenizer:
        """One more, for callers: they may change it."""
        return self._new()

    @lazy
    def as_text(self) -> Tokenizer:
        """One that takes special tokens in the text for plain text."""
        return self._new(as_text=True)

    @lazy
    def bare(self) -> Tokenizer:
        """One without truncation and padding."""
        return self._without_limits(self.plain)

    @lazy
    def _bare_as_text(self) -> Tokenizer:
        return self._without_limits(self.as_text)

    def unigram_scores(self) -> NDArray[np.float64]:
        """The scores of a Unigram model, as the reference has them: decimals are not all read as by Python.

        It is given the entries with one and the same text, since it takes long to sort real ones into its tables.
        """
        model = json.loads(self._artifact.read(), parse_float=_Decimal)["model"]
        entries = ",".join([_without_text(entry) for entry in model.pop("vocab")])
        model = {name: float(value) if isinstance(value, _Decimal) else value for name, value in model.items()}
        rest = json.dumps(model).removeprefix("{")
        content = f'{{"version": "1.0", "added_tokens": [], "model": {{"vocab": [{entries}], {rest}}}'
        state = self._loaded(content).model.__getstate__().decode()
        scores = state[state.index("[") + 1 : state.rindex("]")].replace(_ENTRY, "").replace("]", "")
        return np.array(json.loads(f"[{scores}]"), np.float64)

    def _without_limits(self, tokenizer: Tokenizer) -> Tokenizer:
        if tokenizer.truncation is None and tokenizer.padding is None:
            return tokenizer
        limitless = self._new(as_text=tokenizer.encode_special_tokens)
        limitless.no_truncation()
        limitless.no_padding()
        return limitless

    @lazy
    def _finder(self) -> tuple[Tokenizer, dict[int, str]]:
        """An object whose model knows no text, so that all ids are those of added tokens, and their contents.

        A model may give a special token's id by itself, as WordPiece the unknown one, with the token nowhere in
        the text.
        """
        model = {"type": "BPE", "vocab": {}, "merges": []}
        without = dict.fromkeys(("pre_tokenizer", "post_processor", "decoder", "truncation", "padding"))
        finder = Tokenizer.from_str(json.dumps({**self._artifact.document(), **without, "model": model}))
        return finder, {id: token.content for id, token in finder.get_added_tokens_decoder().items()}

    def added_tokens(self, text: str) -> list[tuple[int, str]]:
        """Where in ``text`` added tokens begin, in characters, and their contents."""
        finder, contents = self._finder
        with failures():
            found = finder.encode(text, add_special_tokens=False)
        return [(start, contents[id]) for (start, _), id in zip(found.offsets, found.ids, strict=True)]

    def model_ids(self, text: str, special: str) -> NDArray[np.uint32]:
        """The ids of ``text`` before post-processing, truncation and padding."""
        return self.model_batch([text], special)[0]

    def model_batch(self, texts: Sequence[str], special: str) -> list[NDArray[np.uint32]]:
        """The ids of several texts before post-processing, truncation and padding, on all cores."""
        tokenizer = self._bare_as_text if special == "text" else self.bare
        with failures():
            found = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.uint32) for encoding in found]

    def _object(self, special: str, max_length: int | None) -> Tokenizer:
        tokenizer = self.as_text if special == "text" else self.plain
        if max_length is None:
            return tokenizer
        found = self._truncating.get((special == "text", max_length))
        if found is None:
            direction = (tokenizer.truncation or {}).get("direction", "right")
            found = self._new(as_text=special == "text")
            found.enable_truncation(max_length, direction=direction)
            self._truncating = {(special == "text", max_length): found}  # copies are large: keep the last one
        return found

    def ids(self, text: str, add_special_tokens: bool, special: str, max_length: int | None) -> NDArray[np.uint32]:
        """``encode(text).ids`` as a uint32 array."""
        tokenizer = self._object(special, max_length)
        with failures():
            found = tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return np.array(found.ids, np.uint32)

    def batch(
        self, texts: Sequence[str], add_special_tokens: bool, special: str, max_length: int | None
    ) -> list[NDArray[np.uint32]]:
        """``encode_batch(texts)``, the ids as uint32 arrays."""
        tokenizer = self._object(special, max_length)
        with failures():
            found = tokenizer.encode_batch(list(texts), add_special_tokens=add_special_tokens)
        return [np.array(encoding.ids, np.uint32) for encoding in found]

    def offsets(
        self, text: str, add_special_tokens: bool, special: str, max_length: int | None
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Ids, and offsets in characters as an int64 array of shape (ids, 2)."""
        tokenizer = self._object(special, max_length)
        with failures():
            found = tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return np.array(found.ids, np.uint32), np.array(found.offsets, np.int64).reshape(-1, 2)
