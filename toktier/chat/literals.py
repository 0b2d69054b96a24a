"""Which added tokens of a rendered chat are tokens, and which are only somebody's text.

A *control token* is a special token, or an added token that the chat template itself writes (``<tool_call>``,
``<think>``), white space apart.  Control tokens count only where their writer may write them:

* a special token where every character of it is the template's;
* another control token where every character is the template's or stands in a trusted message.

Anywhere else they are plain text.  They are looked for in the text with all other writers' characters hidden, so
that nothing in a message can form a longer literal with what the template wrote and thereby swallow it.  Added
tokens that are no control tokens (runs of spaces, single letters, markup) are then looked for in what is left,
whoever wrote it.  Where no message holds a control token, this is what the reference finds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..added_tokens import AddedTokenMatcher, Matches
from ..errors import TokenOriginError
from ..front import HIDDEN, hide, merge
from .provenance import Origin, Runs

if TYPE_CHECKING:
    from ..pipeline import AddedToken


class ChatLiterals:
    """Finds the added tokens of chats rendered by one template.  Immutable.

    Parameters
    ----------
    tokens: all added tokens.
    written: the template's literal text, see :func:`~toktier.chat.rendering.literal_text`.
    """

    def __init__(self, tokens: Iterable[AddedToken], written: str) -> None:
        special, control, other = [], [], []
        for token in tokens:
            if not token.content:
                continue
            if token.special:
                special.append(token)
            elif token.content in written and not token.content.isspace():
                control.append(token)
            else:
                other.append(token)
        self._all_control = AddedTokenMatcher(special + control)
        self._control = AddedTokenMatcher(control)
        self._other = AddedTokenMatcher(other)
        self._contents = {token.id: token.content for token in special + control}
        #: Tokens at which a search can begin: what stands before them has no say in what follows.
        self.restarts = frozenset(token.id for token in special if not token.lstrip)
        self.longest = max(map(len, self._contents.values()), default=0)
        matchers = (self._all_control, self._control, self._other)
        self.unsupported = next((found.unsupported for found in matchers if found.unsupported), None)
        if self.unsupported is None and any(found.uses(HIDDEN) for found in matchers):
            self.unsupported = f"an added token contains the noncharacter {HIDDEN!r}"

    def find(self, text: str, runs: Runs, start: int = 0) -> Matches:
        """The added tokens in ``text``, whose characters come from where ``runs`` says.

        ``start``: only those from there on, where one of ``restarts`` begins; places are counted from it.
        Raises :class:`~toktier.errors.TokenOriginError` if one would hang on a character of unknown origin.
        """
        seen = {origin for _, origin in runs}
        text, runs = text[start:], tuple((stop - start, origin) for stop, origin in runs if stop > start)
        among = _only(text, runs, Origin.TEMPLATE)
        found = self._all_control.find(text, among=among)
        if Origin.UNKNOWN in seen:
            self._refuse_unknown(text, runs)
        if Origin.TRUSTED in seen and self._control:
            rest = hide(text, found)
            among = hide(_only(text, runs, Origin.TEMPLATE, Origin.TRUSTED), found)
            seen_there = self._control.find(rest, among=among)
            # what the template wrote alone has been decided upon
            found = merge(found, _chosen(seen_there, _touching(seen_there, runs, Origin.TRUSTED)))
        if self._other:
            found = merge(found, self._other.find(hide(text, found)))
        return found

    def _refuse_unknown(self, text: str, runs: Runs) -> None:
        """Raise for a literal that only characters of unknown origin keep from being the template's."""
        among = _only(text, runs, Origin.TEMPLATE, Origin.TRUSTED, Origin.UNKNOWN)
        seen = self._all_control.find(among)
        unclear = np.flatnonzero(_touching(seen, runs, Origin.UNKNOWN))
        if len(unclear):
            at = int(seen.starts[unclear[0]])
            token = self._contents[int(seen.ids[unclear[0]])]
            raise TokenOriginError(
                f"the rendered chat has {token!r} at character {at}, and the template changed text there in a way "
                "that leaves open whether it wrote the token itself or a message did; take it out of the "
                'messages, or use special="encode" if they can be trusted',
                token,
                at,
            )


def _touching(found: Matches, runs: Runs, origin: Origin) -> NDArray[np.bool_]:
    """Which matches hold a character of one origin."""
    ends = np.array([0, *(stop for stop, _ in runs)])
    held = np.cumsum(np.diff(ends, prepend=0) * [False, *(one is origin for _, one in runs)])
    touching: NDArray[np.bool_] = np.interp(found.stops, ends, held) > np.interp(found.starts, ends, held)
    return touching


def _chosen(found: Matches, which: NDArray[np.bool_]) -> Matches:
    return Matches(found.starts[which], found.stops[which], found.ids[which])


def _only(text: str, runs: Runs, *origins: Origin) -> str:
    """The text with the characters of all other origins blotted out."""
    parts: list[str] = []
    start = 0
    for stop, origin in runs:
        parts.append(text[start:stop] if origin in origins else HIDDEN * (stop - start))
        start = stop
    return "".join(parts)
