"""The command line: outputs judged by the reference, messages, exit statuses, and behaviour as a program."""

from __future__ import annotations

import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import small
from conftest import artifact, reference
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from toktier.cli import BACKENDS, main
from toktier.cli import running as at_work
from toktier.cli.commands import LICENCES, decimal
from toktier.cli.reading import parse_ids
from toktier.errors import TokenIdError
from toktier.registry import embedded_names
from toktier.tokenizer import BACKENDS as TOKENIZER_BACKENDS

TEXT = "\ufeffHello, wörld\r\nline\rtwo\n<|endoftext|> e\u0301 \U0001f9cc\U0001fae0\t\n"
NAMES = ("gpt2", "gpt-oss", "qwen3")
COMMANDS = ("encode", "decode", "count", "inspect", "certify", "tokenizers")
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals, terminals and /dev/full are POSIX's")


@dataclass(frozen=True)
class Ran:
    status: int
    out: bytes
    err: str

    @property
    def json(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*argv: str, stdin: bytes = b"") -> Ran:
        streams = [io.TextIOWrapper(io.BytesIO(data), "utf-8") for data in (stdin, b"", b"")]
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            monkeypatch.setattr(sys, name, stream)
        try:
            status = main(argv)
        except SystemExit as end:
            assert isinstance(end.code, int)
            status = end.code
        written = []
        for stream in streams[1:]:
            stream.flush()
            raw = stream.buffer
            assert isinstance(raw, io.BytesIO)
            written.append(raw.getvalue())
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        return Ran(status, written[0], written[1].decode())

    return run


def program(*argv: str) -> list[str]:
    return [sys.executable, "-m", "toktier", *argv]


def right_ids(name: str) -> list[int]:
    """Of ``TEXT``, by the reference."""
    return reference(name).encode(TEXT).ids  # type: ignore[no-any-return]


def line(ids: list[int]) -> bytes:
    return " ".join(map(str, ids)).encode() + b"\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with good and bad inputs."""
    (tmp_path / "a.txt").write_bytes(TEXT.encode())
    (tmp_path / "b.txt").write_bytes(b"Hello, world")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 au lait")
    (tmp_path / "utf16.txt").write_bytes("hi".encode("utf-16"))
    (tmp_path / "folder").mkdir()
    return tmp_path


# --- encode ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "jax"])  # which takes seconds to compile
def test_encodes_files_and_standard_input_exactly(run: Run, files: Path, name: str, backend: str) -> None:
    ran = run("encode", "-t", name, "--backend", backend, "a.txt", "-", "empty.txt", stdin=TEXT.encode())
    assert ran == Ran(0, 2 * line(right_ids(name)) + b"\n", "")


