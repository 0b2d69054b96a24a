"""A chat as it grows: messages in, a prompt's ids and their changes out."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_flag, is_one_of
from ..errors import ChatTemplateError, LoneSurrogateError, OptionError
from ..explanation import counted
from . import provenance, rendering
from .guarded import GuardedText
from .templates import ROLES, ChatTemplate, chat_template

if TYPE_CHECKING:
    from ..sessions import Patch, Session
    from ..tokenizer import Tokenizer


class ChatSession:
    """Messages rendered with a model's own chat template, and the ids of the rendered text.

    Made by :meth:`toktier.Tokenizer.chat_session`.  The text is exactly what ``transformers`` renders (5.24), and
    :attr:`ids` are what the reference makes of that text; :meth:`update` brings both up to date at the cost of
    what changed since the last call.

    Parameters
    ----------
    tokenizer: encodes.
    template: the model's own if None; else the name of one of its templates, the text of one, or a path object
        (a directory, a ``.jinja`` file, or a JSON file with ``chat_template``).
    special: ``"encode"`` makes tokens of all added tokens in the rendered text, as ``transformers`` and the
        reference do, the ones that a user typed included.  ``"text"``: special tokens, and others that the
        template writes, are tokens only where the template wrote them; in messages, tools, documents and
        variables they are plain text, and cannot end or begin a turn.  Added tokens that are neither (runs of
        spaces, markup, qwen3's ``<|fim_prefix|>``) are tokens wherever they stand.  See
        :mod:`toktier.chat.literals` for the rule.  The template is then rendered twice.
    trusted: with ``special="text"``, roles whose messages may hold tokens that are not *special* (``<think>``,
        ``<tool_call>``), because the model itself said them.  Special tokens are plain text there too.

    Raises :class:`~toktier.errors.ChatTemplateError` if there is no template,
    :class:`~toktier.errors.MissingDependencyError` without ``jinja2``, and
    :class:`~toktier.errors.BackendUnsupportedError` if ``special="text"`` cannot be had for this tokenizer.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: str | os.PathLike[str] | None = None,
        *,
        special: Literal["encode", "text"] = "encode",
        trusted: Collection[str] = ("assistant",),
    ) -> None:
        if not is_one_of(special, ("encode", "text")):
            raise OptionError(f'special must be "encode" or "text" for a chat, not {special!r}')
        if isinstance(trusted, str):
            raise OptionError(f"trusted is a list of roles; write [{trusted!r}]")
        if not isinstance(trusted, Collection) or not all(isinstance(role, str) for role in trusted):
            raise OptionError(f"trusted is a list of roles, each of them a str, but is {trusted!r}")
        rendering.require_jinja()
        self.tokenizer = tokenizer
        self.special = special
        self.template: ChatTemplate = chat_template(tokenizer._artifact, template)
        self._trusted = frozenset(trusted)
        written = "\0".join(map(rendering.literal_text, self.template.sources.values()))
        self._content: Session | GuardedText = (
            tokenizer.session() if special == "encode" else GuardedText(tokenizer, written)
        )

    def render(
        self,
        messages: Sequence[Any],
        add_generation_prompt: bool = True,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        **variables: Any,
    ) -> str:
        """The text of a prompt, without changing the session.

        ``messages`` are mappings with ``role`` and ``content`` (text, or a list of parts), and whatever else the
        template reads.  ``tools`` are JSON schemas; ``variables`` go to the template as they are
        (``enable_thinking=False``; special tokens by role, ``bos_token="<s>"``).

        Raises :class:`~toktier.errors.ChatTemplateError` where the template refuses the messages.
        """
        source, given, tokens = self._prepared(messages, add_generation_prompt, tools, documents, variables)
        return rendering.render(rendering.compiled(source), given, tokens)

    def update(
        self,
        messages: Sequence[Any],
        add_generation_prompt: bool = True,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        **variables: Any,
    ) -> Patch:
        """Render the messages as :meth:`render` does, make that the session's text, and say how the ids changed.

        With ``special="text"``, raises :class:`~toktier.errors.TokenOriginError` in the rare case that the
        template makes it impossible to tell whose a token is.  A call that raises leaves the session as it was.
        """
        source, given, tokens = self._prepared(messages, add_generation_prompt, tools, documents, variables)
        try:
            return self._update(source, given, tokens)
        except LoneSurrogateError as problem:
            number = rendering.with_surrogate(given.messages)
            whose = "" if number is None else f"; message number {number} has one"
            raise LoneSurrogateError(f"in the rendered text {problem}{whose}", problem.index) from None

    def _update(self, source: str, given: rendering.Inputs, tokens: dict[str, str]) -> Patch:
        text = rendering.render(rendering.compiled(source), given, tokens)
        if not isinstance(self._content, GuardedText):
            return self._content.update(text)
        traced = provenance.render(source, given, tokens, self._trusted)
        if traced != text:
            raise ChatTemplateError(
                "the chat template renders something else when it is watched, so who wrote what cannot be told; "
                'use special="encode"'
            )
        return self._content.update(traced)

    @property
    def text(self) -> str:
        """The rendered text of the last update."""
        return self._content.text

    @property
    def ids(self) -> NDArray[np.uint32]:
        """Its ids, shape (count,): a read-only view, which later updates do not touch.

        As ``apply_chat_template`` has them: what BOS there is, the template wrote.
        """
        return self._content.ids

    @property
    def count(self) -> int:
        """How many ids there are."""
        return self._content.count

    def fork(self) -> ChatSession:
        """Another session with the same messages, which goes its own way."""
        found = object.__new__(ChatSession)
        found.__dict__ |= self.__dict__
        found._content = copy.copy(self._content)
        return found

    __copy__ = fork

    def __repr__(self) -> str:
        return f"<toktier.ChatSession {self.tokenizer.name} {counted(self.count, 'id')}>"

    def _prepared(
        self,
        messages: Sequence[Any],
        add_generation_prompt: bool,
        tools: Sequence[Any] | None,
        documents: Sequence[Any] | None,
        variables: dict[str, Any],
    ) -> tuple[str, rendering.Inputs, dict[str, str]]:
        check_flag("add_generation_prompt", add_generation_prompt)
        given = rendering.inputs(messages, tools, documents, add_generation_prompt, variables)
        source = self.template.choose(tools=tools is not None)
        known = self.template.tokens
        roles = {*ROLES, *(known or {})} & given.variables.keys()
        tokens = {role: str(given.variables.pop(role)) for role in roles}
        rendering.check_tokens(source, known, tokens)
        return source, given, {**(known or {}), **tokens}
