"""Artifacts: identity by content, and what is said about damaged files."""

from __future__ import annotations

import hashlib
import json
import lzma
import pickle
from pathlib import Path

import pytest

from toktier.artifact import Artifact, parse_document
from toktier.errors import ArtifactError

SMALL = json.dumps({"model": {"type": "BPE", "vocab": {"é": 0}, "merges": []}}, ensure_ascii=False).encode()


def test_the_fingerprint_is_the_sha256_of_the_bytes() -> None:
    assert Artifact.from_bytes(SMALL, "x").fingerprint == hashlib.sha256(SMALL).hexdigest()


def test_identity_is_content_not_name() -> None:
    one, same = Artifact.from_bytes(SMALL, "a"), Artifact.from_bytes(SMALL, "b")
    other = Artifact.from_bytes(SMALL + b"\n", "a")
    assert one == same and hash(one) == hash(same)
    assert one != other
    assert len({one, same, other}) == 2


def test_document_is_fresh_at_every_call() -> None:
    artifact = Artifact.from_bytes(SMALL, "x")
    artifact.document()["model"].clear()
    assert artifact.document()["model"]["vocab"] == {"é": 0}


def test_an_artifact_can_be_pickled() -> None:
    artifact = Artifact.from_bytes(SMALL, "x")
    copy = pickle.loads(pickle.dumps(artifact))
    assert copy == artifact and copy.read() == SMALL and copy.name == "x"


def test_stored_bytes_are_verified(tmp_path: Path) -> None:
    path = tmp_path / "x.json.xz"
    artifact = Artifact(hashlib.sha256(SMALL).hexdigest(), "x", path)
    with pytest.raises(ArtifactError, match="cannot be read"):
        artifact.read()
    path.write_bytes(lzma.compress(SMALL))
    assert artifact.read() == SMALL
    path.write_bytes(lzma.compress(SMALL + b" "))
    with pytest.raises(ArtifactError, match="reinstall"):
        artifact.read()
    path.write_bytes(lzma.compress(SMALL)[:-5])
    with pytest.raises(ArtifactError, match=r"not a whole \.xz file"):
        artifact.read()


@pytest.mark.parametrize("length", range(len(SMALL)))
def test_every_truncation_is_refused(length: int) -> None:
    with pytest.raises(ArtifactError):
        parse_document(SMALL[:length], "tokenizer.json")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b'{"model": {"vocab": {"a": 0,\n  "b" 1}}}', r"line 2, column 7 \(character 35 of \d+\)"),
        (b'{"model": {"vocab": {"a": 0', "line 1.*seems to be cut off"),
        (b'{"model": {}, "x": "\xff"}', "not UTF-8: byte 0xff at offset 20"),
        ('{"model": {}}'.encode("utf-16"), "not UTF-8"),
        (b"\xef\xbb\xbf" + SMALL, "byte order mark"),
        (b"[1, 2]", "holds a JSON list"),
        (b"null", "holds a JSON null"),
        (b'{"tokenizer_class": "GPT2Tokenizer", "bos_token": null}', 'no "model" object.*tokenizer_class'),
        (b'{"model": []}', 'no "model" object'),
        (b'{"model": {"dropout": NaN}}', "the number NaN"),
        (b'{"model": ' + b"[" * 200_000, "nested too deeply"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        (rb'{"model": {"vocab": {"a\ud800": 0}}}', "surrogate"),
        (rb'{"model": {"vocab": {"\udc00\ud800": 0}}}', "surrogate"),
    ],
)
def test_damage_is_named_and_located(data: bytes, message: str) -> None:
    with pytest.raises(ArtifactError, match=f"(?s)^some/tokenizer.json .*{message}"):
        parse_document(data, "some/tokenizer.json")


def test_escapes_that_only_look_like_half_a_pair_are_accepted() -> None:
    data = rb'{"model": {"vocab": {"\ud83d\ude00": 0, "\\ud800": 1}}}'
    assert list(parse_document(data, "x")["model"]["vocab"]) == ["\U0001f600", "\\ud800"]
