"""Where each token stands in the caller's text.

An engine says how many UTF-8 bytes of the prepared text each token covers.  These
lengths tile the text, so their running sum gives byte spans, and from there the
reference's character offsets follow in up to three steps, each a plain function here:

1. :func:`char_spans`: a token reaches from the character that holds its first byte to
   the end of the character that holds its last byte.  Tokens within one character
   share its span.
2. :func:`map_spans` with :func:`original_positions`: where normalizing has changed the
   text, positions go back to the caller's text.
3. :func:`trim_spans`: the ``ByteLevel`` post-processor takes white space off both ends,
   if it is told to.

:func:`reference_offsets` does all of it, special and padding ids included.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import NFC, NFD, NFKC, NFKD

from .errors import OptionError
from .postprocessing import PostProcessor
from .segments import PreparedText

# White space as the engine sees it (Unicode's White_Space, which is not str.isspace), and
# U+0120, which it takes for a byte-level space wherever it stands.
_SPACES = frozenset(
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\u0120"
)

# Starters that NFC leaves alone and that never join the character before them.
_NFC_INERT = (
    r"\x00-\u02ff\u0388-\u0482\u048a-\u0559\u2010-\u20cf\u2190-\u2328\u2460-\u2adb\u2e80-\u3029\u3030-\u3094"
    r"\u309b-\ua48c\uac00-\ud7a3\ue000-\uf8ff\uff00-\uffef\U0001f000-\U0001faff\U00020000-\U0002a6df"
)
_FORMS = {"NFC": NFC, "NFD": NFD, "NFKC": NFKC, "NFKD": NFKD}

Positions = tuple[NDArray[np.int64], NDArray[np.int64]]


def byte_spans(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Running byte positions: ``lengths`` of shape (n,) gives (start, stop) rows, (n, 2)."""
    spans = np.empty((len(lengths), 2), np.int64)
    np.cumsum(lengths, out=spans[:, 1])
    spans[:, 0] = spans[:, 1] - lengths
    return spans


