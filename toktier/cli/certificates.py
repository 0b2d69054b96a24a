"""Certificates and traces, as lines for people to read."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from ..certificates.report import Atom, PairReport, Report, Shown, certify, certify_pair
from ..certificates.tracing import Step, trace
from ..errors import OptionError
from ..explanation import counted
from ..tokenizer import Tokenizer

__all__ = ["certified", "pair", "trace", "trace_lines"]

_LABEL = 13
_SIGNS = {"C": "●", "R": "○", "-": "·", "closes": "●", "restarts": "○", None: ""}
_LEGEND = "● closes   ○ restarts only   · neither"
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\f": "\\f"}
_PICTURES = {" ": "␠", "\n": "␊", "\r": "␍", "\t": "␉"}
_MOST_SHOWN = 10


def certified(tokenizer: Tokenizer) -> tuple[dict[str, Any], list[str]]:
    """A tokenizer's certificate: for JSON, and as lines."""
    report = certify(tokenizer)
    return report.as_dict(), _report_lines(report, _width())


def _width() -> int:
    return max(60, shutil.get_terminal_size().columns)


def _report_lines(report: Report, width: int) -> list[str]:
    lines = _field("tokenizer", f"{report.name}, {report.fingerprint[:12]}", width)
    lines += _field("reference", f"tokenizers {report.tokenizers_version}", width)
    if report.refusal is not None:
        lines += _field("certificate", f"refused: {report.refusal}", width)
    elif report.kind == "barriers":
        joined = sum(map(len, report.tokens_join.values()))
        what = f"barriers: all pairs of characters close, but {joined:,} that tokens join"
        lines += _field("certificate", what, width)
    else:
        total = len(report.atoms) ** 2
        what = f"{report.restarts} of {total} pairs of atoms restart, {report.closes} of them close"
        lines += _field("certificate", f"{what}; a position has one of {report.states:,} states", width)
    stage = 0
    for component in report.components:
        sizes = [f"{walk} × {oracle}" for walk, oracle in component.machines]
        numbers = " and ".join(str(stage + i + 1) for i in range(len(sizes)))
        stage += len(sizes)
        known = f"stage{'s' if len(sizes) > 1 else ''} {numbers} ({', '.join(sizes)} states): " if sizes else ""
        rest = ", which cuts nothing" if not sizes and report.refusal is None else ""
        lines += _field("pre-tokenizer", f"{known}{component.description}{rest}", width)
        if component.pattern is not None:
            lines += _verbatim(component.pattern, width)
    if not report.components:
        lines += _field("pre-tokenizer", "none: the model sees the whole text as one piece", width)
    lines += _guard_lines(report, width)
    if report.kind == "barriers":
        lines += ["", *_barrier_lines(report.tokens_join, width)]
    if report.atoms:
        lines += ["", *_atom_lines(report.atoms, width), "", *_grid(report.atoms, report.relation, width)]
    return lines


def _guard_lines(report: Report, width: int) -> list[str]:
    lines = []
    guard = report.normalizer
    if guard is not None:
        what = ", ".join(guard.steps) or "none"
        if guard.forbidden:
            what += f"; no cut beside {guard.forbidden:,} characters: {_listed(guard.examples)}"
        if guard.replaced:
            some = ", ".join(f"{shown(old)} → {shown(new)}" for old, new in guard.replaced[:6])
            more = f" and {len(guard.replaced) - 6:,} more" if len(guard.replaced) > 6 else ""
            what += f"; seen as another character: {some}{more}"
        if guard.prefix:
            what += "; what goes on from a cut gets no prefix"
        lines += _field("normalizer", what, width)
    tokens = report.added_tokens
    if tokens is not None:
        longest = counted(tokens.longest, "character")
        parts = [f"{tokens.given + tokens.normalized:,}, of up to {longest}"]
        if tokens.looked_at:
            pairs = counted(len(tokens.looked_at), "pair")
            parts.append(f"at {pairs} of characters a cut depends on the text around it")
        if tokens.never_cut:
            pairs = counted(len(tokens.never_cut), "pair")
            parts.append(f"nor is there a cut at {pairs} that tokens of the normalized text have inside")
        flags = ("single_word", "lstrip", "rstrip")
        parts += [f"{getattr(tokens, flag)} with {flag}" for flag in flags if getattr(tokens, flag)]
        count = tokens.given + tokens.normalized
        lines += _field("added tokens", "; ".join(parts) if count else "none", width)
    return lines


