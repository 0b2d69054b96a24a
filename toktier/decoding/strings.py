"""The strings of a vocabulary, made when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from ..bpe.tables import TokenBytes, shown_bytes


class TokenStrings(Sequence[str | None]):
    """The strings that a vocabulary has in its file, by id; None for an id that is not in use."""

    def __init__(self, tokens: TokenBytes) -> None:
        self._tokens = tokens

    def __len__(self) -> int:
        return len(self._tokens.present)

    @overload
    def __getitem__(self, token_id: int) -> str | None: ...

    @overload
    def __getitem__(self, token_id: slice) -> list[str | None]: ...

    def __getitem__(self, token_id: int | slice) -> str | list[str | None] | None:
        if isinstance(token_id, slice):
            return [self[each] for each in range(*token_id.indices(len(self)))]
        if not self._tokens.present[token_id]:
            return None
        start, stop = self._tokens.offsets[token_id : token_id + 2].tolist()
        own = self._tokens.blob[start:stop].tobytes()
        return shown_bytes(own) if self._tokens.in_alphabet[token_id] else own.decode("utf-8")
