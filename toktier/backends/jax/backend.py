"""The ``jax`` backend as the tokenizer sees it: buckets, compiled functions, and what is left to the host.

A text is padded to the least of a few sizes, for each of which one function is compiled.  A request puts its bytes
on the device and waits twice: for the number of tokens together with the first part of the ids, and for the other
parts that hold any.  Whatever goes wrong on the device, the text is encoded by another backend; why is counted.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from ... import batching
from ...bpe.pieces import PieceEncoder
from ...compiled import Split
from ...lazy import lazy
from ...parallel import map_parts
from ...pipeline import PreTokenizer
from ...segments import NO_IDS, NO_POSITIONS, PreparedText
from ..base import Backend
from . import transfers
from .assembling import Positions, combined, marked, moved, replaced
from .delivering import ADDED_TOKEN, finished, first_of
from .forms import active_table
from .pieces import whole_tables
from .pipeline import LEFT, Encoded, Sizes, Tables, encode, starts_of
from .routing import faster_from
from .runs import run_tables
from .splitting import LONGEST_LANE, split_tables
from .symbols import symbol_tables
from .tables import device_tables
from .unchecked import Unchecked
from .utf8 import ADDED, PADDING
from .versions import CPU_OPTIONS

#: The sizes that texts are padded to, in bytes.
BUCKETS = tuple(1 << bits for bits in (12, 14, 16, 18, 19, 20, 21, 22, 23))
#: The largest of them where the device is the processor: a larger one gains nothing there.
_LARGEST_ON_CPU = 1 << 20
#: The sizes of texts that are timed, the nearest that there are.
_MEASURED = (1 << 14, 1 << 20)
#: So many characters that may not be in normal form are looked at one by one; of more, the whole text is.
_FEW = 256
#: Requests at a time; one more finds the device busy.
_QUEUE = 8
#: Parts of a batch at a time on an accelerator: while it has one, the host prepares the next and fetches the last.
_OVERLAPPED = 3

Result = TypeVar("Result")

_ON_CPU = Sizes(lanes=512, merged=1 << 13)


@dataclass(frozen=True, slots=True)
class Program:
    """A function compiled for one size of text, with the tables that it needs."""

    compiled: jax.stages.Compiled
    tables: Any

    def __call__(self, data: jax.Array) -> Any:
        return self.compiled(data, self.tables)


class _Refused(Exception):
    """The device cannot encode this text; the message says why."""


class JaxBackend:
    """See :class:`~toktier.backends.base.Backend`.

    ``instead`` encodes what the device cannot.  ``reasons`` counts, in words, why it had to.  ``inert``: the
    characters that the normalizer's one Unicode form leaves alone (:func:`~toktier.normalization.inert_table`);
    None where the normalizer is none or more.  ``pre_tokenizer``: what ``split`` was derived from; some are
    run without the machine (:mod:`.runs`).
    """

    name = "jax"

    def __init__(
        self,
        split: Split,
        pieces: PieceEncoder,
        instead: Backend,
        inert: NDArray[np.bool_] | None = None,
        pre_tokenizer: PreTokenizer | None = None,
        buckets: tuple[int, ...] | None = None,
    ) -> None:
        self.reasons: Counter[str] = Counter()
        #: ``auto`` takes this backend for texts of at least so many characters; None: never.
        self.faster_from: int | None = None
        self._split = split
        self._inert = inert
        self._pre_tokenizer = pre_tokenizer
        self._pieces = pieces
        self._instead = instead
        self._buckets = buckets
        self._compiled: dict[tuple[Callable[..., Any], int], Callable[..., Any]] = {}
        self._compiling: defaultdict[tuple[Callable[..., Any], int], threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.RLock()
        self._room = threading.BoundedSemaphore(_QUEUE)

    @lazy
    def buckets(self) -> tuple[int, ...]:
        """The sizes that texts are padded to, in bytes, ascending."""
        if self._buckets is not None:
            return self._buckets
        return BUCKETS if self.accelerated else tuple(size for size in BUCKETS if size <= _LARGEST_ON_CPU)

    @property
    def largest(self) -> int:
        """The most bytes of a text that is encoded in one go."""
        return self.buckets[-1]

    @property
    def overlapped(self) -> int:
        """How many parts of a batch are best under way at a time; the processor has threads enough of its own."""
        return _OVERLAPPED if self.accelerated else 1

    def fits(self, text: PreparedText) -> bool:
        """Whether a text is small enough to be encoded in one go; UnicodeEncodeError for a lone surrogate."""
        if text.text.isascii() or 4 * len(text.text) <= self.largest:  # which needs no look at the characters
            return len(text.text) <= self.largest
        return len(text.text.encode("utf-8")) <= self.largest

    def encode(
        self, text: PreparedText, unchecked: Unchecked | None = None
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """See :meth:`~toktier.backends.base.Backend.encode`.

        ``unchecked``: that ``text`` is in normal form is yet to be seen; only where :attr:`checks` is true.  Of an
        added token in a stretch that was not, the index is without meaning.
        """
        if not text.text:
            return NO_IDS, NO_POSITIONS
        data = _bytes(text)
        return self._or_instead(
            lambda: self._collected(data, text, unchecked),
            lambda: self._by_host(text, unchecked),
        )

    def encode_on_device(
        self,
        text: PreparedText,
        unchecked: Unchecked | None = None,
        prefix: Sequence[int] = (),
        suffix: Sequence[int] = (),
    ) -> jax.Array:
        """The ids in device memory, int32 of shape (tokens,), with others before and after them."""
        if not text.text:
            return self.put(NO_IDS, prefix, suffix)
        data = _bytes(text)
        return self._or_instead(
            lambda: self._delivered(data, text, unchecked, prefix, suffix),
            lambda: self.put(self._by_host(text, unchecked)[0], prefix, suffix),
        )

    def piece_starts(self, text: PreparedText) -> NDArray[np.int64]:
        if not text.text:
            return NO_POSITIONS
        data = _bytes(text)
        return self._or_instead(lambda: self._starts(data, text), lambda: self._instead.piece_starts(text))

    def put(self, ids: NDArray[np.uint32], prefix: Sequence[int] = (), suffix: Sequence[int] = ()) -> jax.Array:
        """Ids from the host, as :meth:`encode_on_device` gives them."""
        whole: Any = np.concatenate((_int32(prefix), ids.view(np.int32), _int32(suffix)))
        found: jax.Array = transfers.to_device(whole)
        return found

    @property
    def accelerated(self) -> bool:
        """Whether there is a device other than the processor."""
        try:
            return transfers.platform() != "cpu"
        except RuntimeError:  # no device at all, which the first text will tell
            return False

    @lazy
    def checks(self) -> bool:
        """Whether the device tells if a text is in normal form; the processor is faster at that without XLA."""
        return self._inert is not None and self.accelerated

    def warm_up(self, up_to: int | None = None) -> None:
        """Put the tables on the device and compile for all sizes up to the first that holds ``up_to`` bytes.

        On all cores, since a compiler keeps one busy.
        """
        device = jax.default_device.value  # of this thread, if it has one of its own

        def function(size: int) -> None:
            with jax.default_device(device):
                self._function(encode, size)

        map_parts(function, self._sizes(up_to), None)

    def _sizes(self, up_to: int | None) -> list[int]:
        pairs = zip((0, *self.buckets), self.buckets, strict=False)
        return [size for before, size in pairs if before == 0 or up_to is None or before < up_to]

    def measure(
        self, host: Callable[[str], object], made_up: Callable[[int, int], str], up_to: int | None = None
    ) -> None:
        """Set :attr:`faster_from` by timing another way and this backend, warmed up, on texts of two sizes.

        ``made_up``: makes a text in normal form of so many bytes; see :func:`.routing.faster_from`.
        """
        sizes = [size for size in self._sizes(up_to) if size <= _MEASURED[1]]
        least = next((size for size in sizes if size >= _MEASURED[0]), sizes[-1])
        before = self.reasons.total()
        self.faster_from = faster_from(
            host,
            lambda text: self.encode(PreparedText(text, NO_POSITIONS, NO_POSITIONS, NO_IDS, True)),
            sorted({least, sizes[-1]}),
            made_up,
        )
        if self.reasons.total() != before:  # it did not run on the device
            self.faster_from = None

    # --- the device ---------------------------------------------------------------------

    @lazy
    def _tables(self) -> Tables:
        pieces = self._pieces.tables
        return transfers.to_device(
            Tables(
                run_tables(self._pre_tokenizer, self._split) or split_tables(self._split),
                whole_tables(pieces),
                symbol_tables(pieces.first),
                device_tables(pieces.merges),
                active_table(self._inert) if self.checks and self._inert is not None else None,
            )
        )

    @lazy
    def _kernel_tables(self) -> Tables:
        from .pallas_tables import kernel_tables

        return replace(self._tables, merges=kernel_tables(self._pieces.tables.merges))

    def _function(self, function: Callable[..., Any], size: int) -> Callable[..., Any]:
        """``function`` compiled for texts of ``size`` bytes, and with the tables that it needs."""
        key = function, size
        with self._lock:
            own = self._compiling[key]
        with own:  # once, and others meanwhile
            found = self._compiled.get(key)
            if found is None:
                found = self._compiled[key] = self._compile(function, size)
            return found

    def _forms(self, size: int) -> tuple[Sizes, ...]:
        """How a function may be compiled, the fastest first."""
        if not self.accelerated:
            return (_ON_CPU,)
        plain = Sizes(lanes=size // 8, merged=size)
        return (replace(plain, kernels=True), plain) if transfers.platform() == "gpu" else (plain,)

    def _compile(self, function: Callable[..., Any], size: int) -> Callable[[Any], Any]:
        reason, pieces = "", self._pieces.tables
        if self._split.removed is not None or pieces.byte_stages is not None:
            reason = "the pre-tokenizer leaves characters out of the text, or cuts them"
        elif pieces.first.of_last is not None:
            reason = "the model marks ends of words"
        elif pieces.first.fused is not None:
            reason = "the model has one unknown token for several characters"
        for sizes in () if reason else self._forms(size):
            try:
                with self._lock:
                    every = self._kernel_tables if sizes.kernels else self._tables
                tables = every.split if function is starts_of else every
                data = transfers.to_device(np.full(size, PADDING, np.uint8))
                lowered = jax.jit(partial(function, sizes=sizes)).lower(data, tables)
                compiled = lowered.compile(compiler_options=None if self.accelerated else CPU_OPTIONS)
                return Program(compiled, tables)
            except Exception as problem:  # of any kind, and the next text need not try again
                what = "the kernels do" if sizes.kernels else "it does"
                reason = f"{what} not compile: {_reason(problem)}"
                if sizes.kernels:
                    self._count(reason)

        def refuse(data: jax.Array) -> Any:
            raise _Refused(reason)

        return refuse

    def _run(self, function: Callable[..., Any], data: bytes) -> Any:
        size = next((size for size in self.buckets if size >= len(data)), None)
        if size is None:
            raise _Refused(f"no place to cut a text of more than {self.largest} bytes was found")
        padded = np.empty(size, np.uint8)
        padded[: len(data)], padded[len(data) :] = np.frombuffer(data, np.uint8), PADDING
        return self._function(function, size)(transfers.to_device(padded))

    def _or_instead(self, on_device: Callable[[], Result], instead: Callable[[], Result]) -> Result:
        if not self._room.acquire(blocking=False):
            return self._leave("the device is busy", instead)
        try:
            return on_device()
        except _Refused as problem:
            return self._leave(str(problem), instead)
        except Exception as problem:  # of any kind: no device, no memory, an array that cannot be shared
            return self._leave(_reason(problem), instead)
        finally:
            self._room.release()

    def _leave(self, reason: str, instead: Callable[[], Result]) -> Result:
        self._count(reason)
        return instead()

    def _by_host(
        self, text: PreparedText, unchecked: Unchecked | None
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        return self._instead.encode(text if unchecked is None else unchecked.normalized())

    def _count(self, reason: str, times: int = 1) -> None:
        with self._lock:
            self.reasons[reason] += times

    # --- one text -----------------------------------------------------------------------

    def _collected(
        self, data: bytes, text: PreparedText, unchecked: Unchecked | None
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The ids on the host: what comes of them with their number, then the rest and what corrects them."""
        found: Encoded = self._run(encode, data)
        header, first = transfers.to_host((found.header, found.parts[0]))
        counts = Counts(*header.tolist())
        normal, unchecked = self._normal(counts, text, unchecked)
        if normal is not None:
            return self._at_once(normal)
        _check(counts)
        filled = counts.parts(len(first))
        wanted = (found.parts[1:filled], *_for_corrections(found, counts, unchecked))
        rest, places, active = transfers.to_host(wanted) if any(map(len, wanted)) else wanted
        return self._assembled(Fetched(counts, (first, *rest), places, active), data, text, unchecked)

    def _at_once(self, normal: PreparedText) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The ids of a text in normal form, with one synchronization: everything is fetched."""
        data = _bytes(normal)
        found: Encoded = self._run(encode, data)
        header, parts, places = transfers.to_host((found.header, found.parts, found.places))
        counts = Counts(*header.tolist())
        _check(counts)
        return self._assembled(Fetched(counts, parts, places, NO_MARKS), data, normal, None)

    def _delivered(
        self,
        data: bytes,
        text: PreparedText,
        unchecked: Unchecked | None,
        prefix: Sequence[int],
        suffix: Sequence[int],
    ) -> jax.Array:
        """The ids on the device; those that may have to be corrected take the way by the host."""
        found: Encoded = self._run(encode, data)
        counts = Counts(*transfers.to_host(found.header).tolist())
        normal, unchecked = self._normal(counts, text, unchecked)
        if normal is not None:
            return self.put(self._at_once(normal)[0], prefix, suffix)
        _check(counts)
        if counts.left or unchecked is not None:
            parts = found.parts[: counts.parts(len(found.parts[0]))]
            fetched = transfers.to_host((parts, *_for_corrections(found, counts, unchecked)))
            ids, _ = self._assembled(Fetched(counts, *fetched), data, text, unchecked)
            return self.put(ids, prefix, suffix)
        added = np.zeros(_padded(len(text.ids)), np.int32)
        added[: len(text.ids)] = text.ids
        others = transfers.to_device((added, _int32(prefix), _int32(suffix)))
        whole = finished(found.parts, found.header, *others)
        return first_of(whole, counts.tokens + len(prefix) + len(suffix))

    def _normal(
        self, counts: Counts, text: PreparedText, unchecked: Unchecked | None
    ) -> tuple[PreparedText | None, Unchecked | None]:
        """The whole text in normal form, if it was not and there is much to look at.

        Then ``unchecked``, if there is something to look at, but not much.
        """
        if unchecked is None or counts.unsure == 0:
            return None, None
        if counts.unsure <= _FEW:
            return None, unchecked
        normal = unchecked.normalized()
        if normal.text == text.text:
            return None, None
        self._count("texts that were not in normal form in many places")
        return normal, None

    def _assembled(
        self, fetched: Fetched, data: bytes, text: PreparedText, unchecked: Unchecked | None
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The ids and the indices of the added tokens' ones, from all that the device gave."""
        counts = fetched.counts
        ids = np.concatenate(fetched.parts)[: counts.tokens]
        added = np.flatnonzero(ids == ADDED_TOKEN) if len(text.ids) else NO_POSITIONS
        ids[added] = text.ids.view(np.int32)
        if counts.left or unchecked is not None:
            begins = np.append(np.concatenate(fetched.places)[: counts.tokens], len(data))
            spans, fresh = self._left(ids, begins, data)
            if unchecked is not None:
                positions, places = Positions(data, text), marked(fetched.active)
                spans, fresh = combined(*self._changed(begins, places, positions, unchecked), spans, fresh)
            ids, added = replaced(ids, spans, fresh), moved(added, spans, fresh)
        return ids.view(np.uint32), added

    def _left(
        self, ids: NDArray[np.int32], begins: NDArray[np.int32], data: bytes
    ) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
        """The pieces that the device left to the host: the spans of their stand-ins, and their ids."""
        at = np.flatnonzero(ids == LEFT)
        bounds = zip(begins[at].tolist(), begins[at + 1].tolist(), strict=True)
        pieces = [data[start:stop].decode("utf-8") for start, stop in bounds]
        if pieces:
            self._count("pieces that are too long for the device", len(pieces))
        fresh = [np.frombuffer(encoded, np.int32) for encoded in self._pieces.encode(pieces)]
        return np.column_stack((at, at + 1)), fresh

    def _changed(
        self, begins: NDArray[np.int32], active: NDArray[np.int64], positions: Positions, unchecked: Unchecked
    ) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
        """The stretches that were not in normal form: the spans of their ids, and those that are right."""
        stretches, prepared = unchecked.changed(positions.characters(active))
        if not stretches:
            return np.empty((0, 2), np.int64), []
        self._count("stretches that were not in normal form", len(stretches))
        spans = np.searchsorted(begins, positions.bytes(np.array(stretches, np.int64)))
        joined, seams = batching.join(prepared)
        return spans, list(batching.split(*self._instead.encode(joined), seams))

    def _starts(self, data: bytes, text: PreparedText) -> NDArray[np.int64]:
        words, longest = transfers.to_host(self._run(starts_of, data))
        _check(Counts(0, 0, int(longest), 0))
        return Positions(data, text).characters(marked(words))


