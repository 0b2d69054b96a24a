"""Barriers: where BPE without a pre-tokenizer falls into independent halves.

Llama 2, Gemma and their kin give a whole text to BPE as one piece.  It can be cut all the same between two
characters a and b that no token which merging can make contains next to each other, a directly followed by b.
A rule makes a token of two, so such a token is the text of two others put together.

*Lemma.*  Let a text be u v, where u ends in a and v begins with b.  If :func:`why_no_barriers` has no objection,
the tokens of u v are those of u followed by those of v.

*Proof.*  Merging starts from one symbol per character, its token if the vocabulary has one and else the tokens
of its UTF-8 bytes.  Every merge rule (s, t) names tokens and makes the token whose text is that of s followed by
that of t.  The byte tokens ``<0x00>`` to ``<0xFF>`` are a part of no other token's text, so no rule names one:
symbols that stand for bytes are never merged.  All others carry, by induction, the very text that they stand
for.  If a merge joined a symbol on the left of the cut to one on the right, take the first such merge: the text
that it makes, which is a token, contains the last character of u directly followed by the first of v, against
the premise; or one of the two symbols stands for a byte and is not merged at all.  So every symbol lies on one
side.  A merge on one side changes no pair on the other, and BPE chooses among pairs by rank, then from left to
right.  So the merges on the left of the cut, in their order, are those of u alone, and likewise for v.  ∎

What the proof uses, and :func:`why_no_barriers` checks: that ids name one token each; that every byte that is
asked for has a token and ``byte_fallback`` is on, for otherwise the reference drops a character that it does not
know, which makes neighbours of what is on either side, or fuses it with the next one into one unknown token; that
a symbol's text does not depend on where in the piece it stands (no subword prefix, no end-of-word suffix); that no
merge is left out at random (no ``dropout``); and that a text which happens to be a token is merged like any other
(no ``ignore_merges``, which would give u alone another id than merging does).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from ..pipeline import BPE

_SEPARATOR = "\ud800"  # in no token
_BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")

#: Bits of a code point in a packed pair.
CODE_POINT_BITS = 21


def mergeable(vocabulary: Mapping[str, int]) -> Iterator[str]:
    """The tokens that some rule may make: those that are two tokens put together."""
    for token in vocabulary:
        for at in range(len(token) - 1, 0, -1):  # what is added last is short, more often than not
            if token[at:] in vocabulary and token[:at] in vocabulary:
                yield token
                break


def adjacent_pairs(tokens: Iterable[str]) -> NDArray[np.uint64]:
    """All characters a directly followed by b inside some token, as ``a << 21 | b``, sorted, uint64."""
    points = np.frombuffer(_SEPARATOR.join(tokens).encode("utf-32-le", "surrogatepass"), np.uint32)
    inside = points != ord(_SEPARATOR)
    pairs = points[:-1].astype(np.uint64) << np.uint64(CODE_POINT_BITS) | points[1:]
    return np.unique(pairs[inside[:-1] & inside[1:]])


def lacks_bytes(vocabulary: Mapping[str, int]) -> bool:
    """Whether a model with ``byte_fallback`` may meet a byte that it has no token for.

    It asks for those of characters that are not in the vocabulary.  Those of Gemma 1 and 2 have the tab, and no
    ``<0x09>``.
    """
    absent = (byte for byte in range(256) if f"<0x{byte:02X}>" not in vocabulary)
    return any(byte >= 0x80 or chr(byte) not in vocabulary for byte in absent)


def why_no_barriers(model: BPE, vocabulary: Mapping[str, int]) -> str | None:
    """What keeps the lemma from holding for a model, or None if it holds."""
    if model.dropout:
        return "the model drops merges at random (dropout)"
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return "the model marks subwords by a prefix or suffix, which depends on where a text ends"
    if model.ignore_merges:
        return "the model looks up whole texts before it merges (ignore_merges)"
    if not model.byte_fallback or lacks_bytes(vocabulary):
        return "the model has no token for some bytes, so characters may be dropped or fused"
    if len(set(vocabulary.values())) < len(vocabulary):
        return "two tokens of the model have the same id"
    tokens = _SEPARATOR + _SEPARATOR.join(vocabulary) + _SEPARATOR
    for found in _BYTE_TOKEN.finditer(tokens):
        if tokens[found.start() - 1] + tokens[found.end()] != 2 * _SEPARATOR:
            return f"a token contains {found.group()}, that of a byte, so bytes may be merged"
    return None
