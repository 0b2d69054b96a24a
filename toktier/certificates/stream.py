"""Encoding a text that arrives in chunks: each id is given as soon as it is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecialTokenError
from ..explanation import counted
from ..segments import NO_IDS

if TYPE_CHECKING:
    from ..tokenizer import Special, Tokenizer


class StreamEncoder:
    """Takes a text in chunks; made by :meth:`toktier.Tokenizer.stream_encoder`.

    All ids that :meth:`feed` and :meth:`flush` give, one after the other, are those that ``encode`` gives for the
    whole text.  An id is *final* once a certified cut lies behind it: what is left of a cut depends on nothing
    beyond the character behind it, so nothing that arrives later can change it.  The tail after the last cut is
    kept, a few characters in ordinary text; for a tokenizer without certificate, or one that truncates or pads,
    everything is kept until the end.
    """

    def __init__(
        self, tokenizer: Tokenizer, add_special_tokens: bool, special: Special, backend: str | None
    ) -> None:
        self._tokenizer = tokenizer
        self._add_special_tokens = add_special_tokens
        self._special: Special = special
        self._backend = backend
        self._restart()

    def _restart(self) -> None:
        self._chunks: list[str] = []
        self._recent = ""  # the end of what is kept, as far back as an added token may reach
        self._done = 0  # characters whose ids have been given
        self._before = ""  # the last of these

    def __copy__(self) -> StreamEncoder:
        found = object.__new__(StreamEncoder)
        found.__dict__ |= self.__dict__
        found._chunks = [*self._chunks]
        return found

    def __repr__(self) -> str:
        pending = counted(sum(map(len, self._chunks)), "character")
        return f"<toktier.StreamEncoder {self._tokenizer.name} {pending} pending>"

    @property
    def pending(self) -> str:
        """The text whose ids are not certain yet."""
        return "".join(self._chunks)

    def feed(self, chunk: str) -> NDArray[np.uint32]:
        """The ids that are certain now and were not before: uint32, often none.

        Raises :class:`~toktier.errors.TextTypeError` and :class:`~toktier.errors.LoneSurrogateError` for what is
        no text, and :class:`~toktier.errors.SpecialTokenError` where ``special="raise"`` asks for it; such a chunk
        is not taken.  A special token at the end of a chunk may still become a longer one: it is :attr:`pending`,
        and what comes next raises the error, :meth:`flush` at the latest.
        """
        tokenizer = self._tokenizer
        chunk = tokenizer._check_chunk(chunk)
        cuts = tokenizer._cuts_where(self._special)
        reach = cuts.longest_literal
        near = self._recent + chunk
        # what was looked at before has no cut, but where the text might have gone on with an added token
        known = max(0, len(self._recent) - reach)
        found = cuts.last(near, known, len(near)) if tokenizer._streams else None
        if found is None:
            self._chunks.append(chunk)
            self._recent = near[-2 * reach - 1 :]
            return NO_IDS
        text = self.pending + chunk
        cut = len(text) - len(near) + found
        if self._special == "raise":
            tokenizer._raise_special(text[:cut], self._done, self._before)
        ids = tokenizer._left_of(text, cut, self._special, self._backend, continuing=self._done > 0)
        if self._done == 0:
            ids = np.concatenate((self._around()[0], ids))
        self._chunks, self._recent = [text[cut:]], text[cut:][-2 * reach - 1 :]
        self._done += cut
        self._before = text[cut - 1]
        return ids

    def flush(self) -> NDArray[np.uint32]:
        """The ids of what is left; the text ends here, and the next chunk begins another one.

        Raises :class:`~toktier.errors.SpecialTokenError` where ``special="raise"`` asks for it; what was pending
        is dropped then, and the next chunk begins another text, too.
        """
        tokenizer, text = self._tokenizer, self.pending
        if self._special == "raise":
            try:
                tokenizer._raise_special(text, self._done, self._before)
            except SpecialTokenError:
                self._restart()
                raise
        if self._done == 0:
            ids = tokenizer.encode_to_numpy(
                text, self._add_special_tokens, special=self._special, backend=self._backend
            )
        else:
            ids = tokenizer._encode_part(text, self._special, self._backend, continuing=True)
            ids = np.concatenate((ids, self._around()[1]))
        self._restart()
        return ids

    def _around(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """The special ids before and after a text."""
        post = self._tokenizer._post
        if not self._add_special_tokens:
            return NO_IDS, NO_IDS
        return np.array(post.prefix, np.uint32), np.array(post.suffix, np.uint32)
