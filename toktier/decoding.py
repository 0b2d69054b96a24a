"""From ids back to text, whole or as a stream.

A decoder gives what the reference's ``Tokenizer.decode`` gives for every sequence of ids:
ids outside the vocabulary are passed over, special tokens are left out on request, bytes
that are not UTF-8 become U+FFFD.  :func:`make_decoder` picks one of three:

- :class:`ByteLevelDecoder` for byte-level vocabularies: one table of bytes, looked up for
  all ids at once.
- :class:`ChainDecoder` for decoders that work on token strings (``Metaspace``,
  ``WordPiece``, SentencePiece-like sequences and so on), as a chain of small steps.
- :class:`ReferenceDecoder` for what neither covers.

Each opens a :class:`StreamDecoder`, whose outputs put together are the whole decoded text.
"""

from __future__ import annotations

import codecs
import copy
import json
import operator
import re
from abc import ABC, abstractmethod
from array import array as machine_array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as ReferenceTokenizer

from .backends.reference import failures
from .bpe.tables import byte_alphabet
from .errors import BackendUnsupportedError, TokenIdError
from .pipeline import AddedToken, Other

Ids: TypeAlias = Iterable[int] | NDArray[np.integer]
ByteTable: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""The bytes of all tokens of a vocabulary, end to end, and where each begins (size + 1 entries)."""

_BLOCK = 8192  # ids looked up at a time: the index arrays then stay in the processor's cache


# --- ids ------------------------------------------------------------------------


def _check_id(value: Any, index: int | None = None) -> int:
    where = "" if index is None else f" at index {index}"
    try:
        number = operator.index(value)
    except TypeError:
        raise TokenIdError(
            f"a token id must be an integer, but {value!r}{where} is of type {type(value).__name__}"
        ) from None
    if not 0 <= number < 2**32:
        raise TokenIdError(f"a token id must be between 0 and 2**32 - 1, but {number}{where} is not")
    return number


def check_ids(ids: Ids) -> NDArray[np.uint32]:
    """``ids`` as a uint32 array of shape (n,).

    Raises :class:`~toktier.errors.TokenIdError` for values that are not unsigned 32-bit
    integers, with the index of the first.
    """
    if isinstance(ids, np.ndarray):
        array: NDArray[Any] = ids
    else:
        if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
            raise TokenIdError(f"ids must be a sequence of integers, not {type(ids).__name__}")
        values = ids if isinstance(ids, (list, tuple)) else list(ids)
        try:
            array = np.asarray(machine_array("q", values))  # refuses what is no integer
        except (TypeError, OverflowError):
            array = np.array([_check_id(value, index) for index, value in enumerate(values)], np.int64)
    if array.ndim != 1:
        raise TokenIdError(f"ids must be a flat sequence, but the array has {array.ndim} dimensions")
    if array.dtype == np.uint32:
        return array.view(np.uint32)
    if not array.size:
        return np.empty(0, np.uint32)
    if array.dtype.kind not in "iu":
        raise TokenIdError(f"token ids must be integers, not {array.dtype}")
    if int(array.min()) < 0 or int(array.max()) >= 2**32:
        for index, value in enumerate(array.tolist()):
            _check_id(value, index)
    return array.astype(np.uint32)


# --- what all decoders share ----------------------------------------------------


class StreamDecoder(ABC):
    """Decodes ids as they arrive.

    The strings returned by :meth:`put`, :meth:`put_many` and :meth:`flush`, put together,
    are the decoder's ``decode`` of all ids.  Each output holds only complete characters;
    what may still change is held back until it is certain.  One stream belongs to one
    thread at a time.
    """

    def __repr__(self) -> str:
        return "<toktier.StreamDecoder>"

    def __copy__(self) -> StreamDecoder:
        return copy.deepcopy(self)  # which goes its own way; the decoder is shared

    @abstractmethod
    def put(self, token_id: int) -> str:
        """Take one id and return the text that has become certain, maybe none.

        Raises :class:`~toktier.errors.TokenIdError` if it is no unsigned 32-bit integer.
        """

    @abstractmethod
    def put_many(self, ids: Ids) -> str:
        """The same for several ids at once."""

    @abstractmethod
    def flush(self) -> str:
        """Return what was held back.  The stream is then as new."""

    def prime(self, ids: Ids) -> None:
        """Take ids whose text is known already, a prompt say, and return nothing.

        A character that the prompt leaves incomplete comes out whole once it is complete.
        """
        self.put_many(ids)


class Decoder(ABC):
    """Ids to text.  Instances are immutable and can be shared between threads."""

    unsupported: str | None = None
    """Why the reference does the work, or None."""

    def __deepcopy__(self, memo: object) -> Decoder:
        return self

    @abstractmethod
    def decode(self, ids: Ids, skip_special_tokens: bool = True) -> str:
        """The text of ``ids``, equal to the reference's ``decode``.

        Raises :class:`~toktier.errors.TokenIdError` if a value is no unsigned 32-bit integer.
        """

    @abstractmethod
    def decode_bytes(self, ids: Ids, skip_special_tokens: bool = False) -> bytes:
        """The bytes of ``ids``, without replacing what is not UTF-8.

        Unlike :meth:`decode` it includes special tokens unless told not to.
        """

    @abstractmethod
    def stream(self, skip_special_tokens: bool = True) -> StreamDecoder:
        """A new stream."""

    def decode_batch(self, batch: Iterable[Ids], skip_special_tokens: bool = True) -> list[str]:
        """The text of each sequence of ids."""
        if not isinstance(batch, Iterable):
            raise TokenIdError(f"a batch must be a list of sequences of ids, not {type(batch).__name__}")
        return [self.decode(ids, skip_special_tokens) for ids in batch]


def _string_bytes(token: str) -> bytes:
    """The bytes that a byte-level token string stands for.

    If one of its characters is not in the byte-level alphabet (an added token with a
    space, say), the whole string stands for its own UTF-8 form.
    """
    alphabet = byte_alphabet()
    try:
        return bytes([alphabet[char] for char in token])
    except KeyError:
        return token.encode("utf-8", "surrogateescape")  # `ByteFallback` may have left bytes that are no UTF-8


def _added_strings(
    added_tokens: Iterable[AddedToken], normalize: Callable[[str], str] | None
) -> dict[int, tuple[str, bool]]:
    """For each added token's id the string it decodes to and whether it counts as special.

    A token that is matched in normalized text (or would be by an earlier entry) decodes to
    its normalized form, and it is this form that the reference then looks for among the
    special tokens.
    """
    tokens = list(added_tokens)
    special = {token.content for token in tokens if token.special}
    strings = {token.id: token.content for token in tokens}
    if normalize is not None:
        changed = (token for token in tokens if token.normalized or token.once_normalized)
        strings |= {token.id: normalize(token.content) for token in changed}
    return {token_id: (string, string in special) for token_id, string in strings.items()}


# --- byte level -----------------------------------------------------------------


class ByteLevelDecoder(Decoder):
    """Decodes by looking up the bytes of each id.

    ``table``
        The bytes that the tokens of the model's vocabulary stand for (a string with a
        character that stands for no byte: its UTF-8 form; an id not in use: none).
    ``added_tokens``
        With the ids that the reference gives them; they take precedence.
    ``normalize``
        The normalizer, for added tokens that are matched in normalized text; None if the
        pipeline has none.
    """

    def __init__(
        self,
        table: ByteTable,
        added_tokens: Iterable[AddedToken] = (),
        normalize: Callable[[str], str] | None = None,
    ) -> None:
        blob, offsets = table
        added = _added_strings(added_tokens, normalize)
        size = max(len(offsets) - 1, max(added, default=-1) + 1)
        # One entry more, of no bytes, stands for every id beyond the vocabulary.
        self._starts = np.zeros(size + 1, np.int32)
        self._lengths = np.zeros(size + 1, np.int32)
        self._starts[: len(offsets) - 1] = offsets[:-1]
        self._lengths[: len(offsets) - 1] = np.diff(offsets)
        parts, end = [blob], len(blob)
        for token_id, (string, _) in added.items():
            own = np.frombuffer(_string_bytes(string), np.uint8)
            parts.append(own)
            self._starts[token_id], self._lengths[token_id] = end, len(own)
            end += len(own)
        self._blob = np.concatenate(parts)
        self._shown = self._lengths.copy()  # the lengths when special tokens are left out
        self._shown[[token_id for token_id, (_, special) in added.items() if special]] = 0

    def decode(self, ids: Ids, skip_special_tokens: bool = True) -> str:
        return self._gather(check_ids(ids), skip_special_tokens).decode("utf-8", "replace")

    def decode_bytes(self, ids: Ids, skip_special_tokens: bool = False) -> bytes:
        return self._gather(check_ids(ids), skip_special_tokens)

    def stream(self, skip_special_tokens: bool = True) -> StreamDecoder:
        return _ByteLevelStream(self, skip_special_tokens)

    def _gather(self, ids: NDArray[np.uint32], skip_special_tokens: bool) -> bytes:
        table = self._shown if skip_special_tokens else self._lengths
        last = np.uint32(len(table) - 1)
        parts = []
        for begin in range(0, len(ids), _BLOCK):
            block = np.minimum(ids[begin : begin + _BLOCK], last)
            lengths = table[block]
            ends = np.cumsum(lengths, dtype=np.int32)
            index = np.repeat(self._starts[block] - (ends - lengths), lengths)
            index += np.arange(len(index), dtype=np.int32)
            parts.append(self._blob[index].tobytes())
        return b"".join(parts)

    def _bytes_of(self, token_id: int, skip_special_tokens: bool) -> bytes:
        table = self._shown if skip_special_tokens else self._lengths
        entry = min(token_id, len(table) - 1)
        start = int(self._starts[entry])
        return self._blob[start : start + int(table[entry])].tobytes()


class _ByteLevelStream(StreamDecoder):
    def __init__(self, decoder: ByteLevelDecoder, skip_special_tokens: bool) -> None:
        self._decoder = decoder
        self._skip = skip_special_tokens
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def put(self, token_id: int) -> str:
        return self._utf8.decode(self._decoder._bytes_of(_check_id(token_id), self._skip))

    def put_many(self, ids: Ids) -> str:
        return self._utf8.decode(self._decoder._gather(check_ids(ids), self._skip))

    def flush(self) -> str:
        text = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return text


# --- chains of steps on token strings ---------------------------------------------


class _Step(Protocol):
    """One decoder of the reference, fed piece by piece.

    Steps that look at one token at a time take and give lists of tokens.  After a step
    that joins all tokens into one, the lists are the fragments of that one.
    """

    def feed(self, tokens: list[str]) -> list[str]: ...

    def finish(self) -> list[str]: ...


class _Each:
    """A step that treats every token, or every fragment, alike."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self._change = change

    def feed(self, tokens: list[str]) -> list[str]:
        return [self._change(token) for token in tokens]

    def finish(self) -> list[str]:
        return []