def _field(label: str, value: str, width: int) -> list[str]:
    """A label, and words in as many lines as they take."""
    lines = [f"{label:{_LABEL}}"]
    for word in value.split():
        if columns(lines[-1]) + 1 + columns(word) > width and lines[-1].strip() != label:
            lines.append(" " * _LABEL)
        lines[-1] += f" {word}"
    return lines


def _verbatim(pattern: str, width: int) -> list[str]:
    """A pattern over as many lines as it takes, to be read without their breaks."""
    lines, line = [], ""
    for char in pattern:
        word = char if char == " " or (not char.isspace() and char.isprintable()) else shown(char)
        # no line ends with a space, which would not be seen
        while columns(line) + columns(word) > width - _LABEL - 1:
            cut = len(line.rstrip(" ")) or len(line)
            lines.append(line[:cut])
            line = line[cut:]
        line += word
    return [f"{'':{_LABEL}} {part}" for part in [*lines, line]]


def _barrier_lines(joined: dict[str, str] | Any, width: int) -> list[str]:
    """Which ASCII characters and word marks are joined to what."""
    lines = ["pairs that are not cut, by the character before (of the normalized text):"]
    busy = sorted(joined.items(), key=lambda item: (-len(item[1]), item[0]))
    for before, behind in busy[:_MOST_SHOWN]:
        lines += _field(f"  {shown(before)}", f"{len(behind):>5,} behind: {_listed(behind[:24])}", width)
    if len(busy) > _MOST_SHOWN:
        lines.append(f"  and {len(busy) - _MOST_SHOWN:,} more; --json lists them all")
    mark = "\u2581"
    before_mark = [before for before, behind in joined.items() if mark in behind]
    if any(mark in behind for behind in joined.values()) or mark in joined:
        text = _listed(before_mark) if before_mark else "none"
        lines += ["", f"characters with no cut before a word mark {mark} (a space): {text}"]
    return lines


def _atom_lines(atoms: Sequence[Atom], width: int) -> list[str]:
    lines = ["atom  characters  such as"]
    for atom in atoms:
        line = f"{atom.number:>4}  {atom.size:>10,}  "
        for example in atom.examples:
            word = f"{shown(example)} "
            if columns(line) + columns(word) > width:
                break
            line += word
        lines.append(line.rstrip())
    return lines


