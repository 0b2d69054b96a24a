"""From names to artifacts: order, side files, repositories, and unknown names."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SHARED, artifact
from tokenizers import AddedToken, Tokenizer

from toktier import side_files
from toktier.errors import ArtifactError, OptionError, UnknownTokenizerError
from toktier.registry import DEFAULT, embedded_names, resolve

VOCAB = {c: i for i, c in enumerate("hilow<>abc")} | {"hi": 10, "lo": 11, "low": 12}
PLAIN = ("single_word", "lstrip", "rstrip", "normalized", "special")


def token(content: str, *flags: str) -> dict[str, Any]:
    return {"content": content, **{flag: flag in flags for flag in PLAIN}}


def tokenizer_json(*added: dict[str, Any], padding: dict[str, Any] | None = None) -> bytes:
    """A small tokenizer; added tokens get ids from 13 on unless they are in the vocabulary."""
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": padding,
        "added_tokens": [{"id": VOCAB.get(t["content"], 13 + i), **t} for i, t in enumerate(added)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": VOCAB,
            "merges": ["h i", "l o", "lo w"],
        },
    }
    return json.dumps(document, indent=1).encode()


def added_tokens(data: bytes) -> dict[int, AddedToken]:
    return dict(Tokenizer.from_str(data.decode()).get_added_tokens_decoder())


def stated(data: bytes) -> list[tuple[int, str, set[str]]]:
    """What the reference makes of a file: (id, content, flags set), by id."""
    return [
        (id, t.content, {flag for flag in PLAIN if getattr(t, flag)})
        for id, t in sorted(added_tokens(data).items())
    ]


def folder(path: Path, data: bytes, **side_files: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "tokenizer.json").write_bytes(data)
    for name, content in side_files.items():
        (path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return path


# --- embedded ---------------------------------------------------------------


def test_the_embedded_tokenizers() -> None:
    assert embedded_names() == ("gpt2", "gpt-oss", "qwen3", "deepseek-v3")
    assert DEFAULT == "gpt-oss"
    beginnings = [resolve(name).fingerprint[:12] for name in embedded_names()]
    assert beginnings == ["45055b64871b", "0614fe83cada", "aeb13307a71a", "621ac2e32d0d"]


def test_embedded_bytes_are_those_of_the_fingerprint(embedded: str) -> None:
    found = resolve(embedded)
    assert found.name == embedded
    assert hashlib.sha256(found.read()).hexdigest() == found.fingerprint
    assert {"model", "added_tokens", "pre_tokenizer"} <= found.document().keys()


@pytest.mark.parametrize("spelling", ["gpt-oss", "gpt_oss", "GPT-OSS"])
def test_spellings_of_an_embedded_name(spelling: str) -> None:
    assert resolve(spelling) == resolve("gpt-oss")
    assert resolve(spelling).name == "gpt-oss"


# --- files ------------------------------------------------------------------


def test_a_file_is_its_bytes(tmp_path: Path) -> None:
    data = tokenizer_json()
    path = tmp_path / "any name.txt"
    path.write_bytes(data)
    compressed = tmp_path / "t.json.xz"
    compressed.write_bytes(lzma.compress(data))
    for given in (path, str(path), compressed):
        assert resolve(given).read() == data
        assert resolve(given).fingerprint == hashlib.sha256(data).hexdigest()


def test_an_artifact_keeps_its_bytes_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tokenizer_json())
    before = resolve(path)
    path.write_bytes(tokenizer_json(token("<a>")))
    after = resolve(path)
    assert before.name == after.name and before != after
    assert before.read() == tokenizer_json()


def test_names_win_over_paths_unless_written_as_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").write_bytes(tokenizer_json())
    assert resolve("gpt2") == artifact("gpt2")
    with pytest.raises(UnknownTokenizerError, match=r"nothing at the path 'Qwen3'.*the str 'qwen3'"):
        resolve(Path("Qwen3"))
    assert resolve("./gpt2").read() == tokenizer_json()
    assert resolve(Path("gpt2")).read() == tokenizer_json()


def test_a_path_wins_over_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    (tmp_path / "org").mkdir()
    folder(tmp_path / "org" / "name", tokenizer_json())
    assert resolve("org/name").read() == tokenizer_json()


def test_a_damaged_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "t.json.xz"
    path.write_bytes(lzma.compress(tokenizer_json())[:-9])
    with pytest.raises(ArtifactError, match=r"t\.json\.xz is not a whole \.xz file"):
        resolve(path)


@pytest.mark.skipif(SHARED is None, reason="needs ../shared/tokenizers")
def test_the_embedded_bytes_are_those_beside_the_checkout(embedded: str) -> None:
    assert SHARED is not None
    beside = resolve(SHARED / f"{embedded.replace('-', '_')}.json.xz")
    assert beside == resolve(embedded)
    assert beside.read() == resolve(embedded).read()


# --- directories: what `transformers` 5.24 was seen to make of each -----------

CASES: dict[str, tuple[bytes, dict[str, Any], list[tuple[int, str, set[str]]]]] = {
    "a token that the file lacks": (
        tokenizer_json(token("<a>", "special")),
        {"tokenizer_config": {"added_tokens_decoder": {"14": token("<img>", "special")}}},
        [(13, "<a>", {"special"}), (14, "<img>", {"special"})],
    ),
    "order is by declared id, but the id is the engine's": (
        tokenizer_json(),
        {"tokenizer_config": {"added_tokens_decoder": {"30": token("<c>"), "20": token("<b>")}}},
        [(13, "<b>", set()), (14, "<c>", set())],
    ),
    "a token of the vocabulary keeps its id": (
        tokenizer_json(),
        {"tokenizer_config": {"added_tokens_decoder": {"40": token("low", "lstrip")}}},
        [(12, "low", {"lstrip"})],
    ),
    "other flags for a token that the file has": (
        tokenizer_json(token("<a>", "normalized")),
        {"tokenizer_config": {"added_tokens_decoder": {"13": token("<a>", "rstrip", "special")}}},
        [(13, "<a>", {"rstrip", "special"})],
    ),
    "roles, additional tokens, and a role of the model's own": (
        tokenizer_json(),
        {
            "tokenizer_config": {
                "additional_special_tokens": ["<x>", "<a>"],
                "image_token": "<i>",
                "eos_token": {"__type": "AddedToken", **token("<e>", "lstrip")},
                "bos_token": "<a>",
                "pad_token": None,
                "chat_template": "<not a token>",
            }
        },
        [
            (13, "<a>", {"special"}),
            (14, "<e>", {"lstrip", "special"}),
            (15, "<i>", {"special"}),
            (16, "<x>", {"special"}),
        ],
    ),
    "the older files": (
        tokenizer_json(token("<a>")),
        {
            "special_tokens_map": {"bos_token": token("<s>", "rstrip"), "eos_token": "<a>"},
            "added_tokens": {"<s>": 15, "<y>": 14},
        },
        [
            (13, "<a>", {"special"}),
            (14, "<y>", {"normalized"}),
            (15, "<s>", {"special"}),
        ],
    ),
    "the older files do not count beside added_tokens_decoder": (
        tokenizer_json(),
        {
            "tokenizer_config": {"added_tokens_decoder": {"13": token("<a>")}},
            "special_tokens_map": {"bos_token": "<s>"},
            "added_tokens": {"<y>": 14},
        },
        [(13, "<a>", set())],
    ),
    "the padding token of the file is a role": (
        tokenizer_json(
            padding={
                "strategy": "BatchLongest",
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "<p>",
            }
        ),
        {},
        [(13, "<p>", {"special"})],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_directory_is_merged_with_its_side_files(case: str, tmp_path: Path) -> None:
    data, side_files, expected = CASES[case]
    path = folder(tmp_path / "model", data, **side_files)
    merged = resolve(path)
    assert stated(merged.read()) == expected
    assert merged.document()["added_tokens"] == [
        {"id": id, **token(content, *flags)} for id, content, flags in expected
    ]
    alone = resolve(path / "tokenizer.json")
    assert alone.read() == data
    assert alone.fingerprint != merged.fingerprint
    rest = {k: v for k, v in merged.document().items() if k != "added_tokens"}
    assert rest == {k: v for k, v in alone.document().items() if k != "added_tokens"}
    assert resolve(path) == merged


@pytest.mark.parametrize(
    "side_files",
    [
        {},
        {"tokenizer_config": {"model_max_length": 8, "added_tokens_decoder": {}}},
        {"tokenizer_config": {"added_tokens_decoder": {"13": token("<a>", "special")}, "bos_token": "<a>"}},
        {"special_tokens_map": {"bos_token": "<a>"}, "added_tokens": {"<a>": 13}},
    ],
)
def test_a_directory_that_adds_nothing_is_its_file(side_files: dict[str, Any], tmp_path: Path) -> None:
    data = tokenizer_json(token("<a>", "special"))
    path = folder(tmp_path / "model", data, **side_files)
    assert resolve(path) == resolve(path / "tokenizer.json")
    assert resolve(path).read() == data


def test_a_directory_is_merged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKTIER_CACHE_DIR", str(tmp_path / "cache"))
    data = tokenizer_json(token("<a>", "special"))
    path = folder(tmp_path / "model", data, tokenizer_config={"bos_token": "<b>"})
    first = resolve(path)
    plain = resolve(folder(tmp_path / "plain", data))
    with monkeypatch.context() as context:
        context.setattr(side_files, "parse_document", lambda *_: pytest.fail("parsed again"))
        assert resolve(path) == first != resolve(tmp_path / "plain") == plain
    other = resolve(folder(tmp_path / "other", data, tokenizer_config={"bos_token": "<c>"}))
    assert "<c>" in other.read().decode() and "<b>" not in other.read().decode()


def test_merging_keeps_every_other_byte(tmp_path: Path) -> None:
    # the reference reads decimals in its own way, so they must not be rewritten
    data = (
        b'{ "version" : "1.0",\n "added_tokens" :\t[ ] ,"truncation":null,"padding":null,"normalizer":null,\n'
        b'"pre_tokenizer":null,"post_processor":null,"decoder":null,'
        b'"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["\\u0061",-1.23456789012345678901E0]]}}\n'
    )
    config = {"added_tokens_decoder": {"2": token("é<\U0001f600>", "special")}}
    merged = resolve(folder(tmp_path / "model", data, tokenizer_config=config)).read()
    entry = (
        '[{"id": 2, "content": "é<\U0001f600>", "single_word": false, "lstrip": false, '
        '"rstrip": false, "normalized": false, "special": true}]'
    )
    assert merged == data.replace(b"[ ]", entry.encode())
    without = data.replace(b' "added_tokens" :\t[ ] ,', b"")
    merged = resolve(folder(tmp_path / "other", without, tokenizer_config=config)).read()
    assert stated(merged) == [(2, "é<\U0001f600>", {"special"})]
    assert merged.endswith(without[1:])


def test_the_merged_tokens_are_found_in_text(tmp_path: Path) -> None:
    config = {"added_tokens_decoder": {"13": token("<img>", "special")}}
    path = folder(tmp_path / "model", tokenizer_json(), tokenizer_config=config)
    both = Tokenizer.from_str(resolve(path).read().decode())
    alone = Tokenizer.from_str(resolve(path / "tokenizer.json").read().decode())
    assert both.encode("hi<img>low").ids == [10, 13, 12]
    assert 13 not in alone.encode("hi<img>low").ids


@pytest.mark.parametrize(
    ("side_file", "content", "message"),
    [
        (
            "tokenizer_config",
            '{"added_tokens_decoder": {"1": ',
            "tokenizer_config.json is not valid JSON.*line 1",
        ),
        ("tokenizer_config", "[]", "tokenizer_config.json holds a JSON list"),
        ("tokenizer_config", '{"added_tokens_decoder": {"1": "<a>"}}', "unexpected shape"),
        ("tokenizer_config", '{"added_tokens_decoder": {"one": {"content": "<a>"}}}', "unexpected shape"),
        ("tokenizer_config", '{"added_tokens_decoder": {"1": {"kontent": "<a>"}}}', "unexpected shape"),
        ("tokenizer_config", '{"bos_token": 5}', "unexpected shape.*5"),
        ("added_tokens", '{"<a>": null}', "unexpected shape"),
    ],
)
def test_damaged_side_files_are_named(side_file: str, content: str, message: str, tmp_path: Path) -> None:
    path = folder(tmp_path / "model", tokenizer_json())
    (path / f"{side_file}.json").write_text(content)
    with pytest.raises(ArtifactError, match=message):
        resolve(path)
    assert resolve(path / "tokenizer.json").read() == tokenizer_json()


def test_a_file_that_the_reference_rejects_is_reported_when_merged(tmp_path: Path) -> None:
    config = {"bos_token": "<a>"}
    path = folder(tmp_path / "model", b'{"model": {"type": "BPE"}}', tokenizer_config=config)
    with pytest.raises(ArtifactError, match=r"the reference cannot load .*tokenizer\.json"):
        resolve(path)


# --- repositories, offline ----------------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def hub_cache(path: Path, data: bytes | None, **side_files: Any) -> Path:
    """The folders in which `huggingface_hub` keeps org/name at COMMIT, branch main."""
    repository = path / "models--org--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    (repository / "snapshots").mkdir()
    snapshot = folder(repository / "snapshots" / COMMIT, data or b"", **side_files)
    if data is None:
        (snapshot / "tokenizer.json").unlink()
    return path


def resolve_offline(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Resolve in a process of its own: the hub's client reads its variables when imported."""
    program = (
        "import sys\n"
        "from toktier.registry import resolve\n"
        "from toktier.errors import TokTierError\n"
        "name, *revision = sys.argv[1:]\n"
        "try: found = resolve(name, revision=revision[0] if revision else None)\n"
        "except TokTierError as e: sys.exit(f'{type(e).__name__}: {e}')\n"
        "print(found.fingerprint, found.name)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True
    )


