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
import sys
from base64 import b64decode
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .bpe.memo import ranges
from .cluster_map import joining
from .pipeline import Normalizer, NormalizerSequence, Other
from .records import record

Nodes = NDArray[np.int64]

_ENDS, _LABEL, _VALUE = 1 << 8, 1 << 31 | 0xFF, (1 << 31) - 1
_ROOT = np.zeros(1, np.int64)


@record
class Charsmap:
    """``units``: int64, the double array.  ``results``: UTF-8.

    ``children``: the units to which some byte may lead, by the base that they belong to: ``counts[base]`` of them
    from ``first[base]`` on.
    """

    units: Nodes
    results: bytes
    children: Nodes
    first: Nodes
    counts: Nodes

    def after(self, nodes: Nodes) -> tuple[Nodes, Nodes, Nodes]:
        """Each byte that leads on from some node, the node to which it leads, and from which of ``nodes``.

        Raises ``IndexError`` where a map that is damaged leads out of the array.
        """
        bases = self._bases(nodes)
        if (bases | 0xFF >= len(self.units)).any():
            raise IndexError
        counts = self.counts[bases]
        next = self.children[ranges(self.first[bases], counts)]
        return self.units[next] & _LABEL, next, np.repeat(np.arange(len(nodes)), counts)

    def below(self, nodes: Nodes) -> tuple[Nodes, bool]:
        """All nodes behind some, and whether one of them is that of an ASCII character."""
        found, ascii = np.zeros(len(self.units), np.bool_), False
        while len(nodes):
            bytes, nodes, _ = self.after(nodes)
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
        prefixes, nodes = [b""], _ROOT
        while prefixes:
            bytes, next, index = (part.tolist() for part in self.after(nodes))
            heads = [prefixes[i] + byte.to_bytes(1) for byte, i in zip(bytes, index, strict=True)]
            ends = (self.units[next] & _ENDS != 0).tolist()
            whole = [end or len(head) == _length(head[0]) for head, end in zip(heads, ends, strict=True)]
            found += [head for head, done in zip(heads, whole, strict=True) if done]
            prefixes = [head for head, done in zip(heads, whole, strict=True) if not done]
            nodes = np.array([node for node, done in zip(next, whole, strict=True) if not done], np.int64)
        return sorted(head.decode() for head in found)

    def _bases(self, nodes: Nodes) -> Nodes:
        units = self.units[nodes]
        return nodes ^ units >> 10 << ((units & 0x200) >> 6)


def _length(lead: int) -> int:
    """How many bytes a character has, by its first."""
    return 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)


def _charsmap(units: Nodes, results: bytes) -> Charsmap:
    labels = units & _LABEL
    children = np.flatnonzero((labels > 0) & (labels <= 0xFF))
    bases = children ^ labels[children]
    children = children[np.argsort(bases, kind="stable")]
    counts = np.bincount(bases[bases < len(units)], minlength=len(units))
    return Charsmap(units, results, children, np.cumsum(counts) - counts, counts)


@lru_cache(1)
def read_charsmap(source: str) -> Charsmap | None:
    """The map in the JSON text of a normalizer that the reference accepts; None if it is damaged.

    The reference fails with texts that lead it out of such a map, or to the middle of a character.
    """
    data = b64decode(json.loads(source)["precompiled_charsmap"])
    stop = 4 + int.from_bytes(data[:4], "little")
    try:
        charsmap = _charsmap(np.frombuffer(data[4:stop], "<u4").astype(np.int64), data[stop:])
        charsmap.becomes(charsmap.below(_ROOT)[0])
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
    bytes, first, _ = charsmap.after(_ROOT)
    if charsmap.below(first)[1] or prepended(heads):
        return None
    found = {chr(code): (chr(code), frozenset[str]()) for code in range(0x80)}
    for byte, node in zip(bytes.tolist(), first[:, None], strict=True):
        if byte < 0x80:
            key = charsmap.becomes(node)  # the shortest one that any of its clusters begins with
            longer = charsmap.becomes(charsmap.below(node)[0])
            found[chr(byte)] = (key.pop(), frozenset()) if key else (chr(byte), frozenset(longer))
    return found


def inert_characters(normalizer: Normalizer | None) -> NDArray[np.bool_] | None:
    """By code point, those with which no key of its maps begins, bool; None without maps that can be read."""
    inert = np.ones(sys.maxunicode + 1, np.bool_)
    sources = _sources(normalizer)
    for source in sources:
        charsmap = read_charsmap(source)
        if charsmap is None:
            return None
        try:
            inert[[*map(ord, charsmap.heads())]] = False
        except UnicodeDecodeError:
            return None
    return inert if sources else None


def _sources(normalizer: Normalizer | None) -> list[str]:
    match normalizer:
        case NormalizerSequence(steps):
            return [source for step in steps for source in _sources(step)]
        case Other("Precompiled", source):
            return [source]
    return []


def prepended(characters: list[str]) -> list[str]:
    """Those that share a cluster with an ASCII character behind them, as the engine has it."""
    beyond = [character for character in characters if not character.isascii()]
    _, right = joining("".join(beyond))
    return [character for character, joins in zip(beyond, right.tolist(), strict=True) if joins]
