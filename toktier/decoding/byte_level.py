"""Byte-level vocabularies: one table of bytes."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..pipeline import AddedToken
from .base import Decoder, ShownTokens, StreamDecoder, added_strings, string_bytes
from .ids import Ids, check_id, check_ids, list_of_ids

ByteTable: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""The bytes of all tokens of a vocabulary, end to end, and where each begins (size + 1 entries)."""

#: Up to so many ids are looked up one by one; array calls begin to pay at some hundred.
_FEW = 800
_BLOCK = 8192  # ids looked up at a time: the index arrays then stay in the processor's cache


class ByteLevelDecoder(Decoder):
    """Decodes by looking up the bytes of each id.

    ``table``
        The bytes that the tokens of the model's vocabulary stand for (a string with a
        character that stands for no byte: its UTF-8 form; an id not in use: none).
    ``added_tokens``
        With the ids that the reference gives them; they take precedence.
    ``normalize``
        The normalizer, for added tokens that are matched in normalized text; None if the
        pipeline has none.
    """

    def __init__(
        self,
        table: ByteTable,
        added_tokens: Iterable[AddedToken] = (),
        normalize: Callable[[str], str] | None = None,
    ) -> None:
        blob, offsets = table
        added = added_strings(added_tokens, normalize)
        size = max(len(offsets) - 1, max(added, default=-1) + 1)
        # One entry more, of no bytes, stands for every id beyond the vocabulary.
        self._starts = np.zeros(size + 1, np.int32)
        self._lengths = np.zeros(size + 1, np.int32)
        self._starts[: len(offsets) - 1] = offsets[:-1]
        self._lengths[: len(offsets) - 1] = np.diff(offsets)
        parts, end = [blob], len(blob)
        for token_id, (string, _) in added.items():
            own = np.frombuffer(string_bytes(string), np.uint8)
            parts.append(own)
            self._starts[token_id], self._lengths[token_id] = end, len(own)
            end += len(own)
        self._blob = np.concatenate(parts)
        shown = self._lengths.copy()  # the lengths when special tokens are left out
        shown[[token_id for token_id, (_, special) in added.items() if special]] = 0
        self._tables = (self._lengths, shown)  # by `skip_special_tokens`, as the next
        self._tokens = tuple(ShownTokens(partial(self._bytes_of, table), size, b"") for table in self._tables)

    def _bytes_of(self, table: NDArray[np.int32], token_id: int) -> bytes:
        start = int(self._starts[token_id])
        return self._blob[start : start + int(table[token_id])].tobytes()

    def decode(self, ids: Ids, skip_special_tokens: bool = True) -> str:
        return self._gather(ids, skip_special_tokens).decode("utf-8", "replace")

    def decode_bytes(self, ids: Ids, skip_special_tokens: bool = False) -> bytes:
        return self._gather(ids, skip_special_tokens)

    def stream(self, skip_special_tokens: bool = True) -> StreamDecoder:
        return _ByteLevelStream(self, skip_special_tokens)

    def _gather(self, ids: Ids, skip_special_tokens: bool) -> bytes:
        table, tokens = self._tables[skip_special_tokens], self._tokens[skip_special_tokens]
        if isinstance(ids, (list, tuple)) and len(ids) <= _FEW:
            return b"".join(map(tokens.__getitem__, list_of_ids(ids)))
        array = check_ids(ids)
        if len(array) <= _FEW:
            return b"".join(map(tokens.__getitem__, array.tolist()))
        last = np.uint32(len(table) - 1)
        parts = []
        for begin in range(0, len(array), _BLOCK):
            block = np.minimum(array[begin : begin + _BLOCK], last)
            lengths = table[block]
            ends = np.cumsum(lengths, dtype=np.int32)
            index = np.repeat(self._starts[block] - (ends - lengths), lengths)
            index += np.arange(len(index), dtype=np.int32)
            parts.append(self._blob[index].tobytes())
        return b"".join(parts)


class _ByteLevelStream(StreamDecoder):
    def __init__(self, decoder: ByteLevelDecoder, skip_special_tokens: bool) -> None:
        self._decoder = decoder
        self._skip = skip_special_tokens
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def put(self, token_id: int) -> str:
        return self._utf8.decode(self._decoder._tokens[self._skip][check_id(token_id)])

    def put_many(self, ids: Ids) -> str:
        return self._utf8.decode(self._decoder._gather(ids, self._skip))

    def flush(self) -> str:
        text = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return text
