"""The command line: ``toktier encode | decode | count | inspect | certify | tokenizers``.

Only what ``--help`` needs is imported here; a command and what it computes with are loaded when it runs.
Results go to standard output as UTF-8 bytes, everything else to standard error, one line per problem.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import DEFAULT, __version__

#: The values of ``--backend``; those of ``toktier.tokenizer``, which is not imported for ``--help``.
BACKENDS = ("auto", "reference", "python", "numpy", "jax")

OK, BAD_DATA, BAD_USAGE, EXCEEDED, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141

_STATUS = """\
exit status:
  0    everything went well
  1    {}
  2    the command line is wrong (an unknown option, say), or there is no such
       tokenizer or backend, or the tokenizer cannot be loaded{}
  130  it was interrupted"""
_FAILED = "an input could not be processed (the others were)"
_UNWRITTEN = "the output could not be written"
_TOO_LONG = "\n  3    an input has more tokens than --limit, and all were processed"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (``sys.argv[1:]`` if None) and return its exit status.

    Raises ``SystemExit`` after ``--help`` and ``--version``, and for a command line that cannot be parsed.
    """
    if sys.stdout is None:
        say("toktier: standard output is closed")
        return BAD_DATA
    # While modules are loaded, and in argparse, an interrupt may come out as any other error.
    at_once = argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if at_once:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        try:
            args = _parse(sys.argv[1:] if argv is None else list(argv))
        finally:
            sys.stdout.flush()
        from .commands import run

        if at_once:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run(args)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        status = BROKEN_PIPE
    except OSError as problem:  # those of inputs have been dealt with
        say(f"toktier: standard output: {problem.strerror or problem}")
        status = BAD_DATA
    if argv is None:
        # At once: neither wait for threads in the middle of a file, nor try to flush what cannot be written.
        os._exit(status)
    return status


def say(line: str) -> None:
    """Write a line to standard error, if there is one."""
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


