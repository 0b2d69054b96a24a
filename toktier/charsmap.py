"""SentencePiece's compiled character maps: the normalizer ``Precompiled`` (XLM-RoBERTa's, T5's, ALBERT's).

The reference cuts a text into grapheme clusters.  One of fewer than six bytes is looked up whole: the *shortest*
key of the map with which it begins gives what stands for all of it.  Otherwise each of its characters is looked
up in the same way, and stays if no key fits.  So what becomes of a character is a matter of its cluster.

Two ASCII characters are never in one cluster, but for a line feed after a carriage return.  Behind an ASCII
character others may belong to its cluster (marks); before it only the few that Unicode calls *prepended*.  If no
key begins with one of these, and none has ASCII but at its start, then no key is found in what such a cluster
begins with, and the ASCII character in it becomes what it becomes alone.  So for neighbours a and b that are
ASCII, but neither carriage return nor line feed, and for all texts x and y, ``n(x + a + b + y) = n(x + a) +
n(b + y)``, where ``n(x + a)`` ends with what a becomes alone.

The map is a double array (Darts-clone) of 32-bit units, then the results, each closed by a zero byte.  Its first
unit is the root.  A node's unit holds a label, an offset and whether a key ends there; the byte ``c`` leads to
the unit at ``node ^ offset ^ c`` if its label is ``c``, and what the key becomes is at ``node ^ offset``.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import normalizers

from .lazy import lazy
from .normalization import engine_normalizer
from .pipeline import Normalizer, NormalizerSequence, Other
from .records import record

Nodes = NDArray[np.int64]

#: Characters beyond ASCII, with single ones of ASCII between them.
_BEYOND_ASCII = re.compile("[^\0-\x7f]+(?:[\0-\x7f][^\0-\x7f]+)*")
#: Stretches of so many characters are remembered.
_SHORT = 8
_BYTES = np.arange(1, 256)
_ENDS, _LABEL, _VALUE = 1 << 8, 1 << 31 | 0xFF, (1 << 31) - 1


@record
class Charsmap:
    """``units``: int64, the double array.  ``results``: UTF-8."""

    units: Nodes
    results: bytes

    def after(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """Each byte that leads on from some node, and the node to which it leads.

        Raises ``IndexError`` where a map that is damaged leads out of the array.
        """
        next = (self._bases(nodes)[:, None] ^ _BYTES).ravel()
        byte = np.tile(_BYTES, len(nodes))
        found = self.units.take(next) & _LABEL == byte
        return byte[found], next[found]

    def below(self, nodes: Nodes) -> tuple[Nodes, bool]:
        """All nodes behind some, and whether one of them is that of an ASCII character."""
        found, ascii = np.zeros(len(self.units), np.bool_), False
        while len(nodes):
            bytes, nodes = self.after(nodes)
            ascii |= bool((bytes < 0x80).any())
            nodes = np.unique(nodes[~found[nodes]])  # ends that keys have in common are stored once
            found[nodes] = True
        return np.flatnonzero(found), ascii

    def becomes(self, nodes: Nodes) -> set[str]:
        """What the keys become that end at nodes."""
        ends = nodes[self.units[nodes] & _ENDS != 0]
        starts = np.unique(self.units[self._bases(ends)] & _VALUE).tolist()
        return {self.results[start : self.results.index(0, start)].decode() for start in starts}

    def heads(self) -> list[str]:
        """The characters with which keys begin, in the order of their code points.

        Raises ``UnicodeDecodeError`` if a key ends inside its first character.
        """
        found: list[bytes] = []
        level = [(b"", 0)]
        while level:
            further = []
            for prefix, node in level:
                for byte, next in zip(*(part.tolist() for part in self.after(np.array([node]))), strict=True):
                    head = prefix + bytes([byte])
                    whole = len(head) == _length(head[0])
                    if whole or self.units[next] & _ENDS:
                        found.append(head)
                    else:
                        further.append((head, next))
            level = further
        return sorted(head.decode() for head in found)

    def _bases(self, nodes: Nodes) -> Nodes:
        units = self.units[nodes]
        return nodes ^ units >> 10 << ((units & 0x200) >> 6)


def _length(lead: int) -> int:
    """How many bytes a character has, by its first."""
    return 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)


@lru_cache(1)
def read_charsmap(source: str) -> Charsmap | None:
    """The map in the JSON text of a normalizer that the reference accepts; None if it is damaged.

    The reference fails with texts that lead it out of such a map, or to the middle of a character.
    """
    data = b64decode(json.loads(source)["precompiled_charsmap"])
    stop = 4 + int.from_bytes(data[:4], "little")
    try:
        charsmap = Charsmap(np.frombuffer(data[4:stop], "<u4").astype(np.int64), data[stop:])
        charsmap.becomes(charsmap.below(np.zeros(1, np.int64))[0])
    except (IndexError, ValueError):
        return None
    return charsmap


def is_damaged(normalizer: Normalizer | None) -> bool:
    """Whether a map of its is."""
    return any(read_charsmap(source) is None for source in _sources(normalizer))


@lru_cache(1)
def ascii_becomes(source: str) -> dict[str, tuple[str, frozenset[str]]] | None:
    """What each ASCII character becomes alone, and what the longer clusters that it begins may become instead.

    None if what stands before it matters, too, or the map is damaged.
    """
    charsmap = read_charsmap(source)
    if charsmap is None:
        return None
    try:
        heads = charsmap.heads()
    except UnicodeDecodeError:
        return None
    bytes, first = charsmap.after(np.zeros(1, np.int64))
    if charsmap.below(first)[1] or prepended(heads):
        return None
    found = {chr(code): (chr(code), frozenset[str]()) for code in range(0x80)}
    for byte, node in zip(bytes.tolist(), first[:, None], strict=True):
        if byte < 0x80:
            key = charsmap.becomes(node)  # the shortest one that any of its clusters begins with
            longer = charsmap.becomes(charsmap.below(node)[0])
            found[chr(byte)] = (key.pop(), frozenset()) if key else (chr(byte), frozenset(longer))
    return found


def falls_apart(normalizer: Normalizer | None) -> bool:
    """Whether it has maps, and what stands before an ASCII character matters to none of them."""
    sources = _sources(normalizer)
    return bool(sources) and all(ascii_becomes(source) is not None for source in sources)


def _sources(normalizer: Normalizer | None) -> list[str]:
    match normalizer:
        case NormalizerSequence(steps):
            return [source for step in steps for source in _sources(step)]
        case Other("Precompiled", source):
            return [source]
    return []


class ClusterMap:
    """A ``Precompiled`` normalizer that :func:`falls_apart`; safe to share between threads.

    In ASCII each character is a cluster, but for CR LF, so the engine is asked once for each.  Other characters go
    through it with the ASCII character before them, whose cluster they may be in.  The one behind them becomes
    what it becomes alone unless a mark follows it, so it stays out of that if there are two.
    """

    def __init__(self, engine: normalizers.Normalizer) -> None:
        self._normalize = engine.normalize_str
        self._again = lru_cache(1 << 12)(self._normalize)

    def __call__(self, segments: list[str]) -> list[str]:
        """Each segment normalized as a text of its own."""
        return [self._ascii(text) if text.isascii() else self._text(text) for text in segments]

    @lazy
    def _alone(self) -> dict[int, str]:
        return {code: self._normalize(chr(code)) for code in range(0x80)}

    def _ascii(self, text: str) -> str:
        if "\r\n" not in text:
            return text.translate(self._alone)
        return self._again("\r\n").join([part.translate(self._alone) for part in text.split("\r\n")])

    def _text(self, text: str) -> str:
        parts: list[str] = []
        done = 0
        for found in _BEYOND_ASCII.finditer(text):
            start, stop = max(found.start() - 1, done), found.end()
            if start > done and text.startswith("\r\n", start - 1):
                start -= 1
            stretch = text[start:stop]
            again = stop - start <= _SHORT
            parts += (self._ascii(text[done:start]), self._again(stretch) if again else self._normalize(stretch))
            done = stop
        return "".join([*parts, self._ascii(text[done:])])


def prepended(characters: list[str]) -> list[str]:
    """Those that share a cluster with an ASCII character behind them, as the engine has it.

    Asked by a map whose keys are the first bytes of all characters beyond ASCII: a cluster that begins with one is
    dropped whole.
    """
    beyond = [character for character in characters if not character.isascii()]
    leads = np.arange(0xC2, 0xF5)
    units = np.zeros(1024, "<u4")
    units[0] = 0x100 << 10
    units[0x100 ^ leads] = leads | _ENDS | 0x200 << 10
    units[0x300 ^ leads] = 1 << 31
    data = (units.nbytes).to_bytes(4, "little") + units.tobytes() + bytes(1)
    source = json.dumps({"type": "Precompiled", "precompiled_charsmap": b64encode(data).decode()})
    kept = engine_normalizer(source).normalize_str("".join(f"{c}z\n" for c in beyond)).split("\n")
    return [character for character, line in zip(beyond, kept, strict=False) if line == ""]
