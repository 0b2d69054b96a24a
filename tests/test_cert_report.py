"""What is told of certificates: reports, pairs and traces, from Python and on the command line."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small
from certified import judge, piece_starts
from conftest import ROOT, artifact, parsed, tokenizers
from judge import engine

from toktier.artifact import Artifact
from toktier.certificates import certify, certify_pair, trace
from toktier.certificates.barriers import mergeable
from toktier.cli import main
from toktier.cli.certificates import columns, shown
from toktier.errors import OptionError
from toktier.registry import embedded_names
from toktier.tokenizer import Tokenizer

OTHERS = ("llama2", "bert_uncased", "xlm_roberta")


def run(capture: pytest.MonkeyPatch, *argv: str, width: int = 80, stdin: bytes = b"") -> tuple[int, str, str]:
    """Exit status, output and messages of a command line, on a terminal of some width."""
    streams = [io.TextIOWrapper(io.BytesIO(data), "utf-8") for data in (stdin, b"", b"")]
    with capture.context() as patch:
        patch.setenv("COLUMNS", str(width))
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        try:
            status = main(argv)
        except SystemExit as end:
            status = int(end.code or 0)
    written = []
    for stream in streams[1:]:
        stream.flush()
        assert isinstance(stream.buffer, io.BytesIO)
        written.append(stream.buffer.getvalue().decode())
    return status, written[0], written[1]


def path_of(name: str, folder: Path) -> str:
    """What the command line calls a tokenizer, the same at every call, so that it is loaded once."""
    if name in embedded_names():
        return name
    path = folder / f"{name}.json"
    if not path.exists():
        path.write_bytes(artifact(name).read())
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokenizers")


# --- the whole ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", "gpt-oss", "deepseek-v3", "bert_uncased"))
def test_a_report_is_the_certificate(name: str) -> None:
    tok = engine(name)
    certificate, report = tok._compiled.certificate, certify(tok)
    assert report.kind == "stages" and report.refusal is None
    assert (report.restarts, report.closes) == (certificate.restarts.sum(), certificate.closes.sum())
    assert "".join(report.relation).count("C") == report.closes
    assert sum(atom.size for atom in report.atoms) == 0x110000 - 0x800
    for atom in report.atoms:
        assert atom.examples and len(set(atom.examples)) == len(atom.examples) <= atom.size
        assert {int(certificate.atom_of[ord(char)]) for char in atom.examples} == {atom.number}
    for a, row in enumerate(report.relation):
        for b, letter in enumerate(row):
            assert (letter == "C") == certificate.closes[a, b]
            assert (letter != "-") == certificate.restarts[a, b]
    assert sum(len(component.machines) for component in report.components) >= 1
    assert report.added_tokens is not None
    assert report.added_tokens.given + report.added_tokens.normalized == len(judge(name).words)
    json.dumps(report.as_dict())


def test_a_report_of_stages_in_a_row() -> None:
    report = certify(engine("deepseek-v3"))
    assert [len(component.machines) for component in report.components] == [1, 1, 1, 0]
    assert report.components[0].pattern == r"\p{N}{1,3}"
    assert report.components[3].description == "ByteLevel" and report.components[3].pattern is None


@pytest.mark.parametrize("name", tokenizers("llama2"))
def test_a_report_of_barriers(name: str) -> None:
    report = certify(engine(name))
    assert report.kind == "barriers" and report.atoms == () and report.relation == ()
    vocabulary = judge(name).whole.get_vocab(with_added_tokens=False)
    merges = parsed(name)["model"]["merges"]
    made = {"".join(rule.split(" ") if isinstance(rule, str) else rule) for rule in merges}
    assert made <= set(mergeable(vocabulary)) and "<0x11>" not in set(mergeable(vocabulary))
    pairs = {token[i : i + 2] for token in mergeable(vocabulary) for i in range(len(token) - 1)}
    assert {before + char for before, behind in report.tokens_join.items() for char in behind} == pairs
    assert report.normalizer is not None
    assert report.normalizer.prefix and report.normalizer.replaced == ((" ", "\u2581"),)


def test_a_report_of_a_refusal() -> None:
    document = small.document()
    document["pre_tokenizer"] = document["pre_tokenizer"] | {"use_regex": True}
    document["model"] = document["model"] | {"dropout": 0.1}
    tok = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made"))
    report = certify(tok)
    assert report.refusal is not None and report.refusal == tok._cuts.refusal
    assert report.kind is None and report.components
    found = certify_pair(tok, "a", " ")
    assert not found.restarts and found.witness is None
    assert found.reasons == (f"no pair of this tokenizer is: {report.refusal}",)


@pytest.mark.parametrize("options", [(), ("--witness", "a", "space"), ("--json",)])
def test_a_refusal_is_an_answer(options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(small.document(pre_tokenizer=None)))
    status, out, err = run(monkeypatch, "certify", str(file), *options)
    assert (status, err) == (0, "") and "no token for" in out


def test_guards_in_a_report() -> None:
    first = len(small.vocabulary())
    tokens = [
        small.added("<x>", first, "special", "lstrip"),
        small.added("é b", first + 1, "normalized"),
        small.added("it", first + 2, "single_word", "rstrip"),
    ]
    stage = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    document = small.document(pre_tokenizer=stage, normalizer={"type": "NFC"}, added_tokens=tokens)
    report = certify(Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made")))
    guard = report.added_tokens
    assert guard is not None and report.normalizer is not None
    assert (guard.given, guard.normalized, guard.longest) == (2, 1, 3)
    assert (guard.single_word, guard.lstrip, guard.rstrip) == (1, 1, 1)
    assert guard.looked_at == ("<x", "it", "x>") and guard.never_cut == (" b", "é ")
    assert report.normalizer.steps == ("NFC",) and report.normalizer.forbidden > 1_000


# --- pairs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", "llama2", "bert_uncased"))
def test_pairs_are_as_certified(name: str) -> None:
    """A pair that is certified without a condition is cut in a text of the two; others say why not."""
    tok = engine(name)
    for before in "a1 \n\t'.\u0301中<A":
        for behind in "b1 \n'é中|A":
            found = certify_pair(tok, before, behind)
            text = before + behind
            assert found.restarts or not found.closes
            if not found.unless:
                assert (1 in tok._cuts.all(text)) == found.restarts
                assert (1 in tok._cuts.all(text, True)) == found.closes
            else:
                assert found.restarts
            if not found.closes:
                assert found.witness is not None or found.reasons
            if found.witness is not None:
                assert found.witness.confirmed
                assert found.witness.pieces[0][0] == found.witness.x + found.witness.y


_SPACED = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
_MARKED = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}


@pytest.mark.parametrize(
    "part",
    [_SPACED, {"type": "Sequence", "pretokenizers": [_SPACED]}, _MARKED, _MARKED | {"prepend_scheme": "first"}],
)
def test_witnesses_where_texts_get_a_mark(part: dict[str, Any]) -> None:
    """What is on the right of a cut gets none, so neither does it before the reference."""
    tok = Tokenizer(Artifact.from_bytes(json.dumps(small.document(pre_tokenizer=part)).encode(), "made"))
    found = [certify_pair(tok, before, behind) for before in "a1 \n\t'.\u2581" for behind in "s1 \n'.\u2581"]
    witnesses = [pair.witness for pair in found if pair.witness is not None]
    assert witnesses and all(witness.confirmed for witness in witnesses)


def test_a_witness_with_the_characters_that_were_asked_about() -> None:
    found = certify_pair(engine("gpt2"), "\n", "q")
    assert found.restarts and not found.closes and found.witness is not None
    assert (found.witness.kind, found.witness.x[-1], found.witness.y) == ("end of text", "\n", "q")
    by = piece_starts(judge("gpt2").whole.pre_tokenizer)
    assert by(found.witness.x + found.witness.y) != [*by(found.witness.x), len(found.witness.x)]


def test_conditions_of_pairs() -> None:
    found = certify_pair(engine("qwen3"), ">", "\n")
    assert not found.restarts and found.witness is not None  # "\n" is the tail of the piece before it
    found = certify_pair(engine("qwen3"), "m", "_")
    assert found.closes and "the added token '<|im_start|>' lies across it" in found.unless


@pytest.mark.parametrize("pair", [("", "a"), ("ab", "c"), ("a", "\ud800")])
def test_what_is_no_pair(pair: tuple[str, str]) -> None:
    with pytest.raises(OptionError, match="a pair is two characters"):
        certify_pair(engine("gpt2"), *pair)


# --- traces ---------------------------------------------------------------------------------------

TRACED = "It's  12<|im_start|>34\r\n\n e\u0301 中文\t<|im_end|> x"


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", "gpt-oss", "deepseek-v3"))
def test_a_trace_begins_pieces_where_the_engines_do(name: str) -> None:
    tok = engine(name)
    normal, starts = tok.piece_starts(TRACED)
    steps = trace(tok, TRACED)
    assert "".join(step.char for step in steps) == normal
    assert [step.position for step in steps] == list(range(len(normal)))
    assert [step.position for step in steps if step.begins] == starts.tolist()
    for step in steps:
        assert (step.atom is None) == (step.walk == ()) == (step.oracle == ())
        if step.atom is not None:
            assert tok._compiled.certificate.atom_of[ord(step.char)] == step.atom


@pytest.mark.parametrize("name", tokenizers("bert_uncased"))
def test_a_trace_of_pieces_that_leave_white_space_out(name: str) -> None:
    text = "It's Unaffable,  yes."
    normal = judge(name).whole.normalizer.normalize_str(text)
    steps = trace(engine(name), text)
    shown_pieces = piece_starts(judge(name).whole.pre_tokenizer)(normal)
    begun = [step.position for step in steps if step.begins and not step.char.isspace()]
    assert begun == shown_pieces and all(len(step.walk) == 1 for step in steps)


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", "llama2"))
def test_cuts_in_a_trace(name: str) -> None:
    tok = engine(name)
    steps = trace(tok, TRACED)
    closing = tok.cuts(TRACED, closes=True)
    assert sum(step.cut == "closes" for step in steps) == len(closing)
    assert sum(step.cut is not None for step in steps) == len(tok.cuts(TRACED))
    if name == "qwen3":  # é is one character in the normalized text
        at = TRACED.index("\t")
        assert at in closing and steps[at - 1].cut == "closes"


# --- on the command line ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", *OTHERS))
@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit_the_terminal(name: str, width: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    tokenizer = path_of(name, folder)
    for argv in (["certify", tokenizer], ["inspect", tokenizer, "--trace", "It's  12"]):
        status, out, err = run(monkeypatch, *argv, width=width)
        assert (status, err) == (0, "")
        too_long = [line for line in out.splitlines() if columns(line) > width]
        assert not [line for line in too_long if " " in line.strip()[15:]], too_long


def test_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run(monkeypatch, "certify", "gpt2")
    report = certify(engine("gpt2"))
    rows = out.splitlines()[-len(report.atoms) :]
    signs = str.maketrans({"●": "C", "○": "R", "·": "-"})
    assert [row[12:].translate(signs).replace(" ", "") for row in rows] == list(report.relation)
    assert f"{report.restarts} of 196 pairs of atoms restart, {report.closes} of them close" in out
    narrow = run(monkeypatch, "certify", "gpt-oss", width=60)[1].splitlines()
    assert max(map(columns, narrow)) <= 60
    wide = [line for line in narrow if line.startswith("  26  ")]
    assert len(wide) == 3  # of the list of atoms and of two blocks of the grid


def test_a_report_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run(monkeypatch, "certify", "-t", "gpt2", "--json")
    assert json.loads(out) == json.loads(json.dumps(certify(engine("gpt2")).as_dict()))
    _, out, _ = run(monkeypatch, "certify", "gpt2", "--json", "--witness", r"\t", "a")
    about = json.loads(out)
    assert about["fingerprint"] == engine("gpt2").fingerprint
    assert about["pair"] == json.loads(json.dumps(certify_pair(engine("gpt2"), "\t", "a").as_dict()))


@pytest.mark.parametrize("before", ["\t", r"\t", "U+0009", "\\x09", "atom:0"])
def test_ways_to_write_a_character(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = run(monkeypatch, "certify", "gpt2", "--witness", before, "x")
    assert status == 0
    assert "pair          \\t | x\n" in out
    assert "witness       '\\n\\tx' is not cut inside '\\n\\t' as '\\n\\t' alone is\n" in out
    assert "reference     '\\n\\tx' = '\\n' + '\\t' + 'x'\n" in out
    assert "confirmed on the reference" in out


def test_a_pair_that_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run(monkeypatch, "certify", "gpt2", "--witness", "x", "space")
    assert "closes: both sides may be encoded as texts of their own" in out and "witness" not in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["certify", "gpt2", "qwen3"], "there is also 'qwen3'"),
        (["certify", "gpt2", "--witness", "ab", "c"], "'ab' is not one character"),
        (["certify", "gpt2", "--witness", "a", "atom:99"], "there is no atom 99; gpt2 has 14"),
        (["certify", "gpt2", "--witness", "a"], "expected 2 arguments"),
        (["certify", "nobody"], "there is no tokenizer 'nobody'"),
        (["inspect", "gpt2", "one", "--trace", "two"], "one text at most, but there are 'one' and --trace 'two'"),
    ],
)
def test_what_is_wrong(argv: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, err = run(monkeypatch, *argv)
    assert (status, out) == (2, "") and message in err and err.count("\n") == 1


def test_a_trace_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run(monkeypatch, "inspect", "gpt2", "--trace", "it's 1")
    lines = out.splitlines()
    assert lines[0].split() == ["at", "char", "atom", "stage", "1", "piece", "cut"]
    assert [line.split()[1] for line in lines[1:7]] == ["i", "t", "'", "s", "space", "1"]
    assert lines[3].endswith("begins  ● closes")
    assert run(monkeypatch, "inspect", "gpt2", "--trace", "-", stdin=b"it's 1")[1] == out
    _, out, _ = run(monkeypatch, "inspect", "gpt2", "--trace", "it's 1", "--json")
    assert json.loads(out)["trace"] == json.loads(
        json.dumps([s.as_dict() for s in trace(engine("gpt2"), "it's 1")])
    )
    status, _, err = run(monkeypatch, "inspect", "gpt2", "--trace", "-", stdin=b"\xff")
    assert status == 1 and "standard input: not UTF-8" in err
    assert run(monkeypatch, "inspect", "gpt2", "--trace", "")[0] == 0


def test_help(monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, err = run(monkeypatch, "certify", "--help")
    assert (status, err) == (0, "") and "examples:" in out and "atom:3" in out


def test_the_page_shows_what_the_commands_print(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8")
    for argv in (["certify", "gpt2"], ["certify", "gpt2", "--witness", r"\t", "a"]):
        assert run(monkeypatch, *argv)[1] in page
    assert run(monkeypatch, "inspect", "gpt2", "--trace", "it's  12345  ok")[1] in page
    text = "\tHello there,\n\nit's 12 o'clock."
    assert repr(engine("gpt2").cuts(text)) in page and repr(engine("gpt2").cuts(text, closes=True)) in page


def test_characters_on_a_terminal() -> None:
    assert [shown(char) for char in "a \n\u0301\xa0中\x00"] == [
        "a",
        "space",
        "\\n",
        "◌\u0301",
        "U+00A0",
        "中",
        "U+0000",
    ]
    assert [columns(text) for text in ("abc", "中文", "◌\u0301")] == [3, 4, 1]
    assert np.all([columns(shown(chr(code))) <= 8 for code in range(0, 0xD800, 7)])