@given(st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 300_000) | st.sampled_from([0, 9, 10, 99, 100])))
def test_ids_are_written_in_decimal(ids: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toktier.cli.commands._WRITTEN_AT_ONCE", 5)
        assert decimal(np.array(ids, np.uint32)) == " ".join(map(str, ids)).encode()


def test_many_ids_are_written_quickly() -> None:
    """On arrays: one by one it takes six times as long."""
    ids = np.arange(1_000_000, dtype=np.uint32) % 200_000
    times: dict[str, list[float]] = {"arrays": [], "strings": []}
    for _ in range(5):
        for name, write in (("arrays", decimal), ("strings", lambda ids: " ".join(map(str, ids.tolist())))):
            start = time.perf_counter()
            write(ids)
            times[name].append(time.perf_counter() - start)
    assert min(times["arrays"]) < min(times["strings"]) / 2


def test_standard_input_is_the_default(run: Run) -> None:
    assert run("encode", stdin=TEXT.encode()).out == line(right_ids("gpt-oss"))


def test_many_files_come_out_in_the_order_given(run: Run, files: Path) -> None:
    texts = {f"{i}.txt": f"number {i} " * (i * 37 % 23) for i in range(40)}
    for name, text in texts.items():
        (files / name).write_text(text)
    ran = run("encode", "-t", "gpt2", "--jobs", "4", *texts)
    assert ran.out == b"".join(line(reference("gpt2").encode(text).ids) for text in texts.values())


def test_json_with_offsets_is_what_the_reference_says(run: Run, files: Path) -> None:
    ran = run("encode", "-t", "qwen3", "--json", "--offsets", "a.txt", "empty.txt")
    expected = reference("qwen3").encode(TEXT)
    first, second = ran.json
    assert first["file"] == "a.txt"
    assert first["ids"] == expected.ids
    assert first["count"] == len(expected.ids)
    assert first["offsets"] == [list(span) for span in expected.offsets]
    assert first["byte_offsets"] == [[len(TEXT[:a].encode()), len(TEXT[:b].encode())] for a, b in expected.offsets]
    assert second == {"file": "empty.txt", "ids": [], "count": 0, "offsets": [], "byte_offsets": []}
    assert set(run("encode", "--json", "a.txt").json[0]) == {"file", "ids", "count"}


def test_offsets_table(run: Run) -> None:
    ran = run("encode", "-t", "gpt2", "--offsets", stdin="Hi é\U0001f9cc".encode())
    rows = [row.split(maxsplit=3) for row in ran.out.decode().splitlines()]
    assert rows[0] == ["id", "characters", "bytes", "token"]
    assert rows[1] == ["17250", "0..2", "0..2", "'Hi'"]
    assert rows[2] == ["38251", "2..4", "2..5", "' é'"]
    assert rows[3][1:] == ["4..5", "5..9", r"b'\xf0\x9f'"]
    assert [int(row[0]) for row in rows[1:]] == reference("gpt2").encode("Hi é\U0001f9cc").ids


def test_offsets_of_several_files_have_titles(run: Run, files: Path) -> None:
    out = run("encode", "--offsets", "b.txt", "empty.txt").out.decode()
    assert out.startswith("==> b.txt <==\nid")
    assert out.endswith("==> empty.txt <==\nid  characters  bytes  token\n")


def test_special_tokens_in_the_text(run: Run, files: Path) -> None:
    plain = Tokenizer.from_str(artifact("gpt2").read().decode())
    plain.encode_special_tokens = True
    assert run("encode", "-t", "gpt2", "--special", "text", "a.txt").out == line(plain.encode(TEXT).ids)
    ran = run("encode", "-t", "gpt2", "--special", "raise", "a.txt", "b.txt")
    assert (ran.status, ran.out) == (1, line(reference("gpt2").encode("Hello, world").ids))
    assert ran.err == (
        f"toktier: a.txt: the text contains the special token '<|endoftext|>' at character "
        f"{TEXT.index('<|endoftext|>')}; pass --special encode to make its id of it, or --special text to "
        "encode it as plain text\n"
    )


def test_special_tokens_around_the_text(run: Run, files: Path) -> None:
    document = json.loads(artifact("gpt2").read())
    document["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [50256], "tokens": ["<|endoftext|>"]}},
    }
    (files / "own.json").write_text(json.dumps(document))
    plain = reference("gpt2").encode("Hello, world").ids
    assert run("encode", "-t", "own.json", "b.txt").out == line([50256, *plain])
    assert run("encode", "-t", "own.json", "--no-special-tokens", "b.txt").out == line(plain)
    assert run("encode", "-t", "own.json", "--max-length", "2", "b.txt").out == line([50256, plain[0]])
    assert run("count", "-t", "own.json", "b.txt").out == b"%d b.txt\n" % (len(plain) + 1)
    assert run("count", "-t", "own.json", "--no-special-tokens", "b.txt").out == b"%d b.txt\n" % len(plain)
    assert b"1 of them added around the text" in run("inspect", "own.json", "Hello").out


def test_options_and_files_in_any_order(run: Run, files: Path) -> None:
    (files / "-x").write_bytes(b"Hello, world")
    expected = run("encode", "--json", "-t", "gpt2", "b.txt", "empty.txt").out
    assert run("encode", "b.txt", "--json", "empty.txt", "-t", "gpt2").out == expected
    assert run("encode", "-t", "gpt2", "--", "-x").out == line(reference("gpt2").encode("Hello, world").ids)


# --- inputs that cannot be used -----------------------------------------------------------


@pytest.mark.parametrize("command", ["encode", "count"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            "latin.txt",
            "not UTF-8: byte 0xe9 at offset 3 (invalid continuation byte); convert it first, for example with: "
            "iconv -f WINDOWS-1252 -t UTF-8",
        ),
        (
            "utf16.txt",
            "not UTF-8: byte 0xff at offset 0 (invalid start byte); convert it first, for example with: "
            "iconv -f UTF-16 -t UTF-8",
        ),
        ("nowhere.txt", "No such file or directory"),
        ("folder", "is a directory; name the files in it"),
    ],
)
def test_a_bad_file_among_good_ones(run: Run, files: Path, command: str, bad: str, message: str) -> None:
    ran = run(command, "--json", "b.txt", bad, "empty.txt")
    assert ran.status == 1
    assert ran.err == f"toktier: {bad}: {message}\n"
    assert [row.get("file") for row in ran.json][:2] == ["b.txt", "empty.txt"]


