"""The hash tables of an artifact, among the arrays that are stored of it.

They are large, but what takes time is choosing their seeds.  Those ship with an embedded tokenizer, and the tables
are filled by them when it is loaded first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from .bpe import hashing, tables
from .bpe.hashing import Displacement, KeyTable, PairTable
from .bpe.tables import TokenBytes

_Arrays = dict[str, NDArray[Any]]

#: What :func:`fill` adds to the arrays.
FILLED = ("pairs", "whole low", "whole high", "whole ids")


def stored(pairs: PairTable, whole: KeyTable) -> tuple[list[int], _Arrays]:
    """The ranks of pairs and the ids of whole pieces as numbers and arrays to store."""
    numbers = [pairs.id_bits, pairs.rank_bits, pairs.displacement.multiplier, whole.displacement.multiplier]
    return numbers, {
        "pairs seeds": pairs.displacement.seeds,
        "whole seeds": whole.displacement.seeds,
        "pairs": pairs.entries,
        "whole low": whole.low,
        "whole high": whole.high,
        "whole ids": whole.ids,
    }


def fill(numbers: list[int], arrays: _Arrays, tokens: TokenBytes) -> None:
    """Add the tables to what is stored without them."""
    of_pairs, of_whole = ((arrays[f"{of} seeds"], numbers[i]) for of, i in (("pairs", 2), ("whole", 3)))
    pairs = hashing.pair_table(arrays["left"], arrays["right"], len(tokens.present), of_pairs)
    whole = tables.piece_table(tokens, arrays["usable"], of_whole)
    numbers[:], found = stored(pairs, whole)
    arrays.update(found)


def read(numbers: list[int], arrays: Mapping[str, NDArray[Any]]) -> tuple[PairTable, KeyTable]:
    """The tables that :func:`stored` took apart."""
    id_bits, rank_bits, *multipliers = numbers
    by_pair, by_key = (
        Displacement(arrays[f"{of} seeds"], len(arrays[entries]).bit_length() - 1, multiplier)
        for of, entries, multiplier in zip(("pairs", "whole"), ("pairs", "whole ids"), multipliers, strict=True)
    )
    pairs = PairTable(arrays["pairs"], by_pair, id_bits, rank_bits)
    return pairs, KeyTable(arrays["whole low"], arrays["whole high"], arrays["whole ids"], by_key)