def test_a_repository_is_read_from_the_hub_cache(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    config = {"added_tokens_decoder": {"13": token("<img>", "special")}}
    cache = hub_cache(tmp_path / "hub", tokenizer_json(), tokenizer_config=config)
    expected = resolve(folder(tmp_path / "model", tokenizer_json(), tokenizer_config=config)).fingerprint
    assert resolve_offline(cache, "org/name").stdout.split() == [expected, "org/name"]
    assert resolve_offline(cache, "org/name", "main").stdout.split() == [expected, "org/name@main"]
    assert resolve_offline(cache, "org/name", COMMIT).stdout.split() == [expected, f"org/name@{COMMIT}"]


def test_a_repository_that_is_not_in_the_cache(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    cache = hub_cache(tmp_path / "hub", tokenizer_json())
    for arguments in (("org/other",), ("org/name", "v2")):
        result = resolve_offline(cache, *arguments)
        assert result.returncode == 1
        assert result.stderr.startswith(f"UnknownTokenizerError: {arguments[0]!r}")
        assert "could not be fetched" in result.stderr


def test_a_repository_without_a_tokenizer_json(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    result = resolve_offline(hub_cache(tmp_path / "hub", None, tokenizer_config={}), "org/name")
    assert result.stderr.startswith(
        "UnknownTokenizerError: 'org/name' has no tokenizer.json, or the hub cannot be"
    )
    assert str(tmp_path / "hub") in result.stderr


def test_a_damaged_file_in_the_hub_cache_is_named(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    cache = hub_cache(tmp_path / "hub", None)
    blob = tmp_path / "blob"
    blob.write_bytes(b'{"model": ')
    snapshot = cache / "models--org--name" / "snapshots" / COMMIT
    (snapshot / "tokenizer.json").symlink_to(blob)
    message = f"ArtifactError: {snapshot}/tokenizer.json (a link to {blob}) is not valid JSON"
    assert resolve_offline(cache, "org/name").stderr.startswith(message)


def test_without_the_hub_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UnknownTokenizerError, match=r"pip install 'toktier-jax\[hub\]'"):
        resolve("org/name")


def test_resolving_imports_neither_the_hub_client_nor_the_reference() -> None:
    program = (
        "import sys; from toktier.registry import resolve; resolve('gpt2').read()\n"
        "sys.exit(sum(m in sys.modules for m in ('huggingface_hub', 'tokenizers', 'jax')))"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


# --- unknown names --------------------------------------------------------------


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownTokenizerError, match=r"'gpt-os'.*Did you mean 'gpt-oss'.*qwen3, deepseek-v3"):
        resolve("gpt-os")


def test_a_name_unlike_any_other_suggests_nothing() -> None:
    with pytest.raises(UnknownTokenizerError) as caught:
        resolve("zzzzzz")
    assert "Did you mean" not in str(caught.value)
    assert "gpt2, gpt-oss, qwen3, deepseek-v3" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["", "no/such/tokenizer.json", "missing/tokenizer.json", "./gpt3", "a\0b", "a b/c"]
)
def test_what_is_neither_name_nor_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UnknownTokenizerError, match="there is no tokenizer"):
        resolve(name)


def test_a_name_of_another_type() -> None:
    with pytest.raises(UnknownTokenizerError, match="not by int"):
        resolve(7)  # type: ignore[arg-type]


def test_a_directory_without_a_tokenizer_json(tmp_path: Path) -> None:
    with pytest.raises(UnknownTokenizerError, match=r"has no tokenizer\.json"):
        resolve(tmp_path)


@pytest.mark.parametrize("as_path", [False, True])
def test_a_revision_is_for_repositories_only(as_path: bool, tmp_path: Path) -> None:
    path = folder(tmp_path / "model", tokenizer_json())
    with pytest.raises(OptionError, match="revision='main'"):
        resolve(path if as_path else "gpt2", revision="main")


@pytest.mark.parametrize("name", ["org/name", "gpt2"])
def test_a_revision_is_a_string(name: str) -> None:
    with pytest.raises(OptionError, match=r"revision must be a str, .* not int"):
        resolve(name, revision=3)  # type: ignore[arg-type]