def test_truncated_utf8_is_found_where_it_begins(run: Run) -> None:
    ran = run("encode", stdin="abcé".encode()[:-1])
    assert (ran.status, ran.out) == (1, b"")
    assert ran.err.startswith("toktier: standard input: not UTF-8: byte 0xc3 at offset 3 (unexpected end of data)")


@POSIX
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(run: Run, files: Path) -> None:
    (files / "b.txt").chmod(0)
    assert run("encode", "b.txt").err == "toktier: b.txt: Permission denied\n"


@POSIX
def test_a_file_name_that_is_not_utf8(run: Run, files: Path) -> None:
    name = os.fsdecode(b"\xff.txt")
    try:
        (files / name).write_bytes(b"Hello, world")
    except OSError:
        pytest.skip("the file system has no such names")
    assert run("encode", "--json", name).json[0]["file"] == name
    assert run("count", name).out == b"3 \xff.txt\n"


# --- count --------------------------------------------------------------------------------


def test_counts_and_total(run: Run, files: Path) -> None:
    n = len(right_ids("qwen3"))
    ran = run("count", "-t", "qwen3", "a.txt", "b.txt", "empty.txt")
    assert [row.split() for row in ran.out.decode().splitlines()] == [
        [str(n), "a.txt"],
        ["3", "b.txt"],
        ["0", "empty.txt"],
        [str(n + 3), "total"],
    ]
    assert run("count", "-t", "qwen3", "b.txt").out == b"3 b.txt\n"
    assert run("count", "-t", "qwen3", stdin=TEXT.encode()).out == b"%d\n" % n
    assert run("count", "--json", "b.txt", "empty.txt").json == [
        {"file": "b.txt", "count": 3},
        {"file": "empty.txt", "count": 0},
        {"files": 2, "total": 3},
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_counts_do_not_depend_on_the_backend(run: Run, files: Path, backend: str) -> None:
    n = len(right_ids("gpt2"))
    with pytest.MonkeyPatch.context() as patch:
        if backend == "jax":  # what is compiled for other tests, too, and JAX keeps on disk
            from unoptimized import UNOPTIMIZED

            from toktier.backends.jax.versions import CPU_OPTIONS

            patch.setattr("toktier.backends.jax.backend.BUCKETS", (1 << 13,))
            patch.setattr("toktier.backends.jax.backend.CPU_OPTIONS", CPU_OPTIONS | UNOPTIMIZED)
        assert run("count", "-t", "gpt2", "--backend", backend, "a.txt").out == b"%d a.txt\n" % n
        ran = run("count", "-t", "gpt2", "--backend", backend, "--limit", str(n - 1), "a.txt")
    assert (ran.status, ran.out) == (3, b">%d a.txt\n" % (n - 1))


@pytest.mark.parametrize(("limit", "status"), [(2, 3), (3, 0)])
def test_limit(run: Run, files: Path, limit: int, status: int) -> None:
    exceeded = status == 3
    ran = run("count", "--limit", str(limit), "b.txt", "empty.txt")
    assert (ran.status, ran.err) == (status, "")
    assert ran.out.decode().split() == [
        ">2" if exceeded else "3", "b.txt", "0", "empty.txt", ">2" if exceeded else "3", "total"
    ]  # fmt: skip
    ran = run("count", "--limit", str(limit), "--json", "b.txt")
    assert (ran.status, ran.json) == (
        status,
        [{"file": "b.txt", "count": None if exceeded else 3, "exceeded": exceeded}],
    )
    assert run("count", "--limit", str(limit), "b.txt", "latin.txt").status == 1


# --- decode -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["{} {} {}", "{},{},{}", "[{}, {}, {}]", "{}\n{}\r\n\n{}\n", "[{}][{},{}]"])
def test_ids_in_every_form(run: Run, files: Path, form: str) -> None:
    ids = reference("gpt2").encode("Hello, world").ids
    written = form.format(*ids)
    (files / "ids").write_text(written)
    for ran in (
        run("decode", "-t", "gpt2", written),
        run("decode", "-t", "gpt2", *written.split()),
        run("decode", "-t", "gpt2", "ids"),
        run("decode", "-t", "gpt2", "-", stdin=written.encode()),
        run("decode", "-t", "gpt2", stdin=written.encode()),
    ):
        assert ran == Ran(0, b"Hello, world", "")


@pytest.mark.parametrize("name", NAMES)
def test_decode_is_the_references(run: Run, files: Path, name: str) -> None:
    ids = [*right_ids(name)[:-2], 2**32 - 1]  # an incomplete character, and an id that nobody has
    for option, skip in (("--skip-special-tokens", True), ("--keep-special-tokens", False)):
        expected = reference(name).decode(ids[:-1], skip_special_tokens=skip)
        assert run("decode", "-t", name, option, stdin=line(ids)).out.decode() == expected
    assert run("decode", "-t", name, stdin=line(ids)) == run(
        "decode", "-t", name, "--skip-special-tokens", stdin=line(ids)
    )
    (files / "ids").write_bytes(line(ids))
    assert run("decode", "-t", name, "--json", "ids").json == [
        {"file": "ids", "text": reference(name).decode(ids[:-1]), "count": len(ids)}
    ]


def test_what_was_encoded_comes_back(run: Run, files: Path) -> None:
    encoded = run("encode", "a.txt").out
    assert run("decode", "--keep-special-tokens", stdin=encoded).out == (files / "a.txt").read_bytes()


def test_bytes_are_written_as_they_are(run: Run) -> None:
    first, *_ = reference("gpt2").encode("\U0001f9cc").ids
    assert run("decode", "-t", "gpt2", "--bytes", str(first)).out == b"\xf0\x9f"
    assert run("decode", "-t", "gpt2", str(first)).out == "\ufffd".encode()
    assert run("decode", "-t", "gpt2", "--bytes", "50256 50256").out == b""
    assert run("decode", "-t", "gpt2", "--bytes", "--keep-special-tokens", "50256").out == b"<|endoftext|>"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "1 2\n3 x4\n",
            "line 2: 'x4' is not a token id; ids are whole numbers, separated by white space or commas",
        ),
        ("1 -2", "line 1: '-2' is not a token id; ids are whole numbers, separated by white space or commas"),
        ("1.5", "line 1: '1.5' is not a token id; ids are whole numbers, separated by white space or commas"),
        ("1\n\n4294967296", "line 3: '4294967296' is not a token id; ids are below 4294967296"),
        ("[1, 2\n", "line 2: the list that '[' begins has no ']'; the input seems to be cut off"),
        ("[[1], [2]]", "line 1: '[' is out of place; give one flat list of ids"),
        ("1\n2 ]", "line 2: ']' is out of place; give one flat list of ids"),
        (
            '{"ids": [1]}',
            "line 1: '{\"ids\":' is not a token id; for the output of `toktier encode --json`, pick out the ids "
            "first, for example with: jq -c .ids",
        ),
    ],
)
def test_what_is_no_id(run: Run, files: Path, written: str, message: str) -> None:
    (files / "bad").write_text(written)
    (files / "good").write_text("15496")
    ran = run("decode", "-t", "gpt2", "bad", "good")
    assert ran == Ran(1, b"Hello", f"toktier: bad: {message}\n")


