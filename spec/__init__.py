"""What a pre-tokenizer does, defined by hand, to be read beside the paper.

Nothing here imports ``toktier``; everything is a plain function of plain
strings, slow and short.  Start with :mod:`spec.family`, then
:mod:`spec.cl100k`, which the other families vary, and ``README.md``, which
walks through one text character by character.  :mod:`spec.splice` defines when
two tokenizations may be joined.
"""

from .family import Family, Synchronizing, classify, piece_starts, pieces

__all__ = ["Family", "Synchronizing", "classify", "piece_starts", "pieces"]
