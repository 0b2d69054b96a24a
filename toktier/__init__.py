"""TokTier: tokenization with ids identical to Hugging Face ``tokenizers``, several times faster.

::

    import toktier

    toktier.encode("Hello, world")              # list[int], by the embedded gpt-oss tokenizer
    tok = toktier.load("qwen3")                 # an embedded name, a file, a model directory, a hub id
    tok.encode_to_numpy("Hello, world")         # uint32 array
    print(tok.explain())                        # which part runs where, and why

Importing the package is light: nothing is loaded before it is used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from . import errors
from ._version import __version__
from .registry import DEFAULT, embedded_names

if TYPE_CHECKING:
    from .backends.device import Device
    from .certificates.stream import StreamEncoder
    from .chat.session import ChatSession
    from .decoding import StreamDecoder
    from .explanation import Explanation
    from .sessions.patch import Patch
    from .sessions.session import Session
    from .sessions.store import SessionStore
    from .tokenizer import Encoding, Tokenizer

__all__ = [
    "DEFAULT",
    "ChatSession",
    "Device",
    "Encoding",
    "Explanation",
    "Patch",
    "Session",
    "SessionStore",
    "StreamDecoder",
    "StreamEncoder",
    "Tokenizer",
    "__version__",
    "devices",
    "embedded_names",
    "encode",
    "errors",
    "load",
]

_LAZY = {
    "Device": "backends.device",
    "ChatSession": "chat.session",
    "Encoding": "tokenizer",
    "Explanation": "explanation",
    "Patch": "sessions.patch",
    "Session": "sessions.session",
    "SessionStore": "sessions.store",
    "StreamDecoder": "decoding",
    "StreamEncoder": "certificates.stream",
    "Tokenizer": "tokenizer",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load(
    name_or_path: str | os.PathLike[str] = DEFAULT, backend: str = "auto", *, revision: str | None = None
) -> Tokenizer:
    """Load a tokenizer.

    ``name_or_path`` is an embedded name (:func:`embedded_names`), the path of a ``tokenizer.json`` (or of a
    ``.json.xz``), the path of a model directory, or a Hugging Face repository id (``revision`` a branch, tag or
    commit of it).  An embedded name goes before a folder that is called the same.
    ``backend`` is ``"auto"``, ``"reference"``, ``"python"``, ``"numpy"`` or ``"jax"``.
    """
    from .registry import resolve
    from .tokenizer import Tokenizer, instance

    artifact = resolve(name_or_path, revision=revision)
    return instance(artifact) if backend == "auto" else Tokenizer(artifact, backend)


def encode(
    text: str,
    tokenizer: str | os.PathLike[str] | Tokenizer = DEFAULT,
    backend: str = "auto",
    *,
    add_special_tokens: bool = True,
    special: Literal["encode", "text", "raise"] = "encode",
    max_length: int | None = None,
) -> list[int]:
    """The ids of ``text``, equal to those of Hugging Face ``tokenizers``.

    ``tokenizer`` is what :func:`load` takes or gives; one that was loaded is kept for the next call.
    ``add_special_tokens``: whether those that belong around a text (BOS and the like) are added.
    ``special``: special tokens that stand in the text become their ids (``"encode"``, as with the reference) or
    plain text (``"text"``), or raise :class:`~toktier.errors.SpecialTokenError` (``"raise"``).
    ``max_length``: truncate to so many ids.  ``backend``: what does the work; the ids are the same.
    """
    from .tokenizer import Tokenizer

    tok = tokenizer if isinstance(tokenizer, Tokenizer) else load(tokenizer)
    return tok.encode(text, add_special_tokens, special=special, backend=backend, max_length=max_length)


def devices() -> tuple[Device, ...]:
    """The devices that the ``jax`` backend could run on; the one marked ``default`` is where it runs.

    Raises :class:`~toktier.errors.MissingDependencyError` without JAX.
    """
    from .backends.device import devices

    return devices()
