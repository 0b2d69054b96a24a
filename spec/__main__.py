"""Each character of a text with its class, both folds, and the rule that fires."""

from __future__ import annotations

import argparse
from collections.abc import Hashable

from . import FAMILIES
from .family import Family, L, R, classify, fired, states_after, states_before

#: Models whose tokenizers are of a family.
MODELS = {
    "r50k": "GPT-2",
    "cl100k": "GPT-4, Llama 3, Phi-4, GLM-4, OLMo 2",
    "qwen2": "Qwen 2 to 3",
    "qwen3_5": "Qwen 3.5",
    "o200k": "GPT-4o, gpt-oss",
    "tekken": "Mistral",
    "deepseek": "DeepSeek-V3",
    "bert": "BERT",
}


def shown(state: Hashable) -> str:
    """A state in words: the first field, and those others that are not at their default."""
    if not isinstance(state, tuple) or not hasattr(state, "_field_defaults"):
        return str(state)
    values = zip(state._fields, state, strict=True)  # type: ignore[attr-defined]
    (_, first), *others = values
    notes = [noted(name, value) for name, value in others if value != state._field_defaults[name]]
    return ", ".join([first, *notes])


def noted(name: str, value: object) -> str:
    """One field of a state in words."""
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if isinstance(value, tuple):
        return f"{name} {' '.join(value) or 'nothing yet'}"
    return f"{name} {value}"


def table(family: Family[L, R], text: str) -> str:
    """The table in ``README.md``, in Markdown."""
    classes = classify(family, text)
    rows = zip(
        map(repr, text),
        classes,
        map(shown, states_before(family, classes)),
        map(shown, states_after(family, classes)[1:]),
        (name or "" for name in fired(family, classes)),
        strict=False,
    )
    lines = [("", "class", "before", "after", "begins a piece by"), ("---",) * 5, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    lines = "".join(f"\n  {name:10}{models}" for name, models in MODELS.items())
    parser = argparse.ArgumentParser(
        prog="python -m spec",
        description=__doc__,
        epilog=f"families, and models of each:{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("family", choices=FAMILIES, metavar="family", help="a family of the spec, see below")
    parser.add_argument("text", help="what to take apart")
    options = parser.parse_args(arguments)
    print(table(FAMILIES[options.family], options.text))


if __name__ == "__main__":
    main()