class _Formatter(argparse.HelpFormatter):
    """Wraps paragraphs; one with an indented line stays as it is written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        fill = super()._fill_text
        return "\n\n".join(part if "\n " in part else fill(part, width, indent) for part in paragraphs)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without repeating the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parse(argv: list[str]) -> argparse.Namespace:
    parser, commands = _parsers()
    if not argv:
        parser.print_help(sys.stderr)
        raise SystemExit(BAD_USAGE)
    if argv[0] not in commands:
        return parser.parse_args(argv)
    # Not through `parser`: only so may files and options come in any order.  What follows `--` is kept apart
    # because not every supported version of Python does so here.
    end = argv.index("--") if "--" in argv else len(argv)
    args = commands[argv[0]].parse_intermixed_args(argv[1:end])
    if argv[end + 1 :]:
        if "inputs" not in args:
            commands[argv[0]].error(f"there is nothing to do with {argv[end + 1]!r}")
        args.inputs = [*args.inputs, *argv[end + 1 :]]
    return args


def _natural(text: str, least: int = 0) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    return int(text)


def _length(text: str) -> int:
    number = _natural(text)
    if number >= 2**64:
        raise argparse.ArgumentTypeError("it must be below 2**64, as in the reference")
    return number


def _positive(text: str) -> int:
    return _natural(text, 1)


def _parsers() -> tuple[_Parser, dict[str, _Parser]]:
    """The whole command line, and the parser of each command."""
    parser = _Parser(
        prog="toktier",
        description="Tokenize text with ids identical to Hugging Face tokenizers.",
        epilog=f"example:\n  toktier count README.md\n\n{_STATUS.format(_FAILED, '')}",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"toktier {__version__}")
    group = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    commands: dict[str, _Parser] = {}

    def command(
        name: str, summary: str, more: str, example: str, failure: str = _FAILED, more_status: str = ""
    ) -> _Parser:
        added: _Parser = group.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}. {more}".strip(),
            epilog=f"examples:\n{example}\n\n{_STATUS.format(failure, more_status)}",
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        added.set_defaults(command=name)
        commands[name] = added
        return added

    encode = command(
        "encode",
        "make token ids of text",
        "Writes the ids of each input on one line.",
        "  toktier encode -t qwen3 a.txt b.txt\n"
        "  echo 'Hello, world' | toktier encode --offsets\n"
        "  toktier encode --json *.md | jq .count",
    )
    _add_inputs(encode)
    encode.add_argument(
        "--max-length",
        type=_length,
        metavar="N",
        help="truncate to N ids, as the reference does (padding stays)",
    )
    encode.add_argument(
        "--offsets",
        action="store_true",
        help="a table of id, characters, bytes (start..stop in the text) and token; with --json, two more fields",
    )
    encode.add_argument(
        "--json", action="store_true", help='an object {"file", "ids", "count"} for each input, one on a line'
    )

    decode = command(
        "decode",
        "make text of token ids",
        "Writes exactly the text, with no newline after it (except on a "
        "terminal). Ids the tokenizer does not have are passed over, as the reference does.",
        "  toktier decode 13225 11 2375\n  toktier decode -t qwen3 '[9707, 11, 1879]'\n"
        "  toktier encode --no-special-tokens a.txt |\n    toktier decode --keep-special-tokens | cmp - a.txt",
    )
    decode.add_argument(
        "inputs",
        nargs="*",
        metavar="ID|FILE",
        help="ids, or files with ids; standard input, as it arrives, if there is none or for '-'. Ids are "
        "separated by white space or commas, brackets around them are allowed. Write ./123 for a file named 123",
    )
    _add_tokenizer(decode)
    skip = decode.add_mutually_exclusive_group()
    skip.add_argument(
        "--skip-special-tokens",
        action="store_true",
        default=True,
        help="leave out special tokens (the default, as in the reference)",
    )
    skip.add_argument(
        "--keep-special-tokens",
        action="store_false",
        dest="skip_special_tokens",
        help="write special tokens too",
    )
    form = decode.add_mutually_exclusive_group()
    form.add_argument(
        "--bytes",
        action="store_true",
        help="write the tokens' own bytes even where they are not UTF-8, instead of U+FFFD; "
        "reads all ids before it writes",
    )
    form.add_argument(
        "--json", action="store_true", help='an object {"file", "text", "count"} for each input, one on a line'
    )

    count = command(
        "count",
        "count tokens",
        "Writes one number for each input and, if there are several, their total.",
        "  toktier count *.md\n  toktier count < prompt.txt\n"
        "  toktier count --limit 4096 prompt.txt; [ $? -eq 3 ] && echo 'too long'",
        more_status=_TOO_LONG,
    )
    _add_inputs(count)
    count.add_argument(
        "--limit",
        type=_natural,
        metavar="N",
        help="stop counting after N tokens (the input is read whole): if there are more, write '>N' and exit "
        "with status 3",
    )
    count.add_argument(
        "--json",
        action="store_true",
        help='an object {"file", "count"} for each input, then {"files", "total"} if there are several, one on '
        'a line; with --limit, also "exceeded", and a "count" of null where it is true',
    )

    inspect = command(
        "inspect",
        "explain a tokenizer, and how it takes a text apart",
        "Tells which part of the tokenizer runs where and why; and of a text its normalized form, its pieces and "
        "their tokens.",
        "  toktier inspect qwen3\n  toktier inspect qwen3 '<|im_start|>Hello, world'\n"
        '  toktier inspect model/tokenizer.json - < a.txt\n  toktier inspect gpt2 --trace "it\'s  12"',
    )
    inspect.add_argument(
        "inputs",
        nargs="*",
        metavar="TOKENIZER|TEXT",
        help="the tokenizer, unless --tokenizer names it; then a text, or '-' for standard input",
    )
    _add_tokenizer(inspect, default=None)
    inspect.add_argument(
        "--trace",
        metavar="TEXT",
        help="a table of the text's characters (of standard input's for '-'): their classes, the states of the "
        "machines that cut the text into pieces, and where it may be cut in two",
    )
    inspect.add_argument("--json", action="store_true", help="one JSON object")

    certify = command(
        "certify",
        "show where texts may be cut, and why nowhere else",
        "At a certified cut a text may be cut in two and both sides tokenized apart. Which places are "
        "certified is a matter of the two characters there; docs/certificates.md explains the output. "
        "That a tokenizer is refused is an answer like any other, with its reason, and exit status 0.",
        "  toktier certify gpt2\n  toktier certify gpt2 --witness '\\t' a\n"
        "  toktier certify model/tokenizer.json --json | jq .refusal",
        _UNWRITTEN,
    )
    certify.add_argument(
        "inputs", nargs="*", metavar="TOKENIZER", help="the tokenizer, unless --tokenizer names it"
    )
    _add_tokenizer(certify, default=None)
    certify.add_argument(
        "--witness",
        nargs=2,
        metavar=("A", "B"),
        help="whether a text may be cut between two characters and, if not, a text that shows why, shown to the "
        r"reference. A character is given as itself, as \n, \t or U+00E9, or as the first of an atom's: atom:3",
    )
    certify.add_argument("--json", action="store_true", help="everything, as one JSON object")

    tokenizers = command(
        "tokenizers",
        "list the embedded tokenizers",
        "They work offline, at once. Others are given as a path or a Hugging Face repository.",
        "  toktier tokenizers\n  toktier tokenizers --json | jq -r .fingerprint",
        _UNWRITTEN,
    )
    tokenizers.add_argument("--json", action="store_true", help="one JSON object per tokenizer, one on a line")
    return parser, commands


def _add_tokenizer(parser: _Parser, default: str | None = DEFAULT) -> None:
    parser.add_argument(
        "-t",
        "--tokenizer",
        default=default,
        metavar="TOKENIZER",
        help="an embedded name (see toktier tokenizers), a tokenizer.json, a model directory, or a Hugging Face "
        f"repository; {DEFAULT} if not given",
    )


def _add_inputs(parser: _Parser) -> None:
    """What ``encode`` and ``count`` share."""
    parser.add_argument(
        "inputs", nargs="*", metavar="FILE", help="UTF-8 text; standard input if there is none or for '-'"
    )
    _add_tokenizer(parser)
    parser.add_argument(
        "--backend", choices=BACKENDS, default="auto", help="what does the work; the ids are the same (auto)"
    )
    parser.add_argument(
        "--no-special-tokens",
        action="store_false",
        dest="add_special_tokens",
        help="do not add the special tokens (BOS and the like) that belong around a text",
    )
    parser.add_argument(
        "--special",
        choices=("encode", "text", "raise"),
        default="encode",
        help="special tokens that stand in the text: make ids of them (encode, as the reference does), take "
        "them as plain text (text), or refuse the input (raise)",
    )
    parser.add_argument(
        "--jobs",
        type=_positive,
        metavar="N",
        help="threads to use at most; as many as there are cores if not given",
    )