def test_ids_in_arguments_that_are_none(run: Run, files: Path) -> None:
    advice = "is not a token id; ids are whole numbers, separated by white space or commas"
    assert run("decode", "1", "-1") == Ran(1, b"", f"toktier: '-1' {advice}\n")
    assert run("decode", "12x") == Ran(1, b"", f"toktier: '12x' {advice}\n")
    assert run("decode", "ids.txt") == Ran(1, b"", "toktier: ids.txt: No such file or directory\n")
    ran = run("decode", "1", "b.txt")
    assert ran.status == 2
    assert ran.err.startswith("toktier decode: '1' is an id and 'b.txt' is a file: give one or the other")


_words = st.lists(st.integers(0, 2**32 - 1).map(str), max_size=8)
_separators = st.sampled_from([" ", "\n", ", ", "\t", "\r\n"])


@given(_words, _separators, st.booleans(), st.lists(st.integers(0, 100), max_size=6))
def test_ids_do_not_depend_on_how_they_arrive(
    words: list[str], separator: str, listed: bool, cuts: list[int]
) -> None:
    data = separator.join(words).encode()
    data = b"[" + data + b"]" if listed else data
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    blocks = [data[a:b] for a, b in pairwise(edges)]
    assert [id for ids in parse_ids(blocks) for id in ids.tolist()] == list(map(int, words))


