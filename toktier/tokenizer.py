"""The tokenizer that a caller holds: one artifact, all of its operations.

The work is done elsewhere, in the order of the pipeline: :mod:`~toktier.front` finds added tokens and
normalizes, a backend makes ids of the rest, :mod:`~toktier.postprocessing` truncates and adds special ids.
What is decided here is which backend runs, in how many parts, and what happens when the caller is wrong.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from . import batching, offsets
from .arguments import check_flag, check_natural, check_special, is_one_of, plain_text
from .artifact import Artifact
from .backends.base import Backend
from .backends.device import import_jax
from .backends.numpy import NumpyBackend
from .backends.python import PythonBackend
from .backends.reference import Reference, engine_version, failures
from .backends.splitting import KeptCharacters
from .bpe.pieces import PieceEncoder, PieceTables
from .bpe.tables import shown_bytes
from .certificates.cuts import Cuts
from .certificates.literals import literals_of
from .compiled import Compiled, compiled
from .decoding import Decoder, Ids, StreamDecoder, TokenStrings, make_decoder
from .errors import (
    BackendUnsupportedError,
    LoneSurrogateError,
    OptionError,
    SpecialTokenError,
    TextTypeError,
    UnknownBackendError,
)
from .front import Front
from .lazy import lazy
from .parallel import check_threads, groups, map_parts, usable_cores
from .pipeline import BPE, Normalizer, NormalizerSequence, UnicodeForm
from .postprocessing import PostProcessor
from .records import record, replace
from .segments import NO_IDS, PreparedText
from .word_marks import word_mark

if TYPE_CHECKING:
    from pathlib import Path

    import jax
    import tokenizers

    from .backends.jax.backend import JaxBackend
    from .backends.jax.unchecked import Unchecked
    from .certificates.stream import StreamEncoder
    from .chat import ChatSession
    from .explanation import Explanation
    from .sessions import Session
    from .word_encoder import WordEncoder

Special = Literal["encode", "text", "raise"]

BACKENDS = ("auto", "reference", "python", "numpy", "jax")

#: ``auto`` takes the ``numpy`` backend for texts of at least this many characters.
_LONG_TEXT = 12_000
#: The same for texts that are mostly beyond ASCII: their words have many bytes to merge, which pays together.
_LONG_WIDE_TEXT = 3_000
#: Characters that are encoded in one go, or up to twice as many on arrays, whose calls cost the same for more.
#: Longer texts are cut at safe places, into parts that are worth a thread and do not leave the processor's cache.
_PART = 1 << 18
_SURROGATE = re.compile("[\ud800-\udfff]")


@record
class Encoding:
    """Ids with the stretches of text that they stand for.

    ``ids``: uint32 (n,).  ``offsets``: int64 (n, 2), start and stop in characters, as the reference reports
    them.  ``byte_offsets``: the same stretches in bytes of the text's UTF-8.
    """

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    byte_offsets: NDArray[np.int64]


@record
class Piece:
    """One piece at ``start..stop`` (characters of the normalized text); ``added``: it is an added token."""

    text: str
    start: int
    stop: int
    added: bool
    ids: tuple[int, ...]


class Tokenizer:
    """One tokenizer, immutable and safe to share between threads and across ``fork``.

    Made by :func:`toktier.load`, which gives one object to all who ask for the same file.  Methods that encode
    take these by keyword, as far as their signatures name them:

    ``add_special_tokens``
        Whether the post-processor's special ids (BOS and the like) are added; the reference's default, True.
    ``special``
        What becomes of special tokens that stand in the text: ``"encode"`` makes their ids of them, as the
        reference does; ``"text"`` encodes them like any other text (the reference's ``encode_special_tokens``);
        ``"raise"`` raises :class:`~toktier.errors.SpecialTokenError`.
    ``backend``
        Overrides the tokenizer's own for this call.
    ``max_length``
        Truncate to so many ids, as the reference does after ``enable_truncation(max_length)``.
    ``threads``
        At most so many threads for long texts and batches; as many as there are cores if None.

    The ids are those of the reference whichever of its ways a text goes.
    """

    def __init__(self, artifact: Artifact, backend: str = "auto") -> None:
        if not isinstance(artifact, Artifact):
            raise OptionError(f"tokenizers are made by toktier.load({artifact!r}), not by their class")
        self._artifact = artifact
        self._compiled: Compiled = compiled(artifact)
        self._post = PostProcessor.from_pipeline(self._compiled.pipeline)
        self._front = Front(self._compiled.pipeline, inert=self._compiled.inert)
        self._reference = Reference(artifact)
        self._unsupported = self._compiled.reason or self._front.unsupported or self._post.unsupported
        self._backends: dict[str, Backend] = {}
        engine = self._compiled.engine
        if engine is not None and self._unsupported is None:
            self._pieces: PieceEncoder | WordEncoder
            if isinstance(engine.pieces, PieceTables):
                self._pieces = PieceEncoder(engine.pieces, self._reference_piece)
            else:
                self._pieces = engine.pieces.encoder()
            self._backends["python"] = PythonBackend(engine.split, self._pieces)
            self._backends["numpy"] = NumpyBackend(engine.split, self._pieces)
        self._making = threading.Lock()
        self._backend = backend
        self._check_backend(backend)

    # --- what it is -------------------------------------------------------------

    @property
    def name(self) -> str:
        """What the artifact was loaded as; only for display."""
        return self._artifact.name

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the ``tokenizer.json``, in hexadecimal."""
        return self._artifact.fingerprint

    @property
    def backend(self) -> str:
        """The backend of calls that name none; ``"auto"`` chooses by the text."""
        return self._backend

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends that can run this tokenizer, exactly; ``jax`` once it was asked for."""
        return ("reference", *self._backends)

    @property
    def model(self) -> str:
        """The kind of model, for example ``"byte-level BPE"``."""
        model = self._compiled.pipeline.model
        if not isinstance(model, BPE):
            return model.type
        return "byte-level BPE" if self._compiled.alphabet else "BPE"

    @lazy
    def vocab_size(self) -> int:
        """One more than the greatest id, added tokens included."""
        added = [token.id for token in self._compiled.pipeline.added_tokens]
        return max(len(self._compiled.tokens.present), max(added, default=-1) + 1)

    def reference(self) -> tokenizers.Tokenizer:
        """Hugging Face's object of this artifact, made when first asked for.

        What is changed there changes nothing here.
        """
        return self._reference.shown

    def explain(self) -> Explanation:
        """Which backend runs what, where texts may be cut, and what falls back to the reference and why."""
        from .explanation import Explanation

        engine = self._compiled.engine if self._backends else None
        fallbacks = []
        if engine is None:
            fallbacks.append(("everything", self._unsupported or ""))
        elif not self._gives_offsets:
            why = "ours are for byte-level models whose tokens make up the text, perhaps in a Unicode form"
            fallbacks.append(("offsets", why))
        if self._cuts.refusal is not None:
            fallbacks.append(("repair and parallel encoding", self._cuts.refusal))
        if "jax" in self._backends:
            reasons = self._jax().reasons
            fallbacks += [(f"on the device, {count} times", reason) for reason, count in reasons.items()]
        return Explanation(
            name=self.name,
            fingerprint=self.fingerprint,
            tokenizers_version=engine_version(),
            backend=self.backend,
            backends=self.backends,
            stages=len(engine.split.splitter.stages) if engine else 0,
            atoms=engine.split.splitter.end if engine else 0,
            certificate=self._describe_certificate(),
            limits=self._describe_limits(),
            fallbacks=tuple(fallbacks),
        )

    def _describe_certificate(self) -> str:
        found = self._compiled.certificate
        if self._cuts.refusal is not None:
            return f"none: {self._cuts.refusal}"
        if len(found.adjacent):
            return f"barriers: all but {len(found.adjacent)} pairs of characters, which tokens contain, close"
        return (
            f"{int(found.restarts.sum())} of {found.restarts.size} pairs of atoms restart, "
            f"{int(found.closes.sum())} close"
        )

    def _describe_limits(self) -> str:
        truncation, padding = self._post.truncation, self._post.padding
        limits = []
        if truncation is not None:
            limits.append(f"truncates to {truncation.max_length} tokens (max_length= sets another number)")
        if padding is not None:
            length = "the longest of a batch" if padding.length is None else f"{padding.length} tokens"
            limits.append(f"pads to {length}")
        if not limits:
            return ""
        return f"every text, as the tokenizer.json says: {', '.join(limits)}; sessions encode it anew"

    def __repr__(self) -> str:
        return f"<toktier.Tokenizer {self.name} {self.fingerprint[:12]} backend={self.backend}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self._artifact, self.backend)

    def __deepcopy__(self, memo: object) -> Tokenizer:
        return self

    def warmup(self, backend: str = "jax", *, up_to: int | None = None, threshold: int | None = None) -> None:
        """Make what the first calls of a backend would make, so that they are as fast as later ones.

        For ``"jax"`` that is a compiled function for each size of text up to ``up_to`` bytes (all sizes if None);
        with JAX's persistent compilation cache (``JAX_COMPILATION_CACHE_DIR``) they are kept between processes.
        Where JAX has an accelerator, ``auto`` sends texts of at least ``threshold`` characters there from now on;
        if None, as many as it takes until it is faster than ``"numpy"``, which is measured here and now.
        """
        chosen = self._check_backend(backend)
        threshold, up_to = check_natural("threshold", threshold), check_natural("up_to", up_to)
        if chosen == "reference":
            _ = self._reference.plain
        elif chosen == "jax":
            device = self._jax()
            device.warm_up(up_to)
            if device.accelerated and threshold is None:
                from .backends.jax.routing import made_up_texts

                device.measure(
                    lambda text: self._model_ids(text, "encode", "numpy", None),
                    made_up_texts(self._compiled.tokens),
                    up_to,
                )
            elif device.accelerated:
                device.faster_from = threshold

    # --- encoding -----------------------------------------------------------------

    def encode(
        self,
        text: str,
        add_special_tokens: bool = True,
        *,
        special: Special = "encode",
        backend: str | None = None,
        max_length: int | None = None,
        threads: int | None = None,
    ) -> list[int]:
        """The ids of ``text``, equal to the reference's ``encode(text, add_special_tokens=…).ids``.

        The options are those of the class.  Raises :class:`~toktier.errors.TextTypeError` and
        :class:`~toktier.errors.LoneSurrogateError` for what is no text.
        """
        ids = self.encode_to_numpy(
            text,
            add_special_tokens,
            special=special,
            backend=backend,
            max_length=max_length,
            threads=threads,
        )
        return ids.tolist()  # type: ignore[no-any-return]

    def encode_to_numpy(
        self,
        text: str,
        add_special_tokens: bool = True,
        *,
        special: Special = "encode",
        backend: str | None = None,
        max_length: int | None = None,
        threads: int | None = None,
    ) -> NDArray[np.uint32]:
        """The ids of ``text`` as a uint32 array of shape (ids,), without a Python list in between.

        Options and errors are those of :meth:`encode`.
        """
        text = self._check(text, special)
        check_threads(threads)
        self._post.limit(add_special_tokens, max_length)  # refuses a bad one
        if self._is_reference(backend):
            with _own_errors(text):
                if len(text) > _PART and self._check_backend(backend) == "auto" and self._post.unsupported is None:
                    ids = self._reference_ids(text, special, threads)
                elif max_length is None or not self._truncates_alone:
                    return self._reference.ids(text, add_special_tokens, special, max_length)
                else:
                    ids = self._reference.ids(text, False, special, None)
            return self._post.finish(ids, add_special_tokens, max_length)
        room = self._post.room(add_special_tokens, max_length)
        with _own_errors(text):
            if room is None:
                ids = self._model_ids(text, special, backend, threads)
            else:
                if not text.isascii():
                    text.encode("utf-8")  # what lies beyond the room is not looked at, but must be text
                parts = list(self._parts(text, special, backend, room, threads))
                ids = np.concatenate(parts) if parts else NO_IDS
        return self._post.finish(ids, add_special_tokens, max_length)

    def encode_to_device(
        self, text: str, add_special_tokens: bool = True, *, special: Special = "encode"
    ) -> jax.Array:
        """The ids of ``text`` as an int32 array of shape (ids,) on JAX's default device, made there if possible.

        Raises :class:`~toktier.errors.MissingDependencyError` without JAX, and
        :class:`~toktier.errors.BackendUnsupportedError` where the model is not BPE or the reference alone runs it.
        """
        text = self._check(text, special)
        self._check_backend("jax")
        backend, post = self._jax(), self._post
        with _own_errors(text):
            unchecked = self._unchecked((text,), special)
            prepared = self._prepare(text, special, as_it_is=unchecked is not None)
            whole = backend.fits(prepared)
        if whole and post.unsupported is None and post.truncation is None and post.padding is None:
            around = (post.prefix, post.suffix) if add_special_tokens else ((), ())
            return backend.encode_on_device(prepared, unchecked, *around)
        found = self.encode_to_numpy(text, add_special_tokens, special=special, backend="jax")
        return backend.put(found)

    def encode_batch(
        self,
        texts: Iterable[str],
        add_special_tokens: bool = True,
        *,
        special: Special = "encode",
        backend: str | None = None,
        max_length: int | None = None,
        threads: int | None = None,
    ) -> list[list[int]]:
        """The ids of each text, equal to the reference's ``encode_batch``."""
        arrays = self.encode_batch_to_numpy(
            texts,
            add_special_tokens,
            special=special,
            backend=backend,
            max_length=max_length,
            threads=threads,
        )
        return [ids.tolist() for ids in arrays]

    def encode_batch_to_numpy(
        self,
        texts: Iterable[str],
        add_special_tokens: bool = True,
        *,
        special: Special = "encode",
        backend: str | None = None,
        max_length: int | None = None,
        threads: int | None = None,
    ) -> list[NDArray[np.uint32]]:
        """The ids of each text as a uint32 array; options and errors are those of :meth:`encode_batch`."""
        if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            one = "one " if isinstance(texts, str | bytes) else ""
            raise TextTypeError(f"encode_batch takes a list of texts, not {one}{type(texts).__name__}")
        check_threads(threads)
        texts = [self._check(text, special, number) for number, text in enumerate(texts)]
        self._post.limit(add_special_tokens, max_length)  # refuses a bad one
        if self._is_reference(backend):
            with _own_errors(*texts):
                if max_length is None or not self._truncates_alone:
                    return self._reference.batch(texts, add_special_tokens, special, max_length)
                batch = self._reference.batch(texts, False, special, None)
            return self._post.finish_batch(batch, add_special_tokens, max_length)
        room = self._post.room(add_special_tokens, max_length)

        def encode_group(group: Sequence[str]) -> list[NDArray[np.uint32]]:
            return self._encode_group(group, special, backend, room)

        if self._check_backend(backend) == "jax":
            size, threads = self._jax().largest, self._jax().overlapped
        else:
            size = _PART
        with _own_errors(*texts):
            grouped = map_parts(encode_group, list(groups(texts, size)), threads)
        found = [ids for group in grouped for ids in group]
        return self._post.finish_batch(found, add_special_tokens, max_length)

    def encode_with_offsets(
        self,
        text: str,
        add_special_tokens: bool = True,
        *,
        special: Special = "encode",
        backend: str | None = None,
        max_length: int | None = None,
    ) -> Encoding:
        """Ids with offsets equal to the reference's, in characters and in bytes."""
        text = self._check(text, special)
        self._post.limit(add_special_tokens, max_length)  # refuses a bad one
        with _own_errors(text):
            if self._is_reference(backend) or not self._gives_offsets:
                ids, spans = self._reference_offsets(text, add_special_tokens, special, max_length)
            else:
                ids, spans = self._engine_offsets(text, add_special_tokens, special, backend, max_length)
        return Encoding(ids, spans, offsets.utf8_spans(text, spans))

    def count(
        self,
        text: str,
        limit: int | None = None,
        add_special_tokens: bool = True,
        *,
        special: Special = "encode",
        backend: str | None = None,
        threads: int | None = None,
    ) -> int:
        """How many ids ``text`` has; with ``limit``, ``limit + 1`` if there are more than ``limit``.

        With a limit the text is read only as far as needed, wherever it can be cut at safe places.  What lies
        beyond is not looked at, not even for a lone surrogate, which raises an error elsewhere.
        """
        text = self._check(text, special)
        check_threads(threads)
        limit = check_natural("limit", limit)
        if self._is_reference(backend):
            found = len(self.encode_to_numpy(text, add_special_tokens, special=special, backend=backend))
            return found if limit is None else min(found, limit + 1)
        room = self._post.room(add_special_tokens)
        wanted = None if limit is None else limit + 1
        if room is not None:
            wanted = room if wanted is None else min(room, wanted)
        total = 0
        with _own_errors(text):
            for part in self._parts(text, special, backend, wanted, threads):
                total += len(part)
        found = self._post.length(total, add_special_tokens)
        return found if limit is None else min(found, limit + 1)

    def pieces(
        self, text: str, *, special: Special = "encode", backend: str | None = None
    ) -> tuple[str, list[Piece]]:
        """The normalized text, and the pieces that it is cut into, with their ids.  For inspection.

        Pieces that the pre-tokenizer leaves out have no ids; what stages behind ``ByteLevel`` cut is shown whole.
        Raises :class:`~toktier.errors.BackendUnsupportedError` where only the reference runs the tokenizer.
        """
        normal, starts = self.piece_starts(text, special=special, backend=backend)
        prepared = self._prepare(plain_text(text), special)
        added = dict(zip(prepared.starts.tolist(), prepared.ids.tolist(), strict=True))
        found = []
        for start, stop in pairwise([*starts.tolist(), len(normal)]):
            piece = normal[start:stop]
            ids = (added[start],) if start in added else self._piece_ids(piece)
            found.append(Piece(piece, start, stop, start in added, ids))
        return normal, found

    def piece_starts(
        self, text: str, *, special: Special = "encode", backend: str | None = None
    ) -> tuple[str, NDArray[np.int64]]:
        """The normalized text, and where in it the pieces begin (int64, in characters).

        An added token counts as one piece.
        """
        text = self._check(text, special)
        if self._is_reference(backend):
            only = f"{self.name} has no other backend: {self._unsupported}"
            hint = only if self._unsupported else 'use backend="python" or "numpy"'
            raise BackendUnsupportedError(f"the reference shows no pieces; {hint}")
        with _own_errors(text):
            prepared = self._prepare(text, special)
            return prepared.text, self._engine(text, backend).piece_starts(prepared)

    def session(
        self, text: str = "", *, special: Special = "encode", strategy: Literal["restart", "search"] = "restart"
    ) -> Session:
        """A text that grows or changes, with its ids: see :class:`~toktier.sessions.Session`."""
        from .sessions import Session

        return Session(self, text, special=special, strategy=strategy)

    def chat_session(
        self,
        template: str | os.PathLike[str] | None = None,
        *,
        special: Literal["encode", "text"] = "encode",
        trusted: Collection[str] = ("assistant",),
    ) -> ChatSession:
        """Messages rendered with the chat template, and their ids: see :class:`~toktier.chat.ChatSession`."""
        from .chat import ChatSession

        return ChatSession(self, template, special=special, trusted=trusted)

    # --- decoding -----------------------------------------------------------------

    def decode(self, ids: Ids, skip_special_tokens: bool = True) -> str:
        """The text of ids, equal to the reference's ``decode``; ids that no token has are skipped."""
        return self._decoder.decode(ids, check_flag("skip_special_tokens", skip_special_tokens))

    def decode_batch(self, batch: Iterable[Ids], skip_special_tokens: bool = True) -> list[str]:
        """The text of each sequence of ids."""
        return self._decoder.decode_batch(batch, check_flag("skip_special_tokens", skip_special_tokens))

    def decode_bytes(self, ids: Ids, skip_special_tokens: bool = False) -> bytes:
        """The bytes of ids, exactly, where :meth:`decode` would have to write U+FFFD; of special tokens, too."""
        return self._decoder.decode_bytes(ids, check_flag("skip_special_tokens", skip_special_tokens))

    def stream_decoder(self, skip_special_tokens: bool = True) -> StreamDecoder:
        """A decoder that takes ids one by one and never shows half a character."""
        return self._decoder.stream(check_flag("skip_special_tokens", skip_special_tokens))

    @lazy
    def _decoder(self) -> Decoder:
        found = self._compiled
        return make_decoder(
            found.pipeline.decoder,
            table=lambda: (found.tokens.blob, found.tokens.offsets),
            tokens=lambda: TokenStrings(found.tokens),
            reference=lambda: self._reference.plain,
            added_tokens=found.pipeline.added_tokens,
            normalize=None if found.pipeline.normalizer is None else self._front.normalizer.normalize,
        )

    # --- certified cuts -----------------------------------------------------------

    def cuts(self, text: str, *, closes: bool = False) -> NDArray[np.int64]:
        """The certified cuts of ``text``: positions in characters, ascending, int64.

        At each of them tokenization may start afresh (it *restarts*): the ids of the text, special ids of the
        post-processor aside, are those left of the cut followed by those of ``text[cut:]``; and those left of it
        stay what they are whatever is appended to the text.  With ``closes``, only the cuts at which
        both sides may be encoded as texts of their own.

        Where the normalizer puts a prefix before every text (Llama 2's), the right side of a cut is to be encoded
        without it.  Empty where the artifact is refused; :meth:`explain` says why.
        """
        text = self._check_chunk(text)
        return self._cuts_and_ends.all(text, check_flag("closes", closes))

    def stream_encoder(
        self, add_special_tokens: bool = True, *, special: Special = "encode", backend: str | None = None
    ) -> StreamEncoder:
        """An encoder that takes a text in chunks, and gives each id as soon as no later chunk can change it."""
        check_special(special)
        self._check_backend(backend)
        from .certificates.stream import StreamEncoder

        return StreamEncoder(self, add_special_tokens, special, backend)

    @lazy
    def _cuts(self) -> Cuts:
        certificate = self._compiled.certificate
        if certificate.prefix and not self._backends:
            why = "the reference alone runs it, and puts a prefix before every text that it is given"
            certificate = replace(certificate, refusal=why)
        if not self._post.keeps_text:
            certificate = replace(certificate, refusal="the post-processor repeats the text or leaves it out")
        return Cuts(certificate, literals_of(self._compiled.pipeline, self._compiled.inert))

    @lazy
    def _cuts_and_ends(self) -> Cuts:
        """Cuts that include the ends of added tokens; for texts in which special tokens count."""
        return self._cuts.with_token_ends()

    def _cuts_where(self, special: Special) -> Cuts:
        """Those that texts are cut at: in rows of added tokens there are hardly any but their ends."""
        return self._cuts if special == "text" else self._cuts_and_ends

    def _encode_part(
        self, text: str, special: Special, backend: str | None = None, *, continuing: bool
    ) -> NDArray[np.uint32]:
        """The model's ids of a text, or of one that continues another one from a certified cut on."""
        with _own_errors(text):
            if self._is_reference(backend):
                if not self._compiled.certificate.prefix:
                    return self._reference.model_ids(text, special)
                backend = "auto"  # the reference would put the prefix before what continues a text, too
            return self._model_ids(text, special, backend, 1, continuing)

    def _left_of(
        self, text: str, cut: int, special: Special, backend: str | None = None, *, continuing: bool
    ) -> NDArray[np.uint32]:
        """The ids left of a certified cut, which need the character behind it and nothing more."""
        if self._cuts_where(special).is_closing(text, cut):
            return self._encode_part(text[:cut], special, backend, continuing=continuing)
        ids = self._encode_part(text[: cut + 1], special, backend, continuing=continuing)
        return ids[: len(ids) - len(self._encode_part(text[cut], special, backend, continuing=True))]

    @property
    def _streams(self) -> bool:
        """Whether ids of a text can be certain before its end."""
        post = self._post
        plain = post.unsupported is None and post.truncation is None and post.padding is None
        return plain and self._cuts.refusal is None

    def _check_chunk(self, chunk: object) -> str:
        chunk = self._check(chunk, "encode")
        if not chunk.isascii():
            with _own_errors(chunk):
                chunk.encode("utf-8")
        return chunk

    # --- how a text is encoded --------------------------------------------------------

    def _parts(
        self, text: str, special: Special, backend: str | None, wanted: int | None, threads: int | None
    ) -> Iterator[NDArray[np.uint32]]:
        """The model's ids, part by part, from the left; stops once there are ``wanted`` of them."""
        if wanted is None:
            yield self._model_ids(text, special, backend, threads)
            return
        total, block, start = 0, max(1024, 6 * wanted), 0
        while start < len(text) and total < wanted:
            stop = self._cut(text, start, start + block, special)
            part = self._model_ids(text[start:stop], special, backend, threads, start > 0)
            yield part
            total, start, block = total + len(part), stop, 2 * block

    def _cut(self, text: str, start: int, wanted: int, special: Special) -> int:
        """A cut that closes near ``wanted``, after ``start``; the end of the text if there is none."""
        found = None
        if wanted < len(text):
            found = self._cuts_where(special).near(text, wanted, start, len(text))
        return len(text) if found is None else found

    def _model_ids(
        self,
        text: str,
        special: Special,
        backend: str | None,
        threads: int | None,
        continuing: bool = False,
    ) -> NDArray[np.uint32]:
        """The ids of a text by an engine of our own; ``continuing``: it goes on from a certified cut."""

        engine = self._engine(text, backend)
        if engine.name == "jax":
            return self._device_ids(text, special, continuing)

        size = _PART
        if engine.name == "numpy":
            workers = usable_cores() if threads is None else threads
            size = min(2 * _PART, max(_PART, len(text) // max(1, workers)))
        if len(text) <= size + size // 4:
            return engine.encode(self._prepare(text, special, continuing))[0]

        def encode_span(span: tuple[int, int]) -> NDArray[np.uint32]:
            start, stop = span
            part = text[start:stop]
            return self._engine(part, backend).encode(self._prepare(part, special, continuing or start > 0))[0]

        edges = self._cuts_where(special).parts(text, size)
        return np.concatenate(map_parts(encode_span, list(pairwise(edges)), threads))

    def _device_ids(self, text: str, special: Special, continuing: bool) -> NDArray[np.uint32]:
        """The model's ids of a text, by the ``jax`` backend; texts that are too large for it are halved."""
        backend = self._jax()
        unchecked = self._unchecked((text,), special)
        prepared = self._prepare(text, special, continuing, as_it_is=unchecked is not None)
        if not backend.fits(prepared):
            middle = self._cut(text, 0, len(text) // 2, special)
            if middle < len(text):
                left = self._device_ids(text[:middle], special, continuing)
                return np.concatenate((left, self._device_ids(text[middle:], special, True)))
        return backend.encode(prepared, unchecked)[0]

    def _unchecked(self, texts: Sequence[str], special: Special) -> Unchecked | None:
        """Texts that need not be normalized for the ``jax`` backend, which tells where they had to be; or None."""
        if not self._jax().checks:
            return None
        from .backends.jax.unchecked import Unchecked

        return Unchecked(texts, lambda text: self._prepare(text, special), self._cuts)

    def _reference_ids(self, text: str, special: Special, threads: int | None) -> NDArray[np.uint32]:
        """The model's ids by the reference, on all cores where the text can be cut."""
        edges = [0, len(text)]
        if threads != 1 and usable_cores() > 1:
            edges = self._cuts_where(special).parts(text, _PART)
        if len(edges) < 3:
            return self._reference.model_ids(text, special)
        return np.concatenate(self._reference.model_batch([text[a:b] for a, b in pairwise(edges)], special))

    def _encode_group(
        self,
        texts: Sequence[str],
        special: Special,
        backend: str | None,
        wanted: int | None,
        continuing: bool | None = None,
    ) -> list[NDArray[np.uint32]]:
        """Short texts together, on the ``numpy`` backend, where they make a long one; others one by one.

        ``continuing`` is None if they are texts of their own.  Otherwise they make up one that is cut at certified
        cuts which close, and it says whether that goes on from one itself.
        """
        together = sum(map(len, texts))
        chosen = self._check_backend(backend)
        later = [continuing is not None and (continuing or number > 0) for number in range(len(texts))]
        if (
            wanted is None
            and len(texts) > 1
            and not self._is_reference(backend)
            and chosen != "python"
            and (chosen in ("numpy", "jax") or together >= _LONG_TEXT)
        ):
            engine: Backend = self._backends["numpy"]
            if chosen == "jax" or (chosen == "auto" and self._for_device(together)):
                engine = self._jax()
            unchecked = None
            if engine.name == "jax" and continuing is None:
                unchecked = self._unchecked(texts, special)
            prepared = []
            for text, goes_on in zip(texts, later, strict=True):
                with _own_errors(text):
                    prepared.append(self._prepare(text, special, goes_on, as_it_is=unchecked is not None))
                    if continuing is None:  # the text of a session has been checked
                        text.encode("utf-8")
            joined, seams = batching.join(prepared)
            if engine.name == "jax" and not self._jax().fits(joined):
                half = len(texts) // 2
                left = self._encode_group(texts[:half], special, backend, wanted, continuing)
                rest = None if continuing is None else True
                return left + self._encode_group(texts[half:], special, backend, wanted, rest)
            found = engine.encode(joined) if unchecked is None else self._jax().encode(joined, unchecked)
            return batching.split(*found, seams)
        if continuing is not None:
            return [
                self._encode_part(text, special, backend, continuing=goes_on)
                for text, goes_on in zip(texts, later, strict=True)
            ]
        alone = []
        for text in texts:
            with _own_errors(text):
                parts = list(self._parts(text, special, backend, wanted, 1))
            alone.append(np.concatenate(parts) if parts else NO_IDS)
        return alone

    def _prepare(
        self, text: str, special: Special, continuing: bool = False, *, as_it_is: bool = False
    ) -> PreparedText:
        skip = special == "text"
        return self._front.prepare(text, skip_special=skip, continuing=continuing, as_it_is=as_it_is)

    def _raise_special(self, text: str, base: int = 0, before: str = "", what: str = "the text") -> None:
        """Raise for the first special token that the reference would find in ``text``, which is called ``what``.

        It starts at ``base``; if that is not 0, it goes on from a certified cut, behind the character ``before``.
        """
        special = {token.content for token in self._compiled.pipeline.added_tokens if token.special}
        with _own_errors(text):
            for start, content in self._added_tokens(text, before):
                if content in special:
                    raise SpecialTokenError(
                        f"{what} contains the special token {content!r} at character {base + start}; pass "
                        'special="encode" to make its id of it, or special="text" to encode it as plain text',
                        content,
                        base + start,
                    )

    def _added_tokens(self, text: str, before: str) -> Iterable[tuple[int, str]]:
        """Where in the raw text added tokens begin, and their contents."""
        if self._front.unsupported is None:
            prepared = self._front.prepare(text, continuing=bool(before))
            if not len(prepared.ids):
                return ()
            if prepared.unchanged:
                contents = {token.id: token.content for token in self._compiled.pipeline.added_tokens}
                return zip(prepared.starts.tolist(), map(contents.__getitem__, prepared.ids.tolist()), strict=True)
        # The reference knows where they were before normalizing.  It puts a prefix before what it is given, which
        # is to stand before the character that the text goes on from, and not before the text.
        found = self._reference.added_tokens(before + text)
        return [(start - len(before), content) for start, content in found if start >= len(before)]

    def _engine(self, text: str, backend: str | None) -> Backend:
        """The engine of our own for a text; not to be asked where the reference runs."""
        chosen = self._check_backend(backend)
        if chosen == "auto":
            arrays = len(text) >= _LONG_TEXT or (len(text) >= _LONG_WIDE_TEXT and _mostly_wide(text))
            chosen = "numpy" if arrays else "python"
            if self._for_device(len(text)):
                chosen = "jax"
        return self._backends[chosen]

    def _for_device(self, length: int) -> bool:
        """Whether ``auto`` takes the device for a text of so many characters."""
        device = cast("JaxBackend | None", self._backends.get("jax"))
        return device is not None and device.faster_from is not None and length >= device.faster_from

    def _jax(self) -> JaxBackend:
        """The ``jax`` backend, made when it is first asked for."""
        engine = self._compiled.engine
        assert engine is not None and isinstance(self._pieces, PieceEncoder)
        with self._making:
            if "jax" not in self._backends:
                import_jax()
                from .backends.jax.backend import JaxBackend

                form = _form(self._compiled.pipeline.normalizer) if self._front.told_by_text else None
                inert = self._compiled.inert[form] if form else None
                pre_tokenizer = self._compiled.pipeline.pre_tokenizer
                found = JaxBackend(engine.split, self._pieces, self._backends["numpy"], inert, pre_tokenizer)
                self._backends = {**self._backends, "jax": found}
            return cast("JaxBackend", self._backends["jax"])

    @property
    def _truncates_alone(self) -> bool:
        """Whether ids of the reference can be truncated here, which spares a copy of it with other settings."""
        return self._post.unsupported is None and self._post.truncation is None and self._post.padding is None

    def _is_reference(self, backend: str | None) -> bool:
        return self._check_backend(backend) == "reference" or not self._backends

    def _check_backend(self, backend: str | None) -> str:
        chosen = self.backend if backend is None else backend
        if not is_one_of(chosen, BACKENDS):
            raise UnknownBackendError(f"there is no backend {chosen!r}; the backends are {', '.join(BACKENDS)}")
        if chosen not in ("auto", "reference") and not self._backends:
            raise BackendUnsupportedError(
                f"the {chosen} backend cannot run {self.name} exactly: {self._unsupported}; "
                'use backend="auto" or "reference"'
            )
        if chosen == "jax":
            if not isinstance(self._pieces, PieceEncoder):
                raise BackendUnsupportedError(
                    f"the jax backend cannot run {self.name}: it runs BPE, and the model is {self.model}; "
                    'use backend="auto" or "numpy"'
                )
            self._jax()  # raises without JAX
        return chosen

    def _check(self, text: object, special: object, number: int | None = None) -> str:
        """The text, which may be one of many; raises what is wrong with it."""
        what = "the text" if number is None else f"text number {number}"
        plain = plain_text(text, what)
        check_special(special)
        if special == "raise":
            self._raise_special(plain, what=what)
        return plain

    # --- offsets, and the reference's model for one piece ---------------------------------

    @property
    def _gives_offsets(self) -> bool:
        engine = self._compiled.engine
        pipeline = self._compiled.pipeline
        return (
            engine is not None
            and engine.byte_level
            and _form(pipeline.normalizer) is not None
            and word_mark(pipeline.pre_tokenizer) is None
            and engine.split.removed is None
            and isinstance(engine.pieces, PieceTables)  # as it is where the model is byte-level
            and engine.pieces.first.of_last is None
        )

    @property
    def _is_lossy(self) -> bool:
        engine = self._compiled.engine
        return engine is not None and isinstance(engine.pieces, PieceTables) and engine.pieces.first.lossy

    @lazy
    def _token_widths(self) -> NDArray[np.int64]:
        """Bytes that each id of the model stands for, 0 for those of added tokens alone; int64 (vocab_size,)."""
        widths = np.diff(self._compiled.tokens.offsets)
        return np.pad(widths, (0, self.vocab_size - len(widths)))

    def _engine_offsets(
        self,
        text: str,
        add_special_tokens: bool,
        special: Special,
        backend: str | None,
        max_length: int | None,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        prepared = self._prepare(text, special)
        ids, added = self._engine(text, backend).encode(prepared)
        lengths = self._token_widths[ids]
        spans = zip(prepared.starts.tolist(), prepared.stops.tolist(), strict=True)
        lengths[added] = [len(prepared.text[start:stop].encode("utf-8")) for start, stop in spans]
        if self._is_lossy and lengths.sum() != len(prepared.text.encode("utf-8")):
            return self._reference_offsets(text, add_special_tokens, special, max_length)
        positions = None
        if not prepared.unchanged:
            form = _form(self._compiled.pipeline.normalizer)
            assert form
            _, positions = offsets.original_positions(
                text, form, self._front.given_spans(text, skip_special=special == "text")
            )
        result = offsets.reference_offsets(
            text,
            prepared,
            lengths,
            self._post,
            add_special_tokens=add_special_tokens,
            max_length=max_length,
            positions=positions,
        )
        return self._post.finish(ids, add_special_tokens, max_length), result

    def _reference_offsets(
        self, text: str, add_special_tokens: bool, special: Special, max_length: int | None
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        if max_length is None or not self._truncates_alone:
            return self._reference.offsets(text, add_special_tokens, special, max_length)
        ids, spans = self._reference.offsets(text, False, special, None)
        spans = spans[self._post.kept(len(ids), add_special_tokens, max_length)]
        return (
            self._post.finish(ids, add_special_tokens, max_length),
            self._post.finish_offsets(spans, add_special_tokens),
        )

    def _piece_ids(self, piece: str) -> tuple[int, ...]:
        assert self._compiled.engine is not None
        kept = KeptCharacters(self._compiled.engine.split)[piece[0]]
        return tuple(self._pieces.encode_one(piece)) if kept else ()

    def _reference_piece(self, piece: bytes) -> list[int]:
        text = shown_bytes(piece) if self._compiled.alphabet else piece.decode("utf-8")
        with failures():
            return [token.id for token in self._reference.plain.model.tokenize(text)]


def _mostly_wide(text: str) -> bool:
    """Whether a text has at least half as many bytes more, in UTF-8, than characters."""
    return not text.isascii() and 2 * len(text.encode("utf-8", "surrogatepass")) >= 3 * len(text)


def _form(normalizer: Normalizer | None) -> str | None:
    """The one Unicode form that the normalizer is, "" if it does nothing, None if it is more."""
    match normalizer:
        case None:
            return ""
        case UnicodeForm(form):
            return form
        case NormalizerSequence(steps) if len(steps) < 2:
            return _form(steps[0]) if steps else ""
    return None


class _own_errors:
    """Turn what a lone surrogate in one of ``texts`` makes any stage raise into an error that names it."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or not issubclass(kind, UnicodeEncodeError | TypeError | LoneSurrogateError):
            return
        for number, text in enumerate(self._texts):
            found = _SURROGATE.search(text)
            if found is not None:
                where = f" of text number {number}" if len(self._texts) > 1 else ""
                raise LoneSurrogateError(
                    f"the character at index {found.start()}{where} is the lone surrogate "
                    f"U+{ord(found.group()):04X}, which no UTF-8 text can contain; replace it first, for example "
                    "with text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')",
                    found.start(),
                ) from None


# --- instances ------------------------------------------------------------------------

_KEPT = 8
_instances: OrderedDict[tuple[str, str, Path | None], Tokenizer] = OrderedDict()


def instance(artifact: Artifact) -> Tokenizer:
    """The tokenizer of an artifact, with the ``auto`` backend; the last few are kept.

    They are told apart by fingerprint, name and folder: one ``tokenizer.json`` may be loaded by several names, and
    lie beside several chat templates.
    """
    key = artifact.fingerprint, artifact.name, artifact.folder
    found = _instances.get(key)
    if found is None:
        found = _instances[key] = Tokenizer(artifact)
        while len(_instances) > _KEPT:
            _instances.popitem(last=False)
    return found
