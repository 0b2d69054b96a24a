"""What no other decoder covers."""

from __future__ import annotations

from collections.abc import Callable

from tokenizers import Tokenizer as ReferenceTokenizer

from ..backends.reference import failures
from .base import Decoder, StreamDecoder
from .ids import Ids, check_id, check_ids


class ReferenceDecoder(Decoder):
    """Lets the reference decode.

    Its streams hold everything back until ``flush``: what such a decoder makes of a token
    can depend on all that follow.  ``decode_bytes`` is the UTF-8 form of the text.
    """

    def __init__(self, reference: Callable[[], ReferenceTokenizer], unsupported: str) -> None:
        self._reference = reference
        self.unsupported = unsupported

    def decode(self, ids: Ids, skip_special_tokens: bool = True) -> str:
        values = check_ids(ids).tolist()
        with failures():
            return self._reference().decode(values, skip_special_tokens=skip_special_tokens)

    def decode_bytes(self, ids: Ids, skip_special_tokens: bool = False) -> bytes:
        return self.decode(ids, skip_special_tokens).encode()

    def stream(self, skip_special_tokens: bool = True) -> StreamDecoder:
        return _HeldStream(self, skip_special_tokens)


class _HeldStream(StreamDecoder):
    def __init__(self, decoder: ReferenceDecoder, skip_special_tokens: bool) -> None:
        self._decoder = decoder
        self._skip = skip_special_tokens
        self._ids: list[int] = []

    def put(self, token_id: int) -> str:
        self._ids.append(check_id(token_id))
        return ""

    def put_many(self, ids: Ids) -> str:
        self._ids += check_ids(ids).tolist()
        return ""

    def flush(self) -> str:
        ids, self._ids = self._ids, []
        return self._decoder.decode(ids, self._skip)
