"""Where a text may be cut, decided for each tokenizer from its own ``tokenizer.json`` (DESIGN sections 3 and 4).

Read in this order: :mod:`.positions` (all that can be the case at a place of a text), :mod:`.pairs` (two texts
side by side), :mod:`.relation` (which neighbours restart and close) and :mod:`.witness` (why the others do not);
:mod:`.barriers` (models without pre-tokenizer), :mod:`.normalizers` and :mod:`.literals` (the other steps of the
pipeline); :mod:`.derive` (the certificate), :mod:`.cuts` (finding cuts in a text), :mod:`.stream` (a text that
arrives in chunks); :mod:`.report` and :mod:`.tracing` (what people ask about a certificate, and about a text).

For callers: :func:`certify`, :func:`certify_pair` and :func:`trace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .report import certify, certify_pair
    from .tracing import trace

__all__ = ["certify", "certify_pair", "trace"]

_LAZY = {"certify": "report", "certify_pair": "report", "trace": "tracing"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