def char_spans(text: str, spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn byte spans in the UTF-8 form of ``text`` into character spans.

    ``spans`` has shape (n, 2) and no empty row; so has the result, in characters.  A span
    that begins or ends within a character covers the whole of it.
    """
    return spans if text.isascii() else _char_spans(_utf8(text), spans)


def _utf8(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _char_spans(data: NDArray[np.uint8], spans: NDArray[np.int64]) -> NDArray[np.int64]:
    # One-based index of the character that each byte belongs to.
    index = np.cumsum((data & 0xC0) != 0x80, dtype=np.int32 if data.size < 2**31 else np.int64)
    chars = np.empty_like(spans)
    chars[:, 0] = index[spans[:, 0]] - 1
    chars[:, 1] = index[spans[:, 1] - 1]
    return chars


def utf8_spans(text: str, spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn character spans, shape (n, 2), into spans of bytes in the UTF-8 form of ``text``.

    The reference counts the signs of a model that marks subwords as characters, so that its spans may reach beyond
    the text; here they end with it.
    """
    spans = np.minimum(spans, len(text))
    if text.isascii():
        return spans
    data = _utf8(text)
    at = np.append(np.flatnonzero((data & 0xC0) != 0x80), data.size)
    return at[spans]


def map_spans(spans: NDArray[np.int64], positions: Positions) -> NDArray[np.int64]:
    """Replace character spans by those of the characters they were made from.

    ``positions`` holds, for each character of the text that ``spans`` (n, 2, no empty
    row) refers to, the start and the stop of its source.
    """
    starts, stops = positions
    mapped = np.empty_like(spans)
    mapped[:, 0] = starts[spans[:, 0]]
    mapped[:, 1] = stops[spans[:, 1] - 1]
    return mapped


def original_positions(raw: str, form: str, literals: NDArray[np.int64] | None = None) -> tuple[str, Positions]:
    """Normalize ``raw`` and say where each resulting character came from.

    ``form`` is ``NFC``, ``NFD``, ``NFKC`` or ``NFKD``.  ``literals`` are the spans (k, 2)
    of the added tokens that are matched before normalizing; they stay as they are, and
    nothing is composed across their edges.

    Returns the normalized text and two int64 arrays with the start and the stop in
    ``raw`` of each of its characters.  Both come from the reference, whose alignment
    counts characters in its own way: a composed character points to the first of those
    it replaces, and a reordered mark to what stood at its place.  Only the stretches
    that normalizing can touch are looked at.
    """
    if form not in _FORMS:
        raise OptionError(f"form must be one of {', '.join(_FORMS)}, not {form!r}")
    # Within a literal only line feeds remain, which join nothing and stay one character each.
    open_text = raw
    if literals is not None and len(literals):
        parts, last = [], 0
        for start, stop in literals.tolist():
            parts += [raw[last:start], "\n" * (stop - start)]
            last = stop
        open_text = "".join(parts) + raw[last:]
    windows = [] if raw.isascii() else [m.span() for m in _changeable(form).finditer(open_text)]
    if not windows:
        positions = np.arange(len(raw), dtype=np.int64)
        return raw, (positions, positions + 1)

    # One call for all windows: a line feed keeps them apart.
    joined = "\n".join([open_text[start:stop] for start, stop in windows])
    aligner = _aligner(form)
    assert aligner.normalizer is not None
    pieces = aligner.normalizer.normalize_str(joined).split("\n")
    spans = np.array(aligner.encode(joined, add_special_tokens=False).offsets, np.int64).reshape(-1, 2)

    bounds = np.array(windows, np.int64)
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    in_window = np.ones(len(spans), bool)
    in_window[np.cumsum(sizes + 1)[:-1] - 1] = False  # the line feeds between
    widths = bounds[:, 1] - bounds[:, 0]
    shifts = bounds[:, 0] - (np.cumsum(widths + 1) - widths - 1)
    moved = spans[in_window] + np.repeat(shifts, sizes)[:, None]

    # Untouched stretches keep their positions; the windows' go between them.
    gap_starts = np.concatenate(([0], bounds[:, 1]))
    gap_stops = np.concatenate((bounds[:, 0], [len(raw)]))
    kinds = np.zeros(2 * len(windows) + 1, bool)
    kinds[1::2] = True
    counts = np.empty(2 * len(windows) + 1, np.int64)
    counts[0::2] = gap_stops - gap_starts
    counts[1::2] = sizes
    from_window = np.repeat(kinds, counts)
    counts[1::2] = widths
    untouched = np.flatnonzero(~np.repeat(kinds, counts))
    starts = np.empty(len(from_window), np.int64)
    stops = np.empty(len(from_window), np.int64)
    starts[~from_window], stops[~from_window] = untouched, untouched + 1
    starts[from_window], stops[from_window] = moved[:, 0], moved[:, 1]

    gaps = zip(gap_starts.tolist(), gap_stops.tolist(), [*pieces, ""], strict=True)
    text = "".join([part for start, stop, piece in gaps for part in (raw[start:stop], piece)])
    return text, (starts, stops)


@lru_cache(maxsize=len(_FORMS))
def _changeable(form: str) -> re.Pattern[str]:
    """Stretches that normalizing may change, each with the character before it, which a combining mark could join.

    What is left out is a starter that the form leaves alone and that never joins the character before it.
    """
    inert = _NFC_INERT if form == "NFC" else r"\x00-\x7f"
    return re.compile(rf"[^\n]?[^{inert}]+")


@lru_cache(maxsize=len(_FORMS))
def _aligner(form: str) -> Tokenizer:
    """A reference tokenizer that makes one token of each normalized character."""
    aligner = Tokenizer(BPE(vocab={"?": 0}, merges=[], unk_token="?", cache_capacity=0))
    aligner.normalizer = _FORMS[form]()
    return aligner


def trim_spans(
    spans: NDArray[np.int64],
    leading: NDArray[np.int64],
    trailing: NDArray[np.int64],
    add_prefix_space: bool,
) -> NDArray[np.int64]:
    """Take white space off character spans as the ``ByteLevel`` post-processor does.

    ``spans`` (n, 2), ``leading`` and ``trailing`` (n,): how many white-space characters
    each token begins and ends with.  One leading space is kept where the post-processor
    may have added it: with ``add_prefix_space``, on the first token and at position 0.
    A span never becomes longer than it was, nor negative.
    """
    starts, stops = spans[:, 0], spans[:, 1]
    if add_prefix_space and len(spans):
        first = starts == 0
        first[0] = True
        leading = np.where(first & (leading == 1), 0, leading)
    starts = np.minimum(starts + leading, stops)
    cut = np.where(stops >= trailing, trailing, 0)
    stops = np.maximum(stops - cut, starts)
    return np.stack((starts, stops), axis=1)


def reference_offsets(
    raw: str,
    prepared: PreparedText,
    lengths: NDArray[np.integer],
    post: PostProcessor,
    *,
    add_special_tokens: bool = True,
    max_length: int | None = None,
    positions: Positions | None = None,
) -> NDArray[np.int64]:
    """The reference's character offsets of one encoded text.

    ``raw``
        The caller's text.
    ``prepared``
        What the engines saw of it.
    ``lengths``
        UTF-8 bytes of ``prepared.text`` that each token covers, shape (n,); they tile the
        text, and an added token is one token that covers its whole span.
    ``post``
        Decides on truncation, trimming, special ids and padding.
    ``positions``
        From :func:`original_positions`; needed if ``prepared.unchanged`` is false.

    Returns int64 rows (start, stop), one for each id of ``post.finish`` on the same text;
    special and padding ids have (0, 0).

    Raises ``ValueError`` if the lengths do not add up to the text, or ``positions`` do
    not fit it.
    """
    data = _utf8(prepared.text)
    in_bytes = byte_spans(lengths)
    covered = int(in_bytes[-1, 1]) if len(in_bytes) else 0
    if covered != data.size:
        raise ValueError(f"token lengths cover {covered} of the text's {data.size} bytes")
    if positions is None and not prepared.unchanged:
        raise ValueError("offsets in a text that normalizing has changed need its original positions")
    if positions is not None and len(positions[0]) != len(prepared.text):
        raise ValueError(f"{len(positions[0])} positions for a text of {len(prepared.text)} characters")

    kept = post.kept(len(in_bytes), add_special_tokens, max_length)
    in_bytes = in_bytes[kept]
    in_chars = in_bytes if data.size == len(prepared.text) else _char_spans(data, in_bytes)
    spans = in_chars if positions is None else map_spans(in_chars, positions)
    if post.trims and len(spans):
        leading, trailing = _white_space(raw, prepared, data, in_bytes, in_chars, spans)
        for add_prefix_space in post.trims:
            spans = trim_spans(spans, leading, trailing, add_prefix_space)
    return post.finish_offsets(spans, add_special_tokens)


def _white_space(
    raw: str,
    prepared: PreparedText,
    data: NDArray[np.uint8],
    in_bytes: NDArray[np.int64],
    in_chars: NDArray[np.int64],
    spans: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many white-space characters each token string begins and ends with.

    A byte-level token string has no white space but the sign for byte 32.  An added
    token's string is the stretch of text it was found in, with all kinds.
    """
    leading = np.zeros(len(in_bytes), np.int64)
    trailing = np.zeros(len(in_bytes), np.int64)
    starts, stops = in_bytes[:, 0], in_bytes[:, 1]
    solid = np.flatnonzero(data != 32)
    padded = np.concatenate(([-1], solid, [data.size]))  # a sentinel on either side
    begin = np.flatnonzero(data[starts] == 32)
    if len(begin):
        next_solid = padded[np.searchsorted(solid, starts[begin]) + 1]
        leading[begin] = np.minimum(next_solid, stops[begin]) - starts[begin]
    end = np.flatnonzero(data[stops - 1] == 32)
    if len(end):
        last_solid = padded[np.searchsorted(solid, stops[end])]
        trailing[end] = stops[end] - 1 - np.maximum(last_solid, starts[end] - 1)
    if len(prepared.starts):
        rows = np.searchsorted(in_chars[:, 0], prepared.starts)
        rows = np.minimum(rows, len(spans) - 1)
        for row in rows[in_chars[rows, 0] == prepared.starts].tolist():  # those that truncation kept
            literal = raw[spans[row, 0] : spans[row, 1]]
            leading[row] = _leading(literal)
            trailing[row] = _leading(literal[::-1])
    return leading, trailing


def _leading(text: str) -> int:
    count = 0
    for char in text:
        if char not in _SPACES:
            break
        count += 1
    return count
