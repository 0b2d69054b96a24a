"""Decoders that work on token strings, as a chain of steps."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from ..errors import BackendUnsupportedError
from ..pipeline import AddedToken
from .base import Decoder, ShownTokens, StreamDecoder, added_strings, string_bytes
from .ids import Ids, check_id, list_of_ids

_Change: TypeAlias = Callable[[str], str]


class _Step(Protocol):
    """One decoder of the reference, fed piece by piece.

    Steps that look at one token at a time take and give lists of tokens.  After a step
    that joins all tokens into one, the lists are the fragments of that one.

    ``settled``: from now on each token becomes the same whatever stands around it, unless it stands for a byte;
    ``each`` says what.  A step that never gets there has None.
    """

    @property
    def each(self) -> _Change | None: ...

    @property
    def settled(self) -> bool: ...

    def feed(self, tokens: list[str]) -> list[str]: ...

    def finish(self) -> list[str]: ...


class _Each:
    """A step that treats every token, or every fragment, alike."""

    settled = True

    def __init__(self, change: _Change) -> None:
        self.each = change

    def feed(self, tokens: list[str]) -> list[str]:
        return [self.each(token) for token in tokens]

    def finish(self) -> list[str]:
        return []


class _FirstApart:
    """A step that treats the first token in one way and all others in another."""

    def __init__(self, first: _Change, other: _Change) -> None:
        self._first = first
        self.each = other
        self.settled = False

    def feed(self, tokens: list[str]) -> list[str]:
        if self.settled or not tokens:
            return [self.each(token) for token in tokens]
        self.settled = True
        return [self._first(tokens[0]), *(self.each(token) for token in tokens[1:])]

    def finish(self) -> list[str]:
        return []


class _LastApart:
    """``BPEDecoder``: the word-end suffix becomes a space, in the last token nothing."""

    each = None
    settled = False

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


def _byte(token: str) -> int | None:
    """What a token like ``<0x0A>`` stands for."""
    match = _BYTE_TOKEN.fullmatch(token) if len(token) == 6 else None
    return None if match is None else int(match[1], 16)


def _texts_of(run: bytes, errors: str) -> list[str]:
    """What a whole run of byte tokens becomes."""
    try:
        return [run.decode()]
    except UnicodeDecodeError:
        return ["\ufffd"] * len(run) if errors == "replace" else [run.decode("utf-8", errors)]


class _ByteFallback:
    """A run of byte tokens becomes its text if it is UTF-8, else one U+FFFD for each byte.

    Only the end of a run decides, so the whole run is held back.
    """

    def __init__(self, errors: str) -> None:
        self.each = str
        self._errors = errors
        self._run = bytearray()

    @property
    def settled(self) -> bool:
        return not self._run

    def feed(self, tokens: list[str]) -> list[str]:
        result = []
        for token in tokens:
            byte = _byte(token)
            if byte is not None:
                self._run.append(byte)
            else:
                result += [*self.finish(), token]
        return result

    def finish(self) -> list[str]:
        if not self._run:
            return []
        run = bytes(self._run)
        self._run.clear()
        return _texts_of(run, self._errors)


class _ByteLevelStep:
    """``ByteLevel`` among other steps: all tokens become one text."""

    each = None
    settled = False

    def __init__(self, errors: str) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors)

    def feed(self, tokens: list[str]) -> list[str]:
        return [self._utf8.decode(b"".join(map(string_bytes, tokens)))]

    def finish(self) -> list[str]:
        return [self._utf8.decode(b"", final=True)]


class _StripStart:
    """``Strip`` on the one joined token: up to ``count`` of ``content`` go from its start."""

    def __init__(self, content: str, count: int) -> None:
        self.each = str
        self._content = content
        self._left = count

    @property
    def settled(self) -> bool:
        return not self._left

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


def _replacing(old: str, new: str) -> _Change:
    return lambda token: token.replace(old, new)


def _metaspace(spec: dict[str, Any]) -> _MakeStep:
    mark = str(spec["replacement"])
    never = spec.get("prepend_scheme", "always") == "never" or spec.get("add_prefix_space") is False
    # In the first token every mark is dropped, not only one in front.
    return _plain(_FirstApart, _replacing(mark, " " if never else ""), _replacing(mark, " "))


def _word_piece(spec: dict[str, Any]) -> _MakeStep:
    prefix = str(spec["prefix"])
    tidy: _Change = _clean_up if spec["cleanup"] else str

    def other(token: str) -> str:
        return tidy(token[len(prefix) :] if token.startswith(prefix) else " " + token)

    return _plain(_FirstApart, tidy, other)


def _strip(spec: dict[str, Any], fused: bool) -> _MakeStep:
    content, count = spec["content"], spec["start"]
    if fused:
        return _plain(_StripStart, content, count)
    return _plain(_Each, lambda token: _strip_start(token, content, count))


def make_steps(spec: dict[str, Any] | None) -> list[_MakeStep]:
    """The decoder as a list of step constructors; raises if one is beyond them."""
    if spec is None:
        return [_plain(_FirstApart, str, lambda token: " " + token)]
    steps: list[_MakeStep] = []
    fused = False  # whether the tokens have been joined into one
    for part in flat(spec):
        match part.get("type"):
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


def flat(spec: dict[str, Any]) -> list[dict[str, Any]]:
    if spec.get("type") != "Sequence":
        return [spec]
    return [part for inner in spec["decoders"] for part in flat(inner)]


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
        self._steps = make_steps(spec)
        added_tokens = tuple(added_tokens)
        added = added_strings(added_tokens, normalize)
        self._tokens = tokens
        self._added = {token_id: string for token_id, (string, _) in added.items()}
        size = max(len(tokens), max(added, default=-1) + 1)
        self._strings = ShownTokens(self._string_of, size, None)
        # by their strings: Unigram may list that of a special token twice
        special = frozenset(token.content for token in added_tokens if token.special)
        self._hidden = (frozenset[str](), special)  # by `skip_special_tokens`, like all pairs below
        # Where all steps settle, most tokens can be looked up.
        self._model = self.chain("replace")
        self.settles = all(step.each for step in self._model)
        self._first = [ShownTokens(partial(self._first_alone, skip), size, None) for skip in (False, True)]
        self.later: list[ShownTokens[str | None]] = [
            ShownTokens(partial(self._later_alone, skip), size, "") for skip in (False, True)
        ]
        self._bytes: dict[int, int] = {}  # of ids that were looked up
        fallbacks = [at for at, step in enumerate(self._model) if isinstance(step, _ByteFallback)]
        self._behind_bytes = self._model[fallbacks[0] + 1 :] if len(fallbacks) == 1 else None

    def decode(self, ids: Ids, skip_special_tokens: bool = True) -> str:
        return self._run(ids, skip_special_tokens, "replace")

    def decode_bytes(self, ids: Ids, skip_special_tokens: bool = False) -> bytes:
        # Bytes that are not UTF-8 travel through the steps as lone surrogates.
        return self._run(ids, skip_special_tokens, "surrogateescape").encode("utf-8", "surrogateescape")

    def stream(self, skip_special_tokens: bool = True) -> StreamDecoder:
        return _ChainStream(self, skip_special_tokens, "replace")

    def chain(self, errors: str) -> list[_Step]:
        """New steps."""
        return [make(errors) for make in self._steps]

    def strings(self, ids: Iterable[int], skip_special_tokens: bool) -> list[str]:
        """The tokens of the ids that are shown."""
        hidden = self._hidden[skip_special_tokens]
        strings = map(self._strings.__getitem__, ids)
        return [string for string in strings if string is not None and string not in hidden]

    def _string_of(self, token_id: int) -> str | None:
        if token_id in self._added:
            return self._added[token_id]
        return self._tokens[token_id] if token_id < len(self._tokens) else None

    def look_up(
        self, ids: list[int], later: list[str | None], at: int, parts: list[str | None], errors: str, ends: bool
    ) -> int:
        """Append to ``parts`` what ``ids[at:]`` are shown as once all steps have settled, as far as that is known.

        ``later`` is what they are looked up as, and None behind the last.  ``ends``: nothing follows.
        Returns where it stopped, the end or a run of bytes that takes the steps.
        """
        while at < len(ids):
            start = later.index(None, at)
            parts += later[at:start]
            at = start
            while at < len(ids) and later[at] is None:
                at += 1
            # What is shown as nothing may not be there at all, so that the run goes on behind it.
            closed = later[at] or (at == len(ids) and ends)
            if at > start and (not closed or self._behind_bytes is None):
                return start
            parts += self._run_of_bytes(ids[start:at], errors)
        return at

    def _run_of_bytes(self, ids: list[int], errors: str) -> list[str]:
        if not ids:
            return []
        texts = _texts_of(bytes(map(self._bytes.__getitem__, ids)), errors)
        for step in self._behind_bytes or ():
            assert step.each is not None
            texts = list(map(step.each, texts))
        return texts

    def _run(self, ids: Ids, skip_special_tokens: bool, errors: str) -> str:
        values, skip = list_of_ids(ids), skip_special_tokens
        at = 0
        while at < len(values) and self._strings[values[at]] in self._hidden[skip]:
            at += 1
        if at < len(values) and self.settles:
            parts = [self._first[skip][values[at]]]
            if parts[0] is not None:
                rest = values[at + 1 :]
                later = [*map(self.later[skip].__getitem__, rest), None]
                if self.look_up(rest, later, 0, parts, errors, True) == len(rest):
                    return "".join(parts)  # type: ignore[arg-type]  # no None is left
        stream = _ChainStream(self, skip, errors)
        return stream.feed(values) + stream.flush()

    def _first_alone(self, skip_special_tokens: bool, token_id: int) -> str | None:
        """What the first token is shown as; None if that, or the next one, depends on more than it."""
        stream = _ChainStream(self, skip_special_tokens, "replace")
        shown = stream.by_steps([token_id])
        return shown if stream.settled else None

    def _later_alone(self, skip_special_tokens: bool, token_id: int) -> str | None:
        """What a token is shown as once all steps have settled; None for one that stands for a byte."""
        shown = ""
        for token in self.strings([token_id], skip_special_tokens):
            shown = token
            for step in self._model:
                if isinstance(step, _ByteFallback) and (byte := _byte(shown)) is not None:
                    self._bytes[token_id] = byte
                    return None
                assert step.each is not None
                shown = step.each(shown)
        return shown


class _ChainStream(StreamDecoder):
    def __init__(self, decoder: ChainDecoder, skip_special_tokens: bool, errors: str) -> None:
        self._decoder = decoder
        self._skip = skip_special_tokens
        self._errors = errors
        self._later = decoder.later[self._skip]
        self._begin()

    def _begin(self) -> None:
        self._chain = self._decoder.chain(self._errors)
        self.settled = all(step.settled for step in self._chain)

    def put(self, token_id: int) -> str:
        token_id = check_id(token_id)
        shown = self._later[token_id] if self.settled else None
        return self.feed([token_id]) if shown is None else shown

    def put_many(self, ids: Ids) -> str:
        return self.feed(list_of_ids(ids))

    def flush(self) -> str:
        tokens: list[str] = []
        for step in self._chain:
            tokens = step.feed(tokens) + step.finish()
        self._begin()
        return "".join(tokens)

    def feed(self, ids: list[int]) -> str:
        """What has become certain, by look-up where it can be."""
        if not self._decoder.settles:
            return self.by_steps(ids)
        later = [*map(self._later.__getitem__, ids), None]
        parts: list[str | None] = []
        at = 0
        while True:
            if self.settled:
                at = self._decoder.look_up(ids, later, at, parts, self._errors, False)
            if at == len(ids):
                return "".join(parts)  # type: ignore[arg-type]  # no None is left
            start = at  # of bytes; with the token that ends their run
            while at < len(ids) and later[at] is None:
                at += 1
            at = min(at + 1, len(ids))
            parts.append(self.by_steps(ids[start:at]))

    def by_steps(self, ids: list[int]) -> str:
        """What has become certain, by the steps themselves."""
        tokens = self._decoder.strings(ids, self._skip)
        for step in self._chain:
            tokens = step.feed(tokens)
        self.settled = all(step.settled for step in self._chain)
        return "".join(tokens)
