"""From ids back to text, whole or as a stream.

A decoder gives what the reference's ``Tokenizer.decode`` gives for every sequence of ids:
ids outside the vocabulary are passed over, special tokens are left out on request, bytes
that are not UTF-8 become U+FFFD.  :func:`make_decoder` picks one of three:

- :class:`ByteLevelDecoder` for byte-level vocabularies: one table of bytes.
- :class:`ChainDecoder` for decoders that work on token strings (``Metaspace``,
  ``WordPiece``, SentencePiece-like sequences and so on), as a chain of small steps.
- :class:`ReferenceDecoder` for what neither covers.

Each opens a :class:`StreamDecoder`, whose outputs put together are the whole decoded text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from tokenizers import Tokenizer as ReferenceTokenizer

from ..errors import BackendUnsupportedError
from ..pipeline import AddedToken, Other
from .base import Decoder, StreamDecoder
from .byte_level import ByteLevelDecoder, ByteTable
from .chain import ChainDecoder, flat, make_steps
from .ids import Ids, check_ids
from .reference import ReferenceDecoder
from .strings import TokenStrings

__all__ = [
    "ByteLevelDecoder",
    "ByteTable",
    "ChainDecoder",
    "Decoder",
    "Ids",
    "ReferenceDecoder",
    "StreamDecoder",
    "TokenStrings",
    "check_ids",
    "is_byte_level",
    "make_decoder",
]


def is_byte_level(decoder: Other | None) -> bool:
    """Whether the pipeline's decoder is ``ByteLevel`` and nothing else."""
    if decoder is None:
        return False
    return [part.get("type") for part in flat(json.loads(decoder.json))] == ["ByteLevel"]


def make_decoder(
    decoder: Other | None,
    *,
    table: Callable[[], ByteTable],
    tokens: Callable[[], Sequence[str | None]],
    reference: Callable[[], ReferenceTokenizer],
    added_tokens: Iterable[AddedToken],
    normalize: Callable[[str], str] | None,
) -> Decoder:
    """The fastest exact decoder for a pipeline.

    ``decoder`` is ``Pipeline.decoder``; ``table`` gives the byte table of the model's
    vocabulary, ``tokens`` its strings by id, ``reference`` the reference tokenizer, and
    only what is needed gets called.  ``added_tokens`` carry the ids that the reference
    gives them, and ``normalize`` is the pipeline's normalizer, None if it has none.
    """
    if is_byte_level(decoder):
        return ByteLevelDecoder(table(), added_tokens, normalize)
    spec = None if decoder is None else json.loads(decoder.json)
    try:
        make_steps(spec)
    except BackendUnsupportedError as problem:
        return ReferenceDecoder(reference, str(problem))
    return ChainDecoder(tokens(), spec, added_tokens, normalize)
