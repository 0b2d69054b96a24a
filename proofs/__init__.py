"""Proofs that run: what the spec says, what the machines do and where a text may be cut, for texts of any length.

``python -m proofs`` proves every family of the spec and every tokenizer at hand, and prints a table.  The
mathematics is in ``README.md``.  :func:`explain` shows one text character by character.
"""

from .explanation import Row, explain
from .report import Line, prove_all, prove_family

__all__ = ["Line", "Row", "explain", "prove_all", "prove_family"]