def _grid(atoms: Sequence[Atom], relation: Sequence[str], width: int) -> list[str]:
    """The relation; in blocks of columns if it is too wide."""
    fit = max(1, (width - 12) // 2)
    lines = ["rows: the atom before the cut; columns: the one behind it", _LEGEND]
    for first in range(0, len(atoms), fit):
        block = atoms[first : first + fit]
        head = [
            "".join(f"{atom.number // 10 or '':>2}" for atom in block),
            "".join(f"{atom.number % 10:>2}" for atom in block),
            "".join(_cell(_sign(atom)) for atom in block),
        ]
        lines.append("")
        lines += [f"{'':12}{line}".rstrip() for line in head if line.strip()]
        for atom, row in zip(atoms, relation, strict=True):
            cells = "".join(f" {_SIGNS[letter]}" for letter in row[first : first + fit])
            label = shown(atom.examples[0]) if atom.examples else ""
            lines.append(f"{atom.number:>4}  {_padded(label, 6)}{cells}")
    return lines


def _sign(atom: Atom) -> str:
    """One column that stands for an atom; empty if no character of it can be shown in one or two."""
    for example in atom.examples[:1]:
        if example in _PICTURES:
            return _PICTURES[example]
        if example.isprintable() and not unicodedata.combining(example) and columns(example) > 0:
            return example
    return ""


def _cell(sign: str) -> str:
    return " " * (2 - columns(sign)) + sign


# --- one pair -------------------------------------------------------------------------------------


def pair(tokenizer: Tokenizer, before: str, behind: str) -> tuple[dict[str, Any], list[str]]:
    """What is certified between two characters: for JSON, and as lines."""
    report = None
    if before.startswith("atom:") or behind.startswith("atom:"):
        report = certify(tokenizer)
    found = certify_pair(tokenizer, _character(before, report), _character(behind, report))
    about = {"name": tokenizer.name, "fingerprint": tokenizer.fingerprint, "pair": found.as_dict()}
    return about, _pair_lines(found, _width())


def _character(given: str, report: Report | None) -> str:
    """A character from the command line."""
    if len(given) == 1:
        return given
    for char, escape in _ESCAPES.items():
        if given == escape:
            return char
    if given == "space":
        return " "
    code = re.fullmatch(r"(?:U\+|\\u|\\x|0x)([0-9A-Fa-f]{1,6})", given)
    if code is not None and int(code[1], 16) < 0x110000:
        return chr(int(code[1], 16))
    number = re.fullmatch(r"atom:(\d{1,3})", given)
    if number is not None and report is not None:
        if int(number[1]) < len(report.atoms):
            return report.atoms[int(number[1])].examples[0]
        raise OptionError(f"there is no atom {number[1]}; {report.name} has {len(report.atoms)}")
    raise OptionError(
        f"{given!r} is not one character; give it as itself, as \\n or \\t, as U+00E9, or as an atom's, atom:3"
    )


def _pair_lines(found: PairReport, width: int) -> list[str]:
    pair = f"{shown(found.before)} | {shown(found.behind)}"
    if found.closes:
        verdict = "closes: both sides may be encoded as texts of their own"
    elif found.restarts:
        verdict = (
            "restarts: tokenization may start afresh here; but the left side needs the character behind the cut"
        )
    else:
        verdict = "is not certified"
    lines = _field("pair", pair, width)
    if found.atoms is not None:
        lines += _field("atoms", f"{found.atoms[0]} | {found.atoms[1]}", width)
    lines += _field("cut", verdict, width)
    some = found.unless[:4]
    more = [f"and {len(found.unless) - 4:,} more like that"] if len(found.unless) > 4 else []
    for label, texts in (("unless", [*some, *more]), ("because", found.reasons)):
        for text in texts:
            lines += _field(label, text, width)
    if found.witness is not None:
        lines += _witness_lines(found.witness, found.restarts, width)
    return lines


def _witness_lines(witness: Shown, restarts: bool, width: int) -> list[str]:
    lines = _field("witness", witness.sentence, width)
    for text, pieces in witness.pieces:
        lines += _field("reference", f"{text!r} = {' + '.join(map(repr, pieces))}", width)
    word = "confirmed" if witness.confirmed else "not confirmed: it may be that no text shows this"
    return lines + _field("", f"{word} on the reference, just now" if witness.confirmed else word, width)


# --- a trace --------------------------------------------------------------------------------------


def trace_lines(steps: Sequence[Step]) -> list[str]:
    """A table with a row for each character."""
    stages = max((len(step.walk) for step in steps), default=0)
    head = ["at", "char", "atom", *(f"stage {i + 1}" for i in range(stages)), "piece", "cut"]
    if not stages:
        head.remove("atom")
    rows = []
    for step in steps:
        states = [f"{walk}/{oracle}" for walk, oracle in zip(step.walk, step.oracle, strict=True)]
        if stages:
            states = [str(step.atom), *states] if states else ["added", *[""] * stages]
        cut = f"{_SIGNS[step.cut]} {step.cut}" if step.cut else ""
        rows.append([str(step.position), shown(step.char), *states, "begins" if step.begins else "", cut])
    widths = [max(map(columns, column)) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(map(_padded, row, widths)).rstrip() for row in (head, *rows)]
    notes = ["stage: walk state before the character / oracle state at it"] if stages else []
    notes += ["cut: what is certified of a cut before the character", "at: in the normalized text, in characters"]
    return [*lines, "", *notes]


# --- characters on a terminal -----------------------------------------------------------------------


def shown(char: str) -> str:
    """A character in a few columns, whatever it is."""
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char == " ":
        return "space"
    if not char.isprintable() or unicodedata.category(char) in ("Co", "Cn"):
        return f"U+{ord(char):04X}"
    return f"◌{char}" if unicodedata.category(char).startswith("M") else char


def _listed(chars: Iterable[str]) -> str:
    return " ".join(map(shown, chars))


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.category(char) in ("Mn", "Me", "Cf") for char in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))
