"""The command lines of the benchmarks: what is wrong in one is said before anything is measured."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import corpora

PICTURES = (".pdf", ".png", ".svg")


# --- types ----------------------------------------------------------------------------------------


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """One of some names.  (``choices`` would refuse a list as the default of a positional argument.)"""

    def name(word: str) -> str:
        if word not in names:
            raise argparse.ArgumentTypeError(f"there is no {word!r}; there are {', '.join(names)}")
        return word

    return name


def tokenizer(name: str) -> str:
    """What ``toktier.load`` takes."""
    from toktier import errors, registry

    try:
        registry.resolve(name)
    except errors.TokTierError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    return name


def positive(word: str) -> int:
    if not (word.isdecimal() and int(word)):
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number of 1 or more")
    return int(word)


def output(word: str) -> Path:
    """A file to write."""
    path = Path(word)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{word} cannot be a file: it is a folder, or its folder does not exist")
    return path


def picture(word: str) -> Path:
    """A file to draw to."""
    path = output(word)
    if path.suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"{word} is no picture: its name should end in {', '.join(PICTURES)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError("matplotlib is not installed: pip install matplotlib")
    return path


# --- options --------------------------------------------------------------------------------------


def new(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help begins with a module's docstring."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_sections(parser: argparse.ArgumentParser, names: Sequence[str], default: Sequence[str]) -> None:
    said = "all" if set(default) == set(names) else " ".join(default)
    about = f"{', '.join(names)} (default: {said})"
    kind = one_of(names)
    parser.add_argument("sections", nargs="*", metavar="SECTION", type=kind, default=list(default), help=about)


def add_tokenizers(parser: argparse.ArgumentParser, default: Sequence[str]) -> None:
    about = f"names or paths (default: {' '.join(default)})"
    names = list(default)
    parser.add_argument("--tokenizers", nargs="+", metavar="NAME", type=tokenizer, default=names, help=about)


def add_corpora(parser: argparse.ArgumentParser, default: Sequence[str] = tuple(corpora.CORPORA)) -> None:
    kind, about = one_of(list(corpora.CORPORA)), f"kinds of text (default: {' '.join(default)})"
    parser.add_argument("--corpora", nargs="+", metavar="KIND", type=kind, default=list(default), help=about)


def add_backends(parser: argparse.ArgumentParser, names: Sequence[str], default: Sequence[str]) -> None:
    about = f"of {', '.join(names)} (default: {' '.join(default)})"
    kind = one_of(names)
    parser.add_argument("--backends", nargs="+", metavar="NAME", type=kind, default=list(default), help=about)


def add_number(parser: argparse.ArgumentParser, name: str, default: int, about: str) -> None:
    about = f"{about} (default: {default:,})"
    parser.add_argument(f"--{name}", metavar="N", type=positive, default=default, help=about)


def add_numbers(parser: argparse.ArgumentParser, name: str, default: Sequence[int], about: str) -> None:
    about = f"{about} (default: {' '.join(map(str, default))})"
    parser.add_argument(f"--{name}", nargs="+", metavar="N", type=positive, default=list(default), help=about)


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", type=output, help="write machine, settings and figures")


def add_plot(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--plot", metavar="FILE", type=picture, help=f"draw {what} (needs matplotlib)")