@given(st.binary(max_size=12))
def test_anything_else_is_refused(data: bytes) -> None:
    try:
        found = [id for ids in parse_ids([data]) for id in ids.tolist()]
    except TokenIdError:
        return
    words = data.translate(bytes.maketrans(b",[]", b"   ")).decode("ascii").split()
    assert words == [word for word in words if word.isdigit()]
    assert found == list(map(int, words))


# --- inspect and tokenizers -----------------------------------------------------------------


def test_inspect_a_tokenizer(run: Run, files: Path) -> None:
    out = run("inspect", "qwen3").out.decode()
    assert artifact("qwen3").fingerprint in out
    assert "byte-level BPE, 151669 ids" in out
    assert run("inspect", "-t", "qwen3").out.decode() == out
    assert run("inspect").out == run("inspect", "gpt-oss").out
    (about,) = run("inspect", "qwen3", "--json").json
    assert about["fingerprint"] == artifact("qwen3").fingerprint
    assert about["vocabulary"] == 151669
    assert "text" not in about


@pytest.mark.parametrize("name", NAMES)
def test_inspect_a_text(run: Run, name: str) -> None:
    (about,) = run("inspect", name, "--json", TEXT).json
    text = about["text"]
    assert isinstance(text, dict)
    whole = reference(name).encode(TEXT)
    normalizer = reference(name).normalizer
    assert text["normalized"] == (normalizer.normalize_str(TEXT) if normalizer else TEXT)
    assert text["ids"] == whole.ids
    tokens = [token for piece in text["pieces"] for token in piece["tokens"]]
    assert [token["id"] for token in tokens] == whole.ids
    assert bytes.fromhex("".join(token["hex"] for token in tokens)).decode() == text["normalized"]
    assert "".join(piece["text"] for piece in text["pieces"]) == text["normalized"]
    assert [piece["text"] for piece in text["pieces"] if piece["added"]] == ["<|endoftext|>"]
    for piece in text["pieces"]:
        assert text["normalized"][piece["start"] : piece["stop"]] == piece["text"]
    if name == "gpt2":  # its pre-tokenizer is one the reference can show on its own
        plain = "Hello  wörld's 123\r\n\n x"
        (about,) = run("inspect", name, "--json", plain).json
        assert isinstance(about["text"], dict)
        shown = reference(name).pre_tokenizer.pre_tokenize_str(plain)
        assert [(p["start"], p["stop"]) for p in about["text"]["pieces"]] == [span for _, span in shown]


def test_inspect_for_readers(run: Run) -> None:
    out = run("inspect", "-t", "qwen3", "<|im_start|>tokenization e\u0301").out.decode()
    assert "normalized   '<|im_start|>tokenization é'\n" in out
    assert "added tokens '<|im_start|>' at 0\n" in out
    assert "0..12  '<|im_start|>' = 151644  (added token)\n" in out
    assert "12..24  'tokenization' = 5839 'token' + 2022 'ization'\n" in out
    assert run("inspect", "gpt2", "-", stdin=b"Hi").out == run("inspect", "gpt2", "Hi").out
    assert "text         1 character, 1 byte, 1 token\n" in run("inspect", "gpt2", "a").out.decode()
    assert "splitting    1 stage over 14 atoms\n" in run("inspect", "gpt2").out.decode()


def test_inspect_where_only_the_reference_runs(run: Run, files: Path) -> None:
    (files / "tokenizer.json").write_bytes(small.only_the_reference())
    (about,) = run("inspect", "tokenizer.json", "--json", "Hello abba").json
    assert isinstance(about["text"], dict)
    assert about["text"]["ids"] == small.build(small.document(pre_tokenizer=None)).encode("Hello abba").ids
    assert about["text"]["pieces"] is None
    out = run("inspect", "tokenizer.json", "Hello abba").out.decode()
    assert "not known: the reference does not show them" in out


