"""A tokenizer, as a thing: the bytes of a ``tokenizer.json`` and their SHA-256.

The fingerprint *is* the tokenizer.  A name is only for display: two artifacts
that happen to share one are as different as their bytes, and two with equal
bytes are one artifact whatever they are called.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from .errors import ArtifactError
from .records import record

if TYPE_CHECKING:
    from pathlib import Path

# Few files escape a surrogate at all, and this search is fast.  The next one finds a
# `\uD8xx` that no `\uDCxx` follows, or the reverse.  An escaped backslash can look like
# one, so a hit only says that the decoded document must be looked at.
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)


@record
class Artifact:
    """The bytes of one ``tokenizer.json``.  Immutable, hashable, picklable; equal by fingerprint.

    ``fingerprint``
        SHA-256 of the bytes, 64 lower-case hexadecimal digits.
    ``name``
        What to call it in messages.  It identifies nothing.
    ``source``
        The bytes, or the path of an ``.xz`` file that holds them and is only opened by
        :meth:`read`.
    ``folder``
        The model directory that it was loaded from, where a chat template may lie; None
        for a single file.
    """

    fingerprint: str
    name: str
    source: bytes | str
    folder: Path | None = None

    @classmethod
    def from_bytes(cls, data: bytes, name: str, folder: Path | None = None) -> Artifact:
        """The artifact that consists of ``data``."""
        return cls(_sha256(data), name, data, folder)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Artifact) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Artifact(fingerprint={self.fingerprint!r}, name={self.name!r})"

    def read(self) -> bytes:
        """The bytes, verified against the fingerprint.

        An embedded artifact is decompressed at every call and never kept.  Raises
        :class:`~toktier.errors.ArtifactError` if the stored file is damaged.
        """
        if isinstance(self.source, bytes):
            return self.source
        try:
            with open(self.source, "rb") as file:
                data = decompress(file.read(), self.source)
        except OSError as problem:
            raise ArtifactError(
                f"the data file of tokenizer {self.name!r} cannot be read ({problem}); reinstall toktier-jax"
            ) from problem
        if _sha256(data) != self.fingerprint:
            raise ArtifactError(
                f"the data file of tokenizer {self.name!r}, {self.source}, is not the one that was published "
                f"(its SHA-256 is not {self.fingerprint}); reinstall toktier-jax"
            )
        return data

    def document(self) -> dict[str, Any]:
        """The decoded JSON object, a fresh one at every call.

        Raises :class:`~toktier.errors.ArtifactError`, with the position, if the bytes are
        not UTF-8, not JSON (truncated, for example), or not the JSON of a tokenizer.
        """
        return parse_document(self.read(), self.name)


def _sha256(data: bytes) -> str:
    import hashlib  # late: with OpenSSL, of which an embedded tokenizer that is loaded has no need

    return hashlib.sha256(data).hexdigest()


def decompress(data: bytes, where: str) -> bytes:
    """Undo xz compression; ``where`` names the file in the error.

    Raises :class:`~toktier.errors.ArtifactError` for damaged or truncated data.
    """
    import lzma  # late, like the above

    try:
        return lzma.decompress(data)
    except (lzma.LZMAError, EOFError) as problem:
        raise ArtifactError(f"{where} is not a whole .xz file ({problem}); copy or download it again") from problem


def parse_object(data: bytes, where: str) -> dict[str, Any]:
    """Decode a JSON object from UTF-8 as strictly as the reference does.

    Raises :class:`~toktier.errors.ArtifactError` with line, column and offset.
    """

    def refuse(constant: str) -> NoReturn:
        raise ArtifactError(f"{where} holds the number {constant}, which JSON does not know; correct the file")

    if not data:
        raise ArtifactError(f"{where} is empty; copy or download it again")
    if data.startswith(codecs.BOM_UTF8):
        raise ArtifactError(f"{where} begins with a byte order mark, which JSON does not have; save it without")
    if data.startswith(b"version https://git-lfs"):
        raise ArtifactError(
            f"{where} is a Git LFS pointer, not the file itself; run `git lfs pull` where it was cloned"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ArtifactError(
            f"{where} is not UTF-8: byte {data[problem.start]:#04x} at offset {problem.start} "
            f"({problem.reason}); copy or download it again"
        ) from problem
    try:
        value = json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as problem:
        cut = "; the file seems to be cut off" if problem.pos >= len(text.rstrip()) else ""
        again = "copy or download it again" if text.lstrip().startswith("{") else "it is another kind of file"
        raise ArtifactError(
            f"{where} is not valid JSON: {problem.msg} at line {problem.lineno}, column {problem.colno} "
            f"(character {problem.pos} of {len(text)}){cut}; {again}"
        ) from problem
    except RecursionError as problem:
        raise ArtifactError(f"{where} is nested too deeply to be a tokenizer file") from problem
    if not isinstance(value, dict):
        kind = "null" if value is None else type(value).__name__
        raise ArtifactError(f"{where} holds a JSON {kind}, not an object")
    if _SURROGATE_ESCAPE.search(data) and _LONE_SURROGATE.search(data):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as problem:
            raise ArtifactError(
                f"{where} escapes half of a surrogate pair, which is no character; correct the file"
            ) from problem
    return value


def parse_document(data: bytes, where: str) -> dict[str, Any]:
    """Decode the bytes of a ``tokenizer.json``; ``where`` names them in errors.

    Raises :class:`~toktier.errors.ArtifactError` as :func:`parse_object` does, and for an
    object without a model.
    """
    document = parse_object(data, where)
    if not isinstance(document.get("model"), dict):
        keys = ", ".join(list(document)[:5]) or "none"
        raise ArtifactError(
            f'{where} is JSON but not a tokenizer.json: it has no "model" object (its keys begin: {keys}); '
            "give the file named tokenizer.json, which `tokenizer.save_pretrained(...)` writes"
        )
    return document
