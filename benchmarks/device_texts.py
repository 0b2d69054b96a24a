"""The texts of ``device.py``, and hashes of what the reference makes of them.

The hashes are made beforehand, on any machine, and lie with the texts in one file.  So time on a GPU goes to no
other engine, and the texts are the same whatever is installed there.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import corpora
import numpy as np

import toktier

#: Characters from the beginning of a text to that of the next; texts of up to so many share none.
_STEP = 100_000
#: Texts of a size among the repetitions, and from which size on there are fewer of them.
_DISTINCT, _LARGE, _FEWER = 4, 1_500_000, 2
#: Of texts of up to so many characters the spans are compared too.
LARGEST_WITH_SPANS = 1_000_000


def count_of(size: int) -> int:
    """How many texts of a size there are."""
    return _FEWER if size > _LARGE else _DISTINCT


def digest(array: Any) -> str:
    """Of ids or spans, as 64-bit integers."""
    return hashlib.sha256(np.ascontiguousarray(array, np.int64).tobytes()).hexdigest()


@dataclass(frozen=True)
class Texts:
    """``bases``: a long text for each corpus, of which every text is a part.

    ``ids``, ``spans``: by the fingerprint of a tokenizer, the hashes by corpus, size and number of a text.
    """

    bases: dict[str, str]
    ids: dict[str, dict[str, str]] = field(default_factory=dict)
    spans: dict[str, dict[str, str]] = field(default_factory=dict)

    def text(self, corpus: str, size: int, number: int) -> str:
        return self.bases[corpus][number * _STEP : number * _STEP + size]

    def texts(self, corpus: str, size: int) -> list[str]:
        return [self.text(corpus, size, number) for number in range(count_of(size))]

    def expected(self, tok: toktier.Tokenizer, corpus: str, size: int, number: int) -> tuple[str, str]:
        """Hashes of the ids and of the spans; an empty one was not made beforehand."""
        key = _key(corpus, size, number)
        return tuple(known.get(tok.fingerprint, {}).get(key, "") for known in (self.ids, self.spans))  # type: ignore[return-value]


def generated(kinds: Iterable[str], sizes: Sequence[int]) -> Texts:
    """Texts without hashes."""
    longest = max(size + _STEP * (count_of(size) - 1) for size in sizes)
    return Texts({kind: corpora.CORPORA[kind](longest, 0) for kind in kinds})


def load(path: Path) -> Texts:
    return Texts(**json.loads(lzma.decompress(path.read_bytes())))


def prepare(path: Path, names: Iterable[str], kinds: Sequence[str], sizes: Sequence[int]) -> None:
    """Write texts, and the hashes of the reference's ids of each text as a whole."""
    texts = generated(kinds, sizes)
    for name in names:
        tok = toktier.load(name)
        ids, spans = texts.ids.setdefault(tok.fingerprint, {}), texts.spans.setdefault(tok.fingerprint, {})
        for key, text in _all(texts, kinds, sizes):
            if len(text) <= LARGEST_WITH_SPANS:
                found = tok.encode_with_offsets(text, backend="reference")
                ids[key], spans[key] = digest(found.ids), digest(found.offsets)
            else:
                ids[key] = digest(tok.encode_to_numpy(text, backend="reference", threads=1))
        print(f"{name}: {len(ids)} texts by the reference", flush=True)
    document = {"bases": texts.bases, "ids": texts.ids, "spans": texts.spans}
    path.write_bytes(lzma.compress(json.dumps(document, ensure_ascii=False).encode()))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def _all(texts: Texts, kinds: Iterable[str], sizes: Iterable[int]) -> Iterator[tuple[str, str]]:
    for kind in kinds:
        for size in sizes:
            for number, text in enumerate(texts.texts(kind, size)):
                yield _key(kind, size, number), text


def _key(corpus: str, size: int, number: int) -> str:
    return f"{corpus} {size} {number}"