def test_tokens_that_are_marks_are_shown(run: Run, files: Path) -> None:
    """Decoded one by one they would be nothing."""
    pieces = ["<unk>", "\u2581", "\u2581na", "x", "y"]
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    model = {"type": "Unigram", "unk_id": 0, "vocab": [[piece, -1.0] for piece in pieces], "byte_fallback": False}
    document = small.document(model=model, pre_tokenizer=metaspace, decoder=metaspace)
    (files / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    out = run("inspect", "tokenizer.json", "na xy").out.decode()
    assert "'\u2581xy' = 1 '\u2581' + 3 'x' + 4 'y'\n" in out
    assert (
        "2   0..2        0..2   '\u2581na'\n"
        in run("encode", "--offsets", "-t", "tokenizer.json", stdin=b"na").out.decode()
    )


def test_inspect_says_what_is_wrong(run: Run, files: Path) -> None:
    ran = run("inspect", "Hello world")
    assert ran.status == 2
    assert ran.err.endswith("To inspect a text, name the tokenizer first: toktier inspect gpt-oss TEXT\n")
    (files / "a text").write_text("Hello world")
    ran = run("inspect", "a text")
    assert ran.status == 2
    assert "it is another kind of file" in ran.err
    assert ran.err.endswith("name the tokenizer first: toktier inspect gpt-oss - < 'a text'\n")
    (files / "tokenizer.json").write_text('{"model": ')
    assert run("inspect", "tokenizer.json").err.endswith("copy or download it again\n")
    ran = run("inspect", "gpt2", "Hello", "world")
    assert ran.status == 2
    assert "a tokenizer and one text at most, but there is also 'world' (quote the text)" in ran.err
    ran = run("inspect", "-t", "gpt2", "Hello", "world")
    assert "inspect: one text at most, but there is also 'world' (quote the text)" in ran.err
    assert run("inspect", "gpt2", "-", stdin=b"\xff").err.startswith("toktier: standard input: not UTF-8")
    assert run("inspect", "gpt2", os.fsdecode(b"a\xff")).err.startswith(
        "toktier: TEXT: not UTF-8: byte 0xff at offset 1"
    )


def test_tokenizers(run: Run) -> None:
    rows = run("tokenizers", "--json").json
    assert [row["name"] for row in rows] == list(embedded_names())
    for row in rows:
        name = str(row["name"])
        assert row["fingerprint"] == artifact(name).fingerprint
        assert row["vocabulary"] == max(reference(name).get_vocab().values()) + 1
        assert row["licence"] == LICENCES[name]
        assert row["default"] == (name == "gpt-oss")
    lines = [line.split("\t") for line in run("tokenizers").out.decode().splitlines()]
    keys = ["name", "vocabulary", "model", "licence", "fingerprint"]
    assert lines == [keys, *([str(row[key]) for key in keys] for row in rows)]


@pytest.mark.parametrize(("width", "titles"), [(80, 5), (60, 4), (24, 1)])
def test_tokenizers_on_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int, titles: int) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    written = io.BytesIO()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", Terminal(written, "utf-8"))
    assert main(["tokenizers"]) == 0
    lines = written.getvalue().decode().splitlines()
    assert max(map(len, lines)) <= width
    assert len(re.split(" {2,}", lines[0])) == titles
    assert lines[2].startswith("gpt-oss (default)")


# --- the command line itself ------------------------------------------------------------------


def test_backends_are_those_of_the_package() -> None:
    assert BACKENDS == TOKENIZER_BACKENDS


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["encode", "--bakend", "numpy"], 2, "toktier encode: unrecognized arguments: --bakend"),
        (["encode", "--backend", "cuda"], 2, "toktier encode: argument --backend: invalid choice: 'cuda'"),
        (["encode", "--jobs", "0"], 2, "toktier encode: argument --jobs: '0' is not a whole number of 1 or more"),
        (
            ["encode", "--jobs", "-1"],
            2,
            "toktier encode: argument --jobs: '-1' is not a whole number of 1 or more",
        ),
        (["count", "--limit", "-1"], 2, "toktier count: argument --limit: '-1' is not a whole number"),
        (["encode", "--max-length", f"{2**64}"], 2, "toktier encode: argument --max-length: it must be below"),
        (["encode", "-", "-"], 2, "toktier encode: standard input can be read only once"),
        (["tokenizers", "gpt2"], 2, "toktier tokenizers: unrecognized arguments: gpt2"),
        (["tokenizers", "--", "gpt2"], 2, "toktier tokenizers: there is nothing to do with 'gpt2'"),
        (["decode", "--bytes", "--json"], 2, "toktier decode: argument --json: not allowed with argument --bytes"),
        (["enc"], 2, "toktier: argument COMMAND: invalid choice: 'enc'"),
        (["encode", "-t", "qwen4"], 2, "toktier: there is no tokenizer 'qwen4'"),
        (["encode", "-t", "b.txt"], 2, "toktier: b.txt is not valid JSON"),
        (["encode", "-t", "empty.txt"], 2, "toktier: empty.txt is empty"),
    ],
)
def test_one_line_says_what_is_wrong(run: Run, files: Path, argv: list[str], status: int, message: str) -> None:
    ran = run(*argv)
    assert (ran.status, ran.out) == (status, b"")
    assert ran.err.startswith(message)
    assert ran.err.count("\n") == 1


