"""The ``jax`` backend as the tokenizer sees it: buckets, compiled functions, and what is left to the host.

A text is padded to the least of a few sizes, for each of which one function is compiled.  A request puts its bytes
on the device and waits twice: for the number of tokens together with the first part of the ids, and for the other
parts that hold any.  Whatever goes wrong on the device, the text is encoded by another backend; why is counted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...bpe.pieces import PieceEncoder
from ...compiled import Split
from ...segments import NO_IDS, NO_POSITIONS, PreparedText
from ..base import Backend
from . import transfers
from .pieces import whole_tables
from .pipeline import ADDED_TOKEN, LEFT, Encoded, Sizes, Tables, encode, starts_of
from .splitting import LONGEST_LANE, split_tables
from .symbols import symbol_tables
from .tables import device_tables
from .utf8 import ADDED, PADDING

#: The sizes that texts are padded to, in bytes.
BUCKETS = tuple(1 << bits for bits in (12, 14, 16, 18, 19, 20, 21, 22, 23))
#: The largest of them where the device is the processor: a larger one gains nothing there.
_LARGEST_ON_CPU = 1 << 20
#: Requests at a time; one more finds the device busy.
_QUEUE = 8

Result = TypeVar("Result")

_ON_CPU = Sizes(lanes=512, merged=1 << 13)
#: On a CPU, XLA drops the barriers of :func:`.bits.once` before it fuses, and look-ups are done many times over.
_CPU_OPTIONS: dict[str, str | bool] = {"xla_disable_hlo_passes": "cse_barrier_expander"}


class _Refused(Exception):
    """The device cannot encode this text; the message says why."""


class JaxBackend:
    """See :class:`~toktier.backends.base.Backend`.

    ``instead`` encodes what the device cannot.  ``reasons`` counts, in words, why it had to.
    """

    name = "jax"

    def __init__(
        self, split: Split, pieces: PieceEncoder, instead: Backend, buckets: tuple[int, ...] | None = None
    ) -> None:
        self.reasons: Counter[str] = Counter()
        self._split = split
        self._pieces = pieces
        self._instead = instead
        self._buckets = buckets
        self._compiled: dict[tuple[Callable[..., Any], int], Callable[..., Any]] = {}
        self._lock = threading.RLock()
        self._room = threading.BoundedSemaphore(_QUEUE)

    @cached_property
    def buckets(self) -> tuple[int, ...]:
        """The sizes that texts are padded to, in bytes, ascending."""
        if self._buckets is not None:
            return self._buckets
        return BUCKETS if self.accelerated else tuple(size for size in BUCKETS if size <= _LARGEST_ON_CPU)

    @property
    def largest(self) -> int:
        """The most bytes of a text that is encoded in one go."""
        return self.buckets[-1]

    def fits(self, text: PreparedText) -> bool:
        """Whether a text is small enough to be encoded in one go; UnicodeEncodeError for a lone surrogate."""
        return 4 * len(text.text) <= self.largest or len(text.text.encode("utf-8")) <= self.largest

    def encode(self, text: PreparedText) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        if not text.text:
            return NO_IDS, NO_POSITIONS
        data = _bytes(text)
        return self._or_instead(lambda: self._encode(data, text.ids), lambda: self._instead.encode(text))

    def encode_on_device(self, text: PreparedText) -> jax.Array:
        """The ids in device memory, int32 of shape (tokens,)."""
        if not text.text:
            return jnp.zeros(0, jnp.int32)
        data = _bytes(text)
        return self._or_instead(
            lambda: self._encode_on_device(data, text.ids),
            lambda: self.put(self._instead.encode(text)[0]),
        )

    def piece_starts(self, text: PreparedText) -> NDArray[np.int64]:
        if not text.text:
            return NO_POSITIONS
        data = _bytes(text)
        return self._or_instead(lambda: self._starts(data, text), lambda: self._instead.piece_starts(text))

    def put(self, ids: NDArray[np.uint32]) -> jax.Array:
        """Ids from the host, as :meth:`encode_on_device` gives them."""
        return transfers.to_device(jnp.asarray(ids.astype(np.int32)))

    def surround(self, ids: jax.Array, prefix: Sequence[int], suffix: Sequence[int]) -> jax.Array:
        """Ids in device memory with others before and after them."""
        if not prefix and not suffix:
            return ids
        before, after = transfers.to_device((np.array(prefix, np.int32), np.array(suffix, np.int32)))
        return jnp.concatenate((before, ids, after))

    @property
    def accelerated(self) -> bool:
        """Whether there is a device other than the processor."""
        try:
            return transfers.platform() != "cpu"
        except RuntimeError:  # no device at all, which the first text will tell
            return False

    def warm_up(self, up_to: int | None = None) -> None:
        """Put the tables on the device and compile for all sizes up to the first that holds ``up_to`` bytes."""
        for number, size in enumerate(self.buckets):
            if up_to is None or number == 0 or self.buckets[number - 1] < up_to:
                self._function(encode, size)

    # --- the device ---------------------------------------------------------------------

    @cached_property
    def _tables(self) -> Tables:
        pieces = self._pieces.tables
        return transfers.to_device(
            Tables(
                split_tables(self._split),
                whole_tables(pieces),
                symbol_tables(pieces.first),
                device_tables(pieces.merges),
            )
        )

    @cached_property
    def _kernel_tables(self) -> Tables:
        from .pallas_tables import kernel_tables

        return replace(self._tables, merges=kernel_tables(self._pieces.tables.merges))

    def _function(self, function: Callable[..., Any], size: int) -> Callable[..., Any]:
        """``function`` compiled for texts of ``size`` bytes, and with the tables that it needs."""
        with self._lock:
            found = self._compiled.get((function, size))
            if found is None:
                found = self._compiled[function, size] = self._compile(function, size)
            return found

    def _forms(self, size: int) -> tuple[Sizes, ...]:
        """How a function may be compiled, the fastest first."""
        if not self.accelerated:
            return (_ON_CPU,)
        plain = Sizes(lanes=size // 8, merged=size)
        return (replace(plain, kernels=True), plain) if transfers.platform() == "gpu" else (plain,)

    def _compile(self, function: Callable[..., Any], size: int) -> Callable[[Any], Any]:
        reason = ""
        for sizes in self._forms(size):
            try:
                every = self._kernel_tables if sizes.kernels else self._tables
                tables = every if function is encode else every.split
                data = transfers.to_device(np.full(size, PADDING, np.uint8))
                lowered = jax.jit(partial(function, sizes=sizes)).lower(data, tables)
                compiled = lowered.compile(compiler_options=None if self.accelerated else _CPU_OPTIONS)
                return lambda data: compiled(data, tables)  # returned at once
            except Exception as problem:  # of any kind, and the next text need not try again
                what = "the kernels do" if sizes.kernels else "it does"
                reason = f"{what} not compile: {_reason(problem)}"
                if sizes.kernels:
                    self.reasons[reason] += 1

        def refuse(data: jax.Array) -> Any:
            raise _Refused(reason)

        return refuse

    def _run(self, function: Callable[..., Any], data: bytes) -> Any:
        size = next((size for size in self.buckets if size >= len(data)), None)
        if size is None:
            raise _Refused(f"no place to cut a text of more than {self.largest} bytes was found")
        padded = np.full(size, PADDING, np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        return self._function(function, size)(transfers.to_device(padded))

    def _or_instead(self, on_device: Callable[[], Result], instead: Callable[[], Result]) -> Result:
        if not self._room.acquire(blocking=False):
            return self._count("the device is busy", instead)
        try:
            return on_device()
        except _Refused as problem:
            return self._count(str(problem), instead)
        except (RuntimeError, MemoryError) as problem:  # what JAX raises: no device, no memory, no compiler
            return self._count(_reason(problem), instead)
        finally:
            self._room.release()

    def _count(self, reason: str, instead: Callable[[], Result]) -> Result:
        with self._lock:
            self.reasons[reason] += 1
        return instead()

    # --- one text -----------------------------------------------------------------------

    def _encode(self, data: bytes, added: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        found: Encoded = self._run(encode, data)
        header, first = transfers.to_host((found.header, found.parts[0]))
        count, left, longest = header.tolist()
        _check(longest)
        filled = -(-count // len(first))
        rest = transfers.to_host(found.parts[1:filled]) if filled > 1 else ()
        ids = np.concatenate((first, *rest))[:count]
        if left:
            ids = self._with_left(ids, data, found, filled)
        places = np.flatnonzero(ids == ADDED_TOKEN) if len(added) else NO_POSITIONS
        ids = ids.view(np.uint32)
        ids[places] = added
        return ids, places

    def _with_left(self, ids: NDArray[np.int32], data: bytes, found: Encoded, filled: int) -> NDArray[np.int32]:
        """The ids with those of the pieces in them that the device left to the host."""
        begins = np.append(np.concatenate(transfers.to_host(found.places[:filled]))[: len(ids)], len(data))
        at = np.flatnonzero(ids == LEFT)
        spans = zip(begins[at].tolist(), begins[at + 1].tolist(), strict=True)
        pieces = [data[start:stop].decode("utf-8") for start, stop in spans]
        self._count_left(len(pieces))
        fresh = [np.frombuffer(encoded, np.int32) for encoded in self._pieces.encode(pieces)]
        parts = [ids[: at[0]]]
        for own, (start, stop) in zip(fresh, pairwise([*at.tolist(), len(ids)]), strict=True):
            parts += [own, ids[start + 1 : stop]]
        return np.concatenate(parts)

    def _count_left(self, count: int) -> None:
        with self._lock:
            self.reasons["pieces that are too long for the device"] += count

    def _encode_on_device(self, data: bytes, added: NDArray[np.uint32]) -> jax.Array:
        found: Encoded = self._run(encode, data)
        count, left, longest = transfers.to_host(found.header).tolist()
        _check(longest)
        if left:
            raise _Refused("pieces that are too long for the device")
        ids = jnp.concatenate(found.parts)[:count]
        if len(added):
            places = jnp.nonzero(ids == ADDED_TOKEN, size=len(added))[0]
            ids = ids.at[places].set(transfers.to_device(added.view(np.int32)))
        return ids

    def _starts(self, data: bytes, text: PreparedText) -> NDArray[np.int64]:
        words, longest = transfers.to_host(self._run(starts_of, data))
        _check(int(longest))
        begins = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        buffer = np.frombuffer(data, np.uint8)
        starts = np.cumsum((buffer & 0xC0) != 0x80)[begins] - 1
        # an added token is one byte of `data`, but as many characters as it has
        grown = text.stops - text.starts - 1
        shrunk = text.starts - (np.cumsum(grown) - grown)
        before = np.searchsorted(shrunk, starts)
        found: NDArray[np.int64] = starts + np.append(0, np.cumsum(grown))[before]
        return found


def _check(longest: int) -> None:
    if longest > LONGEST_LANE:
        raise _Refused(f"where pieces begin depends on more than {LONGEST_LANE} bytes in a row")


def _reason(problem: BaseException) -> str:
    text = str(problem)
    if "RESOURCE_EXHAUSTED" in text or isinstance(problem, MemoryError):
        return "out of memory"
    return f"{type(problem).__name__}: {text.splitlines()[0] if text else 'no message'}"


def _bytes(text: PreparedText) -> bytes:
    """UTF-8 with one byte in place of each added token; raises ``UnicodeEncodeError`` for a lone surrogate."""
    if not len(text.ids):
        return text.text.encode("utf-8")
    parts: list[bytes] = []
    last, mark = 0, bytes([ADDED])
    for start, stop in zip(text.starts.tolist(), text.stops.tolist(), strict=True):
        parts += (text.text[last:start].encode("utf-8"), mark)
        last = stop
    parts.append(text.text[last:].encode("utf-8"))
    return b"".join(parts)
