"""What each command does with its inputs."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import DEFAULT, embedded_names, load
from ..errors import (
    ArtifactError,
    BackendUnsupportedError,
    InvalidUTF8Error,
    MissingDependencyError,
    OptionError,
    TokenIdError,
    TokTierError,
    UnknownBackendError,
    UnknownTokenizerError,
)
from ..explanation import counted
from ..parallel import usable_cores
from ..tokenizer import Tokenizer
from . import BAD_DATA, BAD_USAGE, EXCEEDED, OK, say
from .reading import (
    STANDARD_INPUT,
    NoSuchFileError,
    UnreadableError,
    decode_text,
    parse_ids,
    read_ids,
    read_text,
    shown_name,
)
from .running import Bar, in_order

#: Of the embedded tokenizers; the file NOTICE has the details.
LICENCES = {"gpt2": "Modified MIT", "gpt-oss": "Apache-2.0", "qwen3": "Apache-2.0", "deepseek-v3": "MIT"}

Result = TypeVar("Result")

#: What ``toktier tokenizers`` tells of each, in this order.
_COLUMNS = ("name", "vocabulary", "model", "licence", "fingerprint")
_IDS = re.compile(r"[\d\s,\[\]]+", re.ASCII)
_DECODED_AT_ONCE = _WRITTEN_AT_ONCE = 1 << 16  # ids


class UsageError(Exception):
    """The command line makes no sense."""


def run(args: argparse.Namespace) -> int:
    """Run a parsed command line and return its exit status."""
    try:
        return _COMMANDS[args.command](args)
    except UsageError as problem:
        say(f"toktier {args.command}: {problem}; see toktier {args.command} --help")
        return BAD_USAGE
    except (
        UnknownTokenizerError,
        ArtifactError,
        UnknownBackendError,
        BackendUnsupportedError,
        MissingDependencyError,
        OptionError,
    ) as problem:
        _report(None, problem)
        return BAD_USAGE
    except TokTierError as problem:
        _report(None, problem)
        return BAD_DATA


def _load(name: str, backend: str = "auto") -> Tokenizer:
    """``toktier.load``; the first time it can take long enough for a bar."""
    with Bar(f"loading {name}", [name]) as bar:
        ((_, future),) = in_order(lambda name: load(name, backend), [name], 1, bar)
    return future.result()


# --- encode and count ---------------------------------------------------------------


def _encode(args: argparse.Namespace) -> int:
    names = _inputs(args.inputs)
    tok = _load(args.tokenizer, args.backend)
    jobs = args.jobs or usable_cores()
    options = {
        "add_special_tokens": args.add_special_tokens,
        "special": args.special,
        "max_length": args.max_length,
    }

    def encode(name: str) -> bytes:
        ids = tok.encode_to_numpy(read_text(name), threads=max(1, jobs // len(names)), **options)
        if args.json:
            return _json({"file": name, "ids": ids.tolist(), "count": len(ids)})
        return decimal(ids) + b"\n"

    def encode_with_offsets(name: str) -> bytes:
        found = tok.encode_with_offsets(read_text(name), **options)
        ids, spans, byte_spans = found.ids.tolist(), found.offsets.tolist(), found.byte_offsets.tolist()
        if args.json:
            return _json(
                {"file": name, "ids": ids, "count": len(ids), "offsets": spans, "byte_offsets": byte_spans}
            )
        title = b"==> %b <==\n" % os.fsencode(name) if len(names) > 1 else b""
        return title + _offsets_table(tok, ids, spans, byte_spans)

    work = encode_with_offsets if args.offsets else encode
    return _each("encode", work, names, jobs, lambda _, output: output)


def _count(args: argparse.Namespace) -> int:
    names = _inputs(args.inputs)
    tok = _load(args.tokenizer, args.backend)
    jobs = args.jobs or usable_cores()
    limit = args.limit
    counts: list[int] = []  # limit + 1 stands for everything above

    def count(name: str) -> int:
        return tok.count(
            read_text(name),
            limit,
            args.add_special_tokens,
            special=args.special,
            threads=max(1, jobs // len(names)),
        )

    def line(name: str, found: int) -> bytes:
        counts.append(found)
        exceeded = limit is not None and found > limit
        if args.json:
            fields = {"file": name, "count": None if exceeded else found}
            return _json(fields if limit is None else {**fields, "exceeded": exceeded})
        number = f">{limit}" if exceeded else str(found)
        if len(names) == 1:
            shown = "" if name == STANDARD_INPUT else f" {name}"
            return os.fsencode(f"{number}{shown}\n")
        return os.fsencode(f"{number:>9} {name}\n")

    status = _each("count", count, names, jobs, line)
    exceeded = limit is not None and any(found > limit for found in counts)
    if len(names) > 1:
        if args.json:
            _write(_json({"files": len(counts), "total": None if exceeded else sum(counts)}))
        else:
            total = sum(min(found, limit) for found in counts) if exceeded else sum(counts)
            _write(f"{'>' * exceeded + str(total):>9} total\n".encode())
    return EXCEEDED if exceeded and status == OK else status


def _each(
    command: str,
    work: Callable[[str], Result],
    names: Sequence[str],
    jobs: int,
    render: Callable[[str, Result], bytes],
) -> int:
    """Write the rendered result for each input, in order; report those that fail and go on."""
    status = OK
    with Bar(f"toktier {command}", names) as bar:
        for name, future in in_order(work, names, jobs, bar):
            try:
                result = future.result()
            except (TokTierError, UnreadableError, MemoryError) as problem:
                status = BAD_DATA
                hint = ""
                if isinstance(problem, NoSuchFileError) and len(names) == 1:
                    hint = f"; a text comes from standard input: echo TEXT | toktier {command}"
                with bar.making_way(sys.stderr):
                    _report(name, problem, hint)
                continue
            with bar.making_way(sys.stdout):
                _write(render(name, result))
    return status


def _inputs(files: list[str]) -> list[str]:
    if files.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once, but '-' is given twice")
    return files or [STANDARD_INPUT]


# --- decode ---------------------------------------------------------------------------


def _decode(args: argparse.Namespace) -> int:
    given = [item for item in args.inputs if _looks_like_ids(item)]
    if given and len(given) < len(args.inputs):
        other = next(item for item in args.inputs if item not in given)
        raise UsageError(
            f"{given[0]!r} is an id and {other!r} is a file: give one or the other (./{given[0]} is a file)"
        )
    tok = _load(args.tokenizer)
    if given:
        try:
            blocks = list(parse_ids([" ".join(given).encode()]))
        except TokenIdError as problem:
            raise TokenIdError(str(problem).removeprefix("line 1: ")) from None
        _write_decoded(tok, STANDARD_INPUT, blocks, args)
        return OK
    status = OK
    for name in _inputs(args.inputs):
        try:
            arriving = read_ids(name)
            # Of a file nothing is written unless all of it is good.
            _write_decoded(tok, name, arriving if name == STANDARD_INPUT else list(arriving), args)
        except (TokTierError, UnreadableError, MemoryError) as problem:
            status = BAD_DATA
            _report(name, problem)
    return status


def _looks_like_ids(item: str) -> bool:
    """Whether an argument of ``decode`` is ids, or meant to be."""
    if _IDS.fullmatch(item):
        return True
    return re.match(r"[\[+-]?\d", item) is not None and not os.path.lexists(item)


def _write_decoded(
    tok: Tokenizer, name: str, blocks: Iterable[NDArray[np.uint32]], args: argparse.Namespace
) -> None:
    skip = args.skip_special_tokens
    if args.json:
        ids = np.concatenate(list(blocks))
        _write(_json({"file": name, "text": tok.decode(ids, skip), "count": len(ids)}))
        return
    last = b""
    parts = _whole_bytes(tok, blocks, skip) if args.bytes else _texts(tok, blocks, skip)
    for part in parts:
        _write(part)
        last = part[-1:] or last
    if last != b"\n" and sys.stdout.isatty():
        _write(b"\n")


def _whole_bytes(tok: Tokenizer, blocks: Iterable[NDArray[np.uint32]], skip: bool) -> Iterator[bytes]:
    yield tok.decode_bytes(np.concatenate(list(blocks)), skip)


def _texts(tok: Tokenizer, blocks: Iterable[NDArray[np.uint32]], skip: bool) -> Iterator[bytes]:
    stream = tok.stream_decoder(skip)
    for ids in blocks:
        for start in range(0, len(ids), _DECODED_AT_ONCE):
            yield stream.put_many(ids[start : start + _DECODED_AT_ONCE]).encode()
    yield stream.flush().encode()


# --- inspect and tokenizers ---------------------------------------------------------------


def _inspect(args: argparse.Namespace) -> int:
    items: list[str] = args.inputs
    if args.tokenizer is not None:
        items = [args.tokenizer, *items]
    if len(items) > 2:
        most = "a tokenizer and one text" if args.tokenizer is None else "one text"
        raise UsageError(f"{most} at most, but there is also {items[2]!r} (quote the text)")
    name, *texts = items or [DEFAULT]
    if args.trace is not None and texts:
        raise UsageError(f"one text at most, but there are {texts[0]!r} and --trace {args.trace!r}")
    try:
        tok = _load(name)
    except (UnknownTokenizerError, ArtifactError) as problem:
        is_file = isinstance(problem, ArtifactError)
        if args.tokenizer is not None or texts or (is_file and name.endswith((".json", ".xz"))):
            raise
        text = f"- < {shlex.quote(name)}" if is_file else "TEXT"
        raise type(problem)(
            f"{problem}. To inspect a text, name the tokenizer first: toktier inspect {DEFAULT} {text}"
        ) from None
    about: dict[str, Any] = {
        **tok.explain().as_dict(),
        "model": tok.model,
        "vocabulary": tok.vocab_size,
    }
    lines = [str(tok.explain()), f"{'model':12} {about['model']}, {tok.vocab_size} ids"]
    asked = texts[0] if texts else args.trace
    if asked is not None:
        try:
            # An argument that is not UTF-8 arrives with its bytes disguised as surrogates.
            text = read_text(asked) if asked == STANDARD_INPUT else decode_text(os.fsencode(asked))
        except (InvalidUTF8Error, UnreadableError) as problem:
            _report(STANDARD_INPUT if asked == STANDARD_INPUT else "TEXT", problem)
            return BAD_DATA
        if texts:
            about["text"], more = _inspect_text(tok, text)
            lines += ["", *more]
        else:
            from . import certificates  # with all that derives them, so not at once

            steps = certificates.trace(tok, text)
            about["trace"] = [step.as_dict() for step in steps]
            lines = certificates.trace_lines(steps)
    _write(_json(about) if args.json else "".join(f"{line}\n" for line in lines).encode())
    return OK


def _certify(args: argparse.Namespace) -> int:
    items: list[str] = [*([] if args.tokenizer is None else [args.tokenizer]), *args.inputs]
    if len(items) > 1:
        raise UsageError(f"one tokenizer at most, but there is also {items[1]!r}")
    tok = _load(items[0] if items else DEFAULT)
    from . import certificates

    about, lines = certificates.certified(tok) if args.witness is None else certificates.pair(tok, *args.witness)
    _write(_json(about) if args.json else "".join(f"{line}\n" for line in lines).encode())
    return OK


def _inspect_text(tok: Tokenizer, text: str) -> tuple[dict[str, Any], list[str]]:
    """What there is to say of a text: for JSON, and as lines."""
    whole = tok.encode_with_offsets(text)
    ids = whole.ids.tolist()
    around = len(ids) - len(tok.encode(text, add_special_tokens=False))
    size = len(text.encode())
    about: dict[str, Any] = {"characters": len(text), "bytes": size, "ids": ids}
    tokens = counted(len(ids), "token") + (f", {around} of them added around the text" if around else "")
    lines = [f"{'text':12} {counted(len(text), 'character')}, {counted(size, 'byte')}, {tokens}"]
    try:
        normal, pieces = tok.pieces(text)
    except BackendUnsupportedError:
        about["pieces"] = None
        lines += [f"{'pieces':12} not known: the reference does not show them", ""]
        table = _offsets_table(tok, ids, whole.offsets.tolist(), whole.byte_offsets.tolist())
        return about, [*lines, table.decode().rstrip("\n")]

    about["normalized"] = normal
    about["pieces"] = [
        {
            "text": piece.text,
            "start": piece.start,
            "stop": piece.stop,
            "added": piece.added,
            "tokens": [
                {"id": id, "text": _text_or_none(token), "hex": token.hex()}
                for id, token in ((id, tok.decode_bytes([id])) for id in piece.ids)
            ],
        }
        for piece in pieces
    ]
    lines.append(f"{'normalized':12} {'unchanged' if normal == text else repr(normal)}")
    added = [f"{piece.text!r} at {piece.start}" for piece in pieces if piece.added]
    lines.append(f"{'added tokens':12} {', '.join(added) or 'none found'}")
    where = "characters" if normal == text else "characters of the normalized text"
    cut = " cut at barriers" if tok.explain().certificate.startswith("barriers") else ""
    lines += [f"{'pieces':12} {len(pieces)}{cut}; start..stop in {where}, piece, tokens", ""]
    for piece in pieces:
        parts = [str(id) if len(piece.ids) == 1 else f"{id} {_token(tok, id)}" for id in piece.ids]
        note = "  (added token)" if piece.added else ""
        lines.append(f"{_span((piece.start, piece.stop)):>14}  {piece.text!r} = {' + '.join(parts)}{note}")
    return about, lines


def _token(tok: Tokenizer, id: int) -> str:
    """A token as Python would write it: a string, or bytes where a character is incomplete.

    Where tokens are not made of bytes it is the vocabulary's own string: decoding one alone drops marks of words.
    """
    if tok.model != "byte-level BPE":
        return repr(tok.reference().id_to_token(id))
    token = tok.decode_bytes([id])
    text = _text_or_none(token)
    return repr(token) if text is None else repr(text)


def _text_or_none(token: bytes) -> str | None:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


def _tokenizers(args: argparse.Namespace) -> int:
    rows = []
    for name in embedded_names():
        tok = _load(name)
        fields = {
            "name": name,
            "default": name == DEFAULT,
            "fingerprint": tok.fingerprint,
            "vocabulary": tok.vocab_size,
            "model": tok.model,
            "licence": LICENCES[name],
        }
        if args.json:
            _write(_json(fields))
        rows.append(fields)
    if args.json:
        return OK
    if not sys.stdout.isatty():  # for other programs: tabs, nothing left out
        cells = [[str(row[key]) for key in _COLUMNS] for row in rows]
        _write("".join("\t".join(line) + "\n" for line in (_COLUMNS, *cells)).encode())
        return OK
    shown = []
    for row in rows:
        name = f"{row['name']} (default)" if row["default"] else str(row["name"])
        shown.append((name, *(str(row[key]) for key in _COLUMNS[1:-1]), f"{row['fingerprint']:.12}..."))
    _write(_table(_COLUMNS, shown, shutil.get_terminal_size().columns))
    return OK


# --- writing --------------------------------------------------------------------------


def decimal(ids: NDArray[np.uint32]) -> bytes:
    """The ids in decimal, parted by spaces: ``" ".join(map(str, ids))``, a digit of many ids at a time."""
    width = len(str(ids.max(initial=0)))
    parts = []
    for start in range(0, len(ids), _WRITTEN_AT_ONCE):
        rest = ids[start : start + _WRITTEN_AT_ONCE]
        digits = np.full((len(rest), width + 1), ord(" "), np.uint8)
        kept = np.ones(digits.shape, np.bool_)
        for column in reversed(range(width)):
            digits[:, column] = rest % 10 + ord("0")
            rest = rest // 10
            if column:
                kept[:, column - 1] = rest > 0
        parts.append(digits[kept].tobytes())
    return b"".join(parts)[:-1]


def _offsets_table(tok: Tokenizer, ids: list[int], spans: list[list[int]], byte_spans: list[list[int]]) -> bytes:
    names = {id: _token(tok, id) for id in set(ids)}
    rows = [
        (str(id), _span(span), _span(byte_span), names[id])
        for id, span, byte_span in zip(ids, spans, byte_spans, strict=True)
    ]
    return _table(("id", "characters", "bytes", "token"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], width: int | None = None) -> bytes:
    """Columns under their titles; the last may hold anything, so it is not padded.

    Of those that do not fit into ``width`` there is only what fits.
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    while width is not None and len(widths) > 1 and sum(widths) + 2 * (len(widths) - 1) > width:
        widths.pop()
    head, rows = head[: len(widths)], [row[: len(widths)] for row in rows]
    widths[-1] = 0
    lines = ("  ".join(map(str.ljust, row, widths)) for row in (head, *rows))
    return "".join(f"{line}\n" for line in lines).encode()


def _span(span: Sequence[int]) -> str:
    return f"{span[0]}..{span[1]}"


def _json(value: dict[str, Any]) -> bytes:
    # A file name that is not UTF-8 holds lone surrogates, and becomes JSON's escapes for them.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _report(name: str | None, problem: Exception, hint: str = "") -> None:
    """One line on standard error."""
    message = "not enough memory" if isinstance(problem, MemoryError) else " ".join(str(problem).split())
    # Advice is given in terms of Python.
    message = re.sub(r'\b(backend|special)="(\w+)(?:" or "(\w+))?"', _as_option, message)
    where = "" if name is None else f"{_one_line(shown_name(name))}: "
    say(f"toktier: {where}{message}{hint}")


def _one_line(name: str) -> str:
    """A name, in part if it is long, and without line breaks."""
    shown = name if len(name) <= 100 else f"{name[:97]}..."
    return shown if shown.isprintable() else repr(shown)[1:-1]


def _as_option(match: re.Match[str]) -> str:
    option, value, other = match.groups()
    return f"--{option} {value}" + (f" or {other}" if other else "")


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "encode": _encode,
    "decode": _decode,
    "count": _count,
    "inspect": _inspect,
    "certify": _certify,
    "tokenizers": _tokenizers,
}