def test_near_names_are_proposed(run: Run) -> None:
    assert "Did you mean 'qwen3'?" in run("encode", "-t", "qwen4").err


def test_a_backend_that_cannot_run_the_tokenizer(run: Run, files: Path) -> None:
    (files / "tokenizer.json").write_bytes(small.only_the_reference())
    ran = run("encode", "-t", "tokenizer.json", "--backend", "numpy", "b.txt")
    assert ran.status == 2
    assert ran.err.endswith("use --backend auto or reference\n")


def test_a_backend_whose_package_is_missing(run: Run, files: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "jax", None)
        ran = run("encode", "--backend", "jax", "a.txt", "b.txt")
    assert (ran.status, ran.out) == (2, b"")
    assert ran.err.startswith("toktier: the jax backend needs JAX") and ran.err.count("\n") == 1


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help(run: Run, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = run(*command, "--help")
    assert (ran.status, ran.err) == (0, "")
    assert b"example" in ran.out
    assert b"exit status:" in ran.out
    assert max(map(len, ran.out.decode().splitlines())) <= 80
    assert (b"--limit" in ran.out) == (b"  3    " in ran.out) == (command == ["count"])
    assert (b"an input could not be" in ran.out) == (command not in (["certify"], ["tokenizers"]))


@pytest.mark.parametrize("command", ["encode", "count"])
@pytest.mark.parametrize("text", ["Hello, world", "two\nlines", "long " * 2000])
def test_a_text_where_a_file_belongs(run: Run, command: str, text: str) -> None:
    ran = run(command, text)
    assert (ran.status, ran.out) == (1, b"")
    assert ran.err.endswith(f"; a text comes from standard input: echo TEXT | toktier {command}\n")
    assert ran.err.count("\n") == 1 and len(ran.err) < 300


def test_without_a_command(run: Run) -> None:
    ran = run()
    assert (ran.status, ran.out) == (2, b"")
    assert ran.err.startswith("usage: toktier")


# --- as a program -----------------------------------------------------------------------------


def test_module_and_pipes(files: Path) -> None:
    encoded = subprocess.run(program("encode", "a.txt"), cwd=files, capture_output=True)
    assert (encoded.returncode, encoded.stdout, encoded.stderr) == (0, line(right_ids("gpt-oss")), b"")
    decoded = subprocess.run(program("decode", "--keep-special-tokens"), input=encoded.stdout, capture_output=True)
    assert (decoded.returncode, decoded.stdout, decoded.stderr) == (0, TEXT.encode(), b"")
    failed = subprocess.run(program("encode", "latin.txt"), cwd=files, capture_output=True)
    assert (failed.returncode, failed.stdout) == (1, b"")
    version = subprocess.run(program("--version"), capture_output=True)
    assert version.stdout.startswith(b"toktier ")


def test_output_is_utf8_whatever_the_locale(files: Path) -> None:
    ids = line(right_ids("gpt-oss"))
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ran = subprocess.run(
        program("decode", "--keep-special-tokens"), input=ids, capture_output=True, env=environment
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, TEXT.encode(), b"")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom toktier.cli import main\n"
        "try: main(['encode', '--help'])\n"
        "finally: print({'numpy', 'tokenizers', 'regex', 'rich', 'jax'} & set(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert (ran.returncode, ran.stderr.strip()) == (0, b"set()")


@POSIX
def test_decode_streams(files: Path) -> None:
    with subprocess.Popen(
        program("decode", "-t", "gpt2"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdin
        assert running.stdout
        running.stdin.write(b"15496 ")
        running.stdin.flush()
        assert select.select([running.stdout], [], [], 60)[0]
        assert os.read(running.stdout.fileno(), 100) == b"Hello"
        running.stdin.write(b"11 99")
        running.stdin.close()
        assert running.stdout.read() == reference("gpt2").decode([11, 99]).encode()


@POSIX
def test_a_reader_that_has_had_enough(files: Path) -> None:
    with subprocess.Popen(
        program("encode", *["a.txt"] * 20), cwd=files, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout
        assert running.stderr
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 141


@POSIX
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk(files: Path) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(program("encode", "a.txt"), cwd=files, stdout=full, stderr=subprocess.PIPE)
    assert (ran.returncode, ran.stderr) == (1, b"toktier: standard output: No space left on device\n")


@POSIX
@pytest.mark.parametrize("command", [["decode", "-t", "gpt2"], ["encode", "-t", "gpt2", "b.txt", "-"]])
def test_interrupted(files: Path, command: list[str]) -> None:
    # Whoever runs the tests in the background may ignore the signal, and that is inherited.
    with subprocess.Popen(
        program(*command),
        cwd=files,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        assert running.stdin
        assert running.stdout
        assert running.stderr
        running.stdin.write(b"15496 ")
        running.stdin.flush()
        assert os.read(running.stdout.fileno(), 100) in (b"Hello", b"15496 11 995\n")
        running.send_signal(signal.SIGINT)  # while it waits for more
        assert running.wait(60) == 130
        assert running.stderr.read() == b""


@POSIX
@pytest.mark.parametrize("module", ["shutil", "datetime"])
def test_interrupted_at_first(module: str) -> None:
    """In argparse, and while numpy is loaded, which makes an ImportError of what went wrong."""
    code = f"""
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}" and "toktier.cli" in sys.modules:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            finally:
                raise ImportError("something else")
signal.signal(signal.SIGINT, signal.default_int_handler)
from toktier.cli import main
sys.modules.pop("{module}", None)
sys.meta_path.insert(0, Finder())
sys.argv = ["toktier", "count"]
sys.exit(main())
"""
    ran = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True)
    assert (ran.returncode, ran.stderr) == (130, b"")


def on_terminal(command: list[str], until: bytes, seconds: float, folder: Path) -> tuple[bytes, bytes]:
    """What a command that waits for input shows on a terminal, before and after it gets it, and its output."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment,
    ) as running:
        os.close(theirs)
        shown = b""
        end = time.monotonic() + seconds
        while until not in shown and time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 65536)
        out, _ = running.communicate(b"Hello, world")
    try:
        while rest := os.read(ours, 65536):
            shown += rest
    except OSError:  # how Linux tells the end
        pass
    os.close(ours)
    return shown, out


@POSIX
def test_bar_on_a_terminal(files: Path) -> None:
    pytest.importorskip("rich", reason="the bar needs the optional package rich")
    shown, out = on_terminal(program("encode", "-t", "gpt2", "b.txt", "-"), b"1 of 2 files", 60, files)
    assert b"toktier encode: 1 of 2 files" in shown
    assert shown.endswith(b"\x1b[2K")  # its line is cleared
    assert out == 2 * line(reference("gpt2").encode("Hello, world").ids)


@pytest.mark.parametrize(("typed", "names", "shown"), [(True, "-", False), (True, "a", True), (False, "-", True)])
def test_no_bar_where_somebody_types(
    monkeypatch: pytest.MonkeyPatch, typed: bool, names: str, shown: bool
) -> None:
    pytest.importorskip("rich", reason="the bar needs the optional package rich")
    monkeypatch.setattr(sys, "stdin", stream := io.StringIO())
    monkeypatch.setattr(stream, "isatty", lambda: typed)
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    monkeypatch.setattr(stream, "isatty", lambda: True)
    with at_work.Bar("toktier encode", names) as bar:
        monkeypatch.setattr(at_work, "_BAR_AFTER", 0)
        bar.tick()
        assert (bar._shown is not None) == shown


@POSIX
def test_no_bar_without_rich(files: Path) -> None:
    code = "import sys; sys.modules['rich'] = None; from toktier.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "encode", "-t", "gpt2", "-"]
    shown, out = on_terminal(command, b"never", 4, files)
    assert shown == b""
    assert out == line(reference("gpt2").encode("Hello, world").ids)