@dataclass(frozen=True, slots=True)
class Counts:
    """See ``header`` of :class:`~.pipeline.Encoded`."""

    tokens: int
    left: int
    longest: int
    unsure: int

    def parts(self, size: int) -> int:
        """How many arrays of ``size`` ids hold any."""
        return -(-self.tokens // size)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What of :class:`~.pipeline.Encoded` is needed, on the host."""

    counts: Counts
    parts: Sequence[NDArray[np.int32]]
    places: Sequence[NDArray[np.int32]]
    active: NDArray[np.uint32]


NO_MARKS: NDArray[np.uint32] = np.empty(0, np.uint32)


def _for_corrections(found: Encoded, counts: Counts, unchecked: Unchecked | None) -> tuple[Any, Any]:
    """What is needed besides the ids if some are wrong: where they begin, and the characters to be looked at."""
    places = found.places[: counts.parts(len(found.places[0]))]
    if unchecked is None:
        return (places if counts.left else ()), NO_MARKS
    return places, found.active


def _check(counts: Counts) -> None:
    if counts.longest > LONGEST_LANE:
        raise _Refused(f"where pieces begin depends on more than {LONGEST_LANE} bytes in a row")


def _padded(count: int) -> int:
    """One of a few sizes that is not less: for each a function is compiled."""
    size = 8
    while size < count:
        size *= 8
    return size if count else 0


def _int32(ids: Sequence[int]) -> NDArray[np.int32]:
    return np.array(ids, np.int32)


def _reason(problem: BaseException) -> str:
    text = str(problem)
    if "RESOURCE_EXHAUSTED" in text or isinstance(problem, MemoryError):
        return "out of memory"
    return f"{type(problem).__name__}: {text.splitlines()[0] if text else 'no message'}"


def _bytes(text: PreparedText) -> bytes:
    """UTF-8 with one byte in place of each added token; raises ``UnicodeEncodeError`` for a lone surrogate."""
    if not len(text.ids):
        return text.text.encode("utf-8")
    if text.text.isascii() and len(text.text) and (text.stops - text.starts == 1).all():  # the seams of a batch
        whole = bytearray(text.text, "ascii")
        np.frombuffer(whole, np.uint8)[text.starts] = ADDED
        return bytes(whole)
    parts: list[bytes] = []
    last, mark = 0, bytes([ADDED])
    for start, stop in zip(text.starts.tolist(), text.stops.tolist(), strict=True):
        parts += (text.text[last:start].encode("utf-8"), mark)
        last = stop
    parts.append(text.text[last:].encode("utf-8"))
    return b"".join(parts)