class _FirstApart:
    """A step that treats the first token in one way and all others in another."""

    def __init__(self, first: Callable[[str], str], other: Callable[[str], str]) -> None:
        self._first = first
        self._other = other
        self._started = False

    def feed(self, tokens: list[str]) -> list[str]:
        if self._started or not tokens:
            return [self._other(token) for token in tokens]
        self._started = True
        return [self._first(tokens[0]), *(self._other(token) for token in tokens[1:])]

    def finish(self) -> list[str]:
        return []


class _LastApart:
    """``BPEDecoder``: the word-end suffix becomes a space, in the last token nothing."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._held: list[str] = []

    def feed(self, tokens: list[str]) -> list[str]:
        tokens = self._held + tokens
        self._held = tokens[-1:]
        return [token.replace(self._suffix, " ") for token in tokens[:-1]]

    def finish(self) -> list[str]:
        return [token.replace(self._suffix, "") for token in self._held]


_BYTE_TOKEN = re.compile(r"<0x(\+[0-9A-Fa-f]|[0-9A-Fa-f]{2})>")  # the sign is allowed by the reference


class _ByteFallback:
    """A run of byte tokens becomes its text if it is UTF-8, else one U+FFFD for each byte.

    Only the end of a run decides, so the whole run is held back.
    """

    def __init__(self, errors: str) -> None:
        self._errors = errors
        self._run = bytearray()

    def feed(self, tokens: list[str]) -> list[str]:
        result = []
        for token in tokens:
            match = _BYTE_TOKEN.fullmatch(token) if len(token) == 6 else None
            if match is not None:
                self._run.append(int(match[1], 16))
            else:
                result += [*self.finish(), token]
        return result

    def finish(self) -> list[str]:
        if not self._run:
            return []
        run = bytes(self._run)
        self._run.clear()
        try:
            return [run.decode()]
        except UnicodeDecodeError:
            return ["\ufffd"] * len(run) if self._errors == "replace" else [run.decode("utf-8", self._errors)]


class _ByteLevelStep:
    """``ByteLevel`` among other steps: all tokens become one text."""

    def __init__(self, errors: str) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors)

    def feed(self, tokens: list[str]) -> list[str]:
        return [self._utf8.decode(b"".join(map(_string_bytes, tokens)))]

    def finish(self) -> list[str]:
        return [self._utf8.decode(b"", final=True)]


class _StripStart:
    """``Strip`` on the one joined token: up to ``count`` of ``content`` go from its start."""

    def __init__(self, content: str, count: int) -> None:
        self._content = content
        self._left = count

    def feed(self, tokens: list[str]) -> list[str]:
        return [self._strip(token) if self._left else token for token in tokens]

    def _strip(self, token: str) -> str:
        rest = _strip_start(token, self._content, self._left)
        # Anything that stays ends the stripping for good.
        self._left = 0 if rest else self._left - len(token)
        return rest

    def finish(self) -> list[str]:
        return []


def _strip_start(token: str, content: str, count: int) -> str:
    while count and token.startswith(content):
        token = token[1:]
        count -= 1
    return token


def _clean_up(token: str) -> str:
    """What ``WordPiece`` calls cleanup, in its order."""
    for old, new in (
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ):
        token = token.replace(old, new)
    return token


_MakeStep: TypeAlias = Callable[[str], _Step]  # given how to treat bytes that are not UTF-8


def _plain(step: Callable[..., _Step], *arguments: Any) -> _MakeStep:
    """A constructor for a step that never sees raw bytes."""
    return lambda errors: step(*arguments)


def _replacing(old: str, new: str) -> Callable[[str], str]:
    return lambda token: token.replace(old, new)


def _metaspace(spec: dict[str, Any]) -> _MakeStep:
    mark = str(spec["replacement"])
    never = spec.get("prepend_scheme", "always") == "never" or spec.get("add_prefix_space") is False
    # In the first token every mark is dropped, not only one in front.
    return _plain(_FirstApart, _replacing(mark, " " if never else ""), _replacing(mark, " "))


def _word_piece(spec: dict[str, Any]) -> _MakeStep:
    prefix = str(spec["prefix"])
    tidy: Callable[[str], str] = _clean_up if spec["cleanup"] else str

    def other(token: str) -> str:
        return tidy(token[len(prefix) :] if token.startswith(prefix) else " " + token)

    return _plain(_FirstApart, tidy, other)


def _strip(spec: dict[str, Any], fused: bool) -> _MakeStep:
    content, count = spec["content"], spec["start"]
    if fused:
        return _plain(_StripStart, content, count)
    return _plain(_Each, lambda token: _strip_start(token, content, count))


def _steps(spec: dict[str, Any] | None) -> list[_MakeStep]:
    """The decoder as a list of step constructors; raises if one is beyond them."""
    if spec is None:
        return [_plain(_FirstApart, str, lambda token: " " + token)]
    steps: list[_MakeStep] = []
    fused = False  # whether the tokens have been joined into one
    for part in _flat(spec):
        match part["type"]:
            case "Fuse":
                fused = True
            case "ByteLevel" if not fused:
                fused = True
                steps.append(_ByteLevelStep)
            case "ByteFallback" if not fused:
                steps.append(_ByteFallback)
            case "Metaspace" if not fused:
                steps.append(_metaspace(part))
            case "WordPiece" if not fused:
                steps.append(_word_piece(part))
            case "BPEDecoder" if not fused:
                steps.append(_plain(_LastApart, part["suffix"]))
            case "Strip" if not part["stop"]:
                steps.append(_strip(part, fused))
            case "Replace" if len(old := part["pattern"].get("String", "")) == 1 or (old and not fused):
                steps.append(_plain(_Each, _replacing(old, part["content"])))
            case kind:
                after = " after the tokens were joined" if fused else ""
                raise BackendUnsupportedError(f"decoder {kind}{after} runs on the reference only")
    return steps


def _flat(spec: dict[str, Any]) -> list[dict[str, Any]]:
    if spec["type"] != "Sequence":
        return [spec]
    return [part for inner in spec["decoders"] for part in _flat(inner)]


class ChainDecoder(Decoder):
    """Decodes token strings by the steps of the pipeline's decoder.

    ``tokens``
        The string of each id of the model's vocabulary, None for an id not in use.
    ``spec``
        The ``decoder`` of the ``tokenizer.json``, decoded; None for a file without one.
    ``added_tokens``, ``normalize``
        As in :class:`ByteLevelDecoder`.

    Raises :class:`~toktier.errors.BackendUnsupportedError` for a decoder that cannot be
    run exactly this way.
    """

    def __init__(
        self,
        tokens: Sequence[str | None],
        spec: dict[str, Any] | None,
        added_tokens: Iterable[AddedToken] = (),
        normalize: Callable[[str], str] | None = None,
    ) -> None:
        self._steps = _steps(spec)
        added_tokens = tuple(added_tokens)
        added = _added_strings(added_tokens, normalize)
        self._tokens: list[str | None] = list(tokens)
        self._tokens += [None] * (max(added, default=-1) + 1 - len(self._tokens))
        for token_id, (string, _) in added.items():
            self._tokens[token_id] = string
        # by their strings: Unigram may list that of a special token twice
        special = {token.content for token in added_tokens if token.special}
        self._special = frozenset(token_id for token_id, string in enumerate(self._tokens) if string in special)

    def decode(self, ids: Ids, skip_special_tokens: bool = True) -> str:
        return self._run(ids, skip_special_tokens, "replace")

    def decode_bytes(self, ids: Ids, skip_special_tokens: bool = False) -> bytes:
        # Bytes that are not UTF-8 travel through the steps as lone surrogates.
        return self._run(ids, skip_special_tokens, "surrogateescape").encode("utf-8", "surrogateescape")

    def stream(self, skip_special_tokens: bool = True) -> StreamDecoder:
        return _ChainStream(self, skip_special_tokens, "replace")

    def _run(self, ids: Ids, skip_special_tokens: bool, errors: str) -> str:
        stream = _ChainStream(self, skip_special_tokens, errors)
        return stream.put_many(ids) + stream.flush()

    def _strings(self, ids: Iterable[int], skip_special_tokens: bool) -> list[str]:
        skipped = self._special if skip_special_tokens else frozenset()
        size = len(self._tokens)
        strings = [self._tokens[i] for i in ids if i < size and i not in skipped]
        return [string for string in strings if string is not None]


class _ChainStream(StreamDecoder):
    def __init__(self, decoder: ChainDecoder, skip_special_tokens: bool, errors: str) -> None:
        self._decoder = decoder
        self._skip = skip_special_tokens
        self._errors = errors
        self._chain: list[_Step] = [make(errors) for make in decoder._steps]

    def put(self, token_id: int) -> str:
        return self._feed([_check_id(token_id)])

    def put_many(self, ids: Ids) -> str:
        return self._feed(check_ids(ids).tolist())

    def flush(self) -> str:
        tokens: list[str] = []
        for step in self._chain:
            tokens = step.feed(tokens) + step.finish()
        self._chain = [make(self._errors) for make in self._decoder._steps]
        return "".join(tokens)

    def _feed(self, ids: list[int]) -> str:
        tokens = self._decoder._strings(ids, self._skip)
        for step in self._chain:
            tokens = step.feed(tokens)
        return "".join(tokens)


# --- the reference ------------------------------------------------------------------


class ReferenceDecoder(Decoder):
    """Lets the reference decode.

    Its streams hold everything back until ``flush``: what such a decoder makes of a token
    can depend on all that follow.  ``decode_bytes`` is the UTF-8 form of the text.
    """

    def __init__(self, reference: Callable[[], ReferenceTokenizer], unsupported: str) -> None:
        self._reference = reference
        self.unsupported = unsupported

    def decode(self, ids: Ids, skip_special_tokens: bool = True) -> str:
        values = check_ids(ids).tolist()
        with failures():
            return self._reference().decode(values, skip_special_tokens=skip_special_tokens)

    def decode_bytes(self, ids: Ids, skip_special_tokens: bool = False) -> bytes:
        return self.decode(ids, skip_special_tokens).encode()

    def stream(self, skip_special_tokens: bool = True) -> StreamDecoder:
        return _HeldStream(self, skip_special_tokens)


class _HeldStream(StreamDecoder):
    def __init__(self, decoder: ReferenceDecoder, skip_special_tokens: bool) -> None:
        self._decoder = decoder
        self._skip = skip_special_tokens
        self._ids: list[int] = []

    def put(self, token_id: int) -> str:
        self._ids.append(_check_id(token_id))
        return ""

    def put_many(self, ids: Ids) -> str:
        self._ids += check_ids(ids).tolist()
        return ""

    def flush(self) -> str:
        ids, self._ids = self._ids, []
        return self._decoder.decode(ids, self._skip)


# --- choosing -------------------------------------------------------------------------


def is_byte_level(decoder: Other | None) -> bool:
    """Whether the pipeline's decoder is ``ByteLevel`` and nothing else."""
    if decoder is None:
        return False
    return [part["type"] for part in _flat(json.loads(decoder.json))] == ["ByteLevel"]


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
        _steps(spec)
    except BackendUnsupportedError as problem:
        return ReferenceDecoder(reference, str(problem))
    return ChainDecoder(tokens(), spec, added_tokens, normalize)
