"""What a pre-tokenizer does, defined by hand, to be read beside the paper.

Nothing here imports ``toktier``; everything is a plain function of plain
strings, slow and short.  Start with :mod:`spec.family`, then
:mod:`spec.cl100k`, which the other families vary, and ``README.md``, which
walks through one text character by character.  :mod:`spec.splice` defines when
two tokenizations may be joined.
"""

from typing import Any

from . import bert, cl100k, deepseek, o200k, qwen2, r50k
from .family import Family, Synchronizing, classify, piece_starts, pieces

#: Every family, by name.
FAMILIES: dict[str, Family[Any, Any]] = {
    family.name: family
    for family in (
        r50k.r50k,
        cl100k.cl100k,
        qwen2.qwen2,
        qwen2.qwen3_5,
        o200k.o200k,
        o200k.tekken,
        deepseek.deepseek,
        bert.bert,
    )
}

__all__ = ["FAMILIES", "Family", "Synchronizing", "classify", "piece_starts", "pieces"]
