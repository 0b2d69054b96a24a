"""Chats: messages rendered with a model's own template, and the ids of the prompt from turn to turn.

:mod:`~toktier.chat.templates` finds the template, :mod:`~toktier.chat.rendering` renders it as ``transformers``
does, :mod:`~toktier.chat.provenance` remembers while rendering which characters the template wrote itself, and
:mod:`~toktier.chat.session` turns all that into ids and patches.
"""

from .session import ChatSession
from .templates import ChatTemplate, chat_template

__all__ = ["ChatSession", "ChatTemplate", "chat_template"]
