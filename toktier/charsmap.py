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

from .normalization import engine_normalizer
from .pipeline import Normalizer, NormalizerSequence, Other
from .records import record

Nodes = NDArray[np.int64]

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
        """Each byte that leads on from some node, and the node to which it leads."""
        next = (self._bases(nodes)[:, None] ^ _BYTES).ravel()
        byte = np.tile(_BYTES, len(nodes))
        found = self.units.take(next, mode="clip") & _LABEL == byte
        found &= next < len(self.units)
        return byte[found], next[found]

    def below(self, nodes: Nodes) -> tuple[Nodes, bool]:
        """All nodes behind some, and whether one of them is that of an ASCII character."""
        found, ascii = [nodes[:0]], False
        while len(nodes):
            bytes, nodes = self.after(nodes)
            ascii |= bool((bytes < 0x80).any())
            nodes = np.unique(nodes)  # ends that keys have in common are stored once
            found.append(nodes)
        return np.concatenate(found), ascii

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


def read_charsmap(source: str) -> Charsmap:
    """The map in the JSON text of a normalizer that the reference accepts."""
    data = b64decode(json.loads(source)["precompiled_charsmap"])
    stop = 4 + int.from_bytes(data[:4], "little")
    return Charsmap(np.frombuffer(data[4:stop], "<u4").astype(np.int64), data[stop:])


@lru_cache(1)
def ascii_becomes(source: str) -> dict[str, tuple[str, frozenset[str]]] | None:
    """What each ASCII character becomes alone, and what the longer clusters that it begins may become instead.

    None if what stands before it matters, too.
    """
    charsmap = read_charsmap(source)
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


def kept_ascii(normalizer: Normalizer | None) -> NDArray[np.bool_] | None:
    """Which ASCII characters stay as they are between others of these: bool (128,).

    Those that end lines are left out.  No character is kept if there are several maps, or one that looks at what
    stands before.  None if there is no ``Precompiled``.
    """
    sources = _sources(normalizer)
    if not sources:
        return None
    kept = np.zeros(0x80, np.bool_)
    becomes = ascii_becomes(sources.pop()) if len(sources) == 1 else None
    if becomes is not None:
        kept[[ord(char) for char, (alone, _) in becomes.items() if char == alone and char not in "\r\n"]] = True
    return kept


def _sources(normalizer: Normalizer | None) -> set[str]:
    match normalizer:
        case NormalizerSequence(steps):
            return set[str]().union(*map(_sources, steps))
        case Other("Precompiled", source):
            return {source}
    return set()


class ClusterMap:
    """A ``Precompiled`` normalizer that sends only what may change through the engine.

    Safe to share between threads.  ``kept``: what :func:`kept_ascii` says.  Between neighbours that are kept a
    text falls apart.  What is between such places goes through the engine with the kept character before it, whose
    cluster it may be in, and without the one behind it: what follows that one is kept, too.
    """

    def __init__(self, engine: normalizers.Normalizer, kept: NDArray[np.bool_]) -> None:
        self._normalize = engine.normalize_str
        self._again = lru_cache(1 << 12)(self._normalize)
        self._changing: re.Pattern[str] | None = None
        if kept.any():
            characters = re.escape("".join(map(chr, np.flatnonzero(kept).tolist())))
            # one character first: with a repetition first, `re` is slow to find the next place
            self._changing = re.compile(f"[^{characters}][^{characters}]*(?:[{characters}][^{characters}]+)*")

    def __call__(self, segments: list[str]) -> list[str]:
        """Each segment normalized as a text of its own."""
        return [self._text(text) for text in segments]

    def _text(self, text: str) -> str:
        if self._changing is None:
            return self._normalize(text)
        parts: list[str] = []
        done = 0
        for found in self._changing.finditer(text):
            start, stop = max(found.start() - 1, 0), found.end()
            stretch = text[start:stop]
            again = stop - start <= _SHORT  # the ends of lines, say
            parts += (text[done:start], self._again(stretch) if again else self._normalize(stretch))
            done = stop
        return "".join([*parts, text[done:]]) if parts else text


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
