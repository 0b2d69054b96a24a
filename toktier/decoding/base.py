"""What all decoders share."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ..added_tokens import decodes_to_normalized
from ..bpe.tables import byte_alphabet
from ..errors import TokenIdError
from ..pipeline import AddedToken
from .ids import Ids

Shown = TypeVar("Shown")


class StreamDecoder(ABC):
    """Decodes ids as they arrive.

    The strings returned by :meth:`put`, :meth:`put_many` and :meth:`flush`, put together,
    are the decoder's ``decode`` of all ids.  Each output holds only complete characters;
    what may still change is held back until it is certain.  One stream belongs to one
    thread at a time.
    """

    def __repr__(self) -> str:
        return "<toktier.StreamDecoder>"

    def __copy__(self) -> StreamDecoder:
        return copy.deepcopy(self)  # which goes its own way; the decoder is shared

    @abstractmethod
    def put(self, token_id: int) -> str:
        """Take one id and return the text that has become certain, maybe none.

        Raises :class:`~toktier.errors.TokenIdError` if it is no unsigned 32-bit integer.
        """

    @abstractmethod
    def put_many(self, ids: Ids) -> str:
        """Take several ids and return the text that has become certain; errors are those of :meth:`put`."""

    @abstractmethod
    def flush(self) -> str:
        """Return what was held back.  The stream is then as new."""

    def prime(self, ids: Ids) -> None:
        """Take ids whose text is known already, a prompt say, and return nothing.

        A character that the prompt leaves incomplete comes out whole once it is complete.
        """
        self.put_many(ids)


class Decoder(ABC):
    """Ids to text.  Instances are immutable and can be shared between threads."""

    unsupported: str | None = None
    """Why the reference does the work, or None."""

    def __deepcopy__(self, memo: object) -> Decoder:
        return self

    @abstractmethod
    def decode(self, ids: Ids, skip_special_tokens: bool = True) -> str:
        """The text of ``ids``, equal to the reference's ``decode``.

        Raises :class:`~toktier.errors.TokenIdError` if a value is no unsigned 32-bit integer.
        """

    @abstractmethod
    def decode_bytes(self, ids: Ids, skip_special_tokens: bool = False) -> bytes:
        """The bytes of ``ids``, without replacing what is not UTF-8.

        Unlike :meth:`decode` it includes special tokens unless told not to.
        """

    @abstractmethod
    def stream(self, skip_special_tokens: bool = True) -> StreamDecoder:
        """A new stream."""

    def decode_batch(self, batch: Iterable[Ids], skip_special_tokens: bool = True) -> list[str]:
        """The text of each sequence of ids."""
        if not isinstance(batch, Iterable):
            raise TokenIdError(f"a batch must be a list of sequences of ids, not {type(batch).__name__}")
        return [self.decode(ids, skip_special_tokens) for ids in batch]


def string_bytes(token: str) -> bytes:
    """The bytes that a byte-level token string stands for.

    If one of its characters is not in the byte-level alphabet (an added token with a
    space, say), the whole string stands for its own UTF-8 form.
    """
    alphabet = byte_alphabet()
    try:
        return bytes([alphabet[char] for char in token])
    except KeyError:
        return token.encode("utf-8", "surrogateescape")  # `ByteFallback` may have left bytes that are no UTF-8


def added_strings(
    added_tokens: Iterable[AddedToken], normalize: Callable[[str], str] | None
) -> dict[int, tuple[str, bool]]:
    """For each added token's id the string it decodes to and whether it counts as special.

    A token that is matched in normalized text (or would be by an earlier entry) decodes to
    its normalized form, if the installed engine does so, and it is this form that the
    reference then looks for among the special tokens.
    """
    tokens = list(added_tokens)
    special = {token.content for token in tokens if token.special}
    strings = {token.id: token.content for token in tokens}
    if normalize is not None and decodes_to_normalized():
        changed = (token for token in tokens if token.normalized or token.once_normalized)
        strings |= {token.id: normalize(token.content) for token in changed}
    return {token_id: (string, string in special) for token_id, string in strings.items()}


class ShownTokens(dict[int, Shown], Generic[Shown]):
    """What each id is shown as, made when it is first asked for.

    An id beyond the vocabulary, of ``size`` ids, is shown as ``none``.
    """

    def __init__(self, make: Callable[[int], Shown], size: int, none: Shown) -> None:
        self._make = make
        self._size = size
        self._none = none

    def __missing__(self, token_id: int) -> Shown:
        if token_id >= self._size:
            return self._none
        return self.setdefault(token_id, self._make(token_id))
