"""From what a caller writes to the artifact that it means.

The order is fixed and nothing else is consulted, in particular no environment
variable chooses a tokenizer:

1. an embedded name (``"gpt-oss"``; case and ``_`` for ``-`` do not matter),
   unless it is given as a path object or with a separator (``"./gpt2"``);
2. a file or a directory that exists;
3. a Hugging Face repository, ``"organization/name"``.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from .artifact import Artifact, decompress
from .errors import ArtifactError, OptionError, UnknownTokenizerError

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT = "gpt-oss"

#: The folder of what ships with the package.
DATA = os.path.join(os.path.dirname(__file__), "data")

# SHA-256 of each embedded tokenizer.json; `data/NAME.json.xz` holds its bytes.
_EMBEDDED = {
    "gpt2": "45055b64871bc3c4945ef44bac3ed843696c9e531477dd16f7736d0303cac692",
    "gpt-oss": "0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3",
    "qwen3": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    "deepseek-v3": "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41",
}
# Of a repository these are fetched too; see `toktier.chat.templates`.
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates/*.jinja")
_ONLY_THAT = (
    "Only tokenizers saved in that format can be loaded: save it with `transformers` "
    "(`AutoTokenizer.from_pretrained(...).save_pretrained(...)`)"
)
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)


def embedded_names() -> tuple[str, ...]:
    """The tokenizers that come with the package and work offline."""
    return tuple(_EMBEDDED)


def resolve(name_or_path: str | os.PathLike[str], *, revision: str | None = None) -> Artifact:
    """The artifact that a name or path means.

    ``name_or_path`` is an embedded name, the path of a ``tokenizer.json`` (or of any file
    with that content; ``.xz`` is decompressed), the path of a model directory, or the id of
    a Hugging Face repository.  A directory or repository is its ``tokenizer.json`` together
    with the added tokens that the files beside it name, as ``transformers`` loads it.
    ``revision`` is a branch, tag or commit of a repository.

    Raises :class:`~toktier.errors.UnknownTokenizerError` if there is no such tokenizer,
    :class:`~toktier.errors.ArtifactError` if its files are damaged, and
    :class:`~toktier.errors.OptionError` if a revision is no str, or is given for something
    else than a repository.
    """
    if not isinstance(name_or_path, (str, os.PathLike)):
        raise UnknownTokenizerError(
            f"a tokenizer is named by a str or a path, not by {type(name_or_path).__name__}"
        )
    if not isinstance(revision, str | None):
        raise OptionError(f"revision must be a str, a branch, tag or commit, not {type(revision).__name__}")
    text = os.fspath(name_or_path)
    embedded = text.lower().replace("_", "-")
    if isinstance(name_or_path, str) and embedded in _EMBEDDED:
        _no_revision(revision, text)
        return Artifact(_EMBEDDED[embedded], embedded, os.path.join(DATA, f"{embedded}.json.xz"))
    from pathlib import Path  # late: it takes longer than all of the above

    path = Path(text)
    try:
        if text and path.exists():
            _no_revision(revision, text)
            return _from_directory(path, text) if path.is_dir() else _from_file(path)
    except (OSError, ValueError) as problem:
        if isinstance(problem, ArtifactError | OptionError):
            raise
        raise ArtifactError(f"{text!r} cannot be read: {problem}") from problem
    if isinstance(name_or_path, str) and _REPOSITORY.fullmatch(text) and path.suffix not in (".json", ".xz"):
        return _from_hub(text, revision)
    raise UnknownTokenizerError(_unknown(text, embedded))


def _no_revision(revision: str | None, text: str) -> None:
    if revision is not None:
        raise OptionError(
            f"revision={revision!r} chooses a version of a Hugging Face repository, and {text!r} is none; "
            "leave it out"
        )


def _from_file(path: Path) -> Artifact:
    data = path.read_bytes()
    if path.suffix == ".xz":
        data = decompress(data, str(path))
    return Artifact.from_bytes(data, str(path))


def _from_directory(folder: Path, name: str) -> Artifact:
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise UnknownTokenizerError(f"{name!r} has no tokenizer.json. {_ONLY_THAT}")
    from .side_files import SIDE_FILES, merge  # with numpy, which an embedded tokenizer does not need to be found

    data = file.read_bytes()
    present = {side: (folder / side).read_bytes() for side in SIDE_FILES if (folder / side).is_file()}
    return Artifact.from_bytes(merge(data, present, folder), name, folder.resolve())


def _from_hub(repository: str, revision: str | None) -> Artifact:
    """Fetch the files of one commit that matter here through the hub's own cache."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError as problem:
        raise UnknownTokenizerError(
            f"{repository!r} is neither an embedded tokenizer nor a path that exists. To load it as a "
            "Hugging Face repository, install the optional dependency: pip install 'toktier-jax[hub]'"
        ) from problem
    from .side_files import SIDE_FILES

    files = ["tokenizer.json", *SIDE_FILES, *_TEMPLATES]
    try:
        folder = snapshot_download(repository, revision=revision, allow_patterns=files)
    except (OSError, ValueError) as problem:
        at = f" at revision {revision!r}" if revision is not None else ""
        raise UnknownTokenizerError(
            f"{repository!r} is neither an embedded tokenizer nor a path that exists, and as a Hugging Face "
            f"repository{at} it could not be fetched: {problem}"
        ) from problem
    from pathlib import Path

    if not os.path.exists(os.path.join(folder, "tokenizer.json")):  # the client does not say which
        raise UnknownTokenizerError(
            f"{repository!r} has no tokenizer.json, or the hub cannot be reached and its cache holds only a part "
            f"of the repository (there is none in {folder}). {_ONLY_THAT}"
        )
    return _from_directory(Path(folder), repository if revision is None else f"{repository}@{revision}")


def _unknown(text: str, embedded: str) -> str:
    import difflib  # late: only for what is not found

    if embedded in _EMBEDDED:
        return f"there is nothing at the path {text!r}; the embedded tokenizer is the str {embedded!r}"
    near = difflib.get_close_matches(embedded, _EMBEDDED, n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return (
        f"there is no tokenizer {text!r}: it is no embedded name and no path that exists.{hint} "
        f"Embedded: {', '.join(_EMBEDDED)}. Otherwise give the path of a tokenizer.json, the path of a model "
        "directory, or a Hugging Face repository as organization/name"
    )
