"""Where a model's chat template is, and the special tokens that it may name.

A model directory says it in one of three ways, in this order, as ``transformers`` reads them:

1. ``chat_template.jinja``, with further templates by name in ``additional_chat_templates/NAME.jinja``;
2. ``chat_template`` in ``tokenizer_config.json``, one template or a list of named ones;
3. ``chat_template.json``, which older processors wrote.

The templates of embedded tokenizers lie beside them in ``toktier/data``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..artifact import parse_object
from ..errors import ArtifactError, ChatTemplateError
from ..registry import DATA
from ..side_files import CONFIG, SPECIAL_TOKENS_MAP

if TYPE_CHECKING:
    from ..artifact import Artifact

#: The usual names under which a template sees the tokenizer's special tokens; a model may have more.
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


# By fingerprint: the file's name, and the roles that the model's tokenizer_config.json gives.
_EMBEDDED: dict[str, tuple[str, dict[str, str]]] = {
    "0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3": (
        "gpt-oss",
        {"bos_token": "<|startoftext|>", "eos_token": "<|return|>", "pad_token": "<|endoftext|>"},
    ),
    "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4": (
        "qwen3",
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    ),
    "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41": (
        "deepseek-v3",
        {
            "bos_token": "<｜begin▁of▁sentence｜>",
            "eos_token": "<｜end▁of▁sentence｜>",
            "pad_token": "<｜end▁of▁sentence｜>",
        },
    ),
}


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """Jinja sources by name (a model with a single template calls it ``"default"``), and special tokens by role.

    ``tokens`` is None where nothing is known of them: a template given as text for a tokenizer that was loaded
    without its directory.
    """

    sources: Mapping[str, str]
    tokens: Mapping[str, str] | None = field(default_factory=dict)

    def choose(self, name: str | None = None, tools: bool = False) -> str:
        """The source called ``name``; without a name ``"tool_use"`` if there are tools, else ``"default"``.

        Raises :class:`~toktier.errors.ChatTemplateError` if there is none of that name.
        """
        if name is None:
            name = "tool_use" if tools and "tool_use" in self.sources else "default"
        if name not in self.sources:
            raise ChatTemplateError(
                f"there is no chat template {name!r} among this model's; choose one of "
                f"{', '.join(map(repr, sorted(self.sources)))} with template="
            )
        return self.sources[name]


def chat_template(artifact: Artifact, template: str | os.PathLike[str] | None = None) -> ChatTemplate:
    """The template for an artifact.

    ``template`` is None for the model's own, a path object for a directory or a file (``.jinja``, or JSON with a
    ``chat_template``), the name of one of the model's templates, or the text of a template.

    Raises :class:`~toktier.errors.ChatTemplateError` where there is none.
    """
    if isinstance(template, os.PathLike):
        return _from_path(Path(template), _own(artifact))
    own = _own(artifact)
    if template is None:
        if own is None or not own.sources:
            raise ChatTemplateError(
                f"no chat template is known for {artifact.name}: it was not loaded from a model directory that "
                "has one, and none is embedded. Give template= the text of one, or the path (a pathlib.Path) of a "
                "directory or file that holds it"
            )
        return own
    if not isinstance(template, str):
        raise ChatTemplateError(f"template must be text, a path object or None, not {type(template).__name__}")
    if own is not None and template in own.sources:
        return ChatTemplate({"default": own.sources[template]}, own.tokens)
    if not any(mark in template for mark in ("{{", "{%")):  # it would render itself, whatever the messages are
        names = f", the name of one of this model's ({', '.join(own.sources)})" if own and own.sources else ""
        raise ChatTemplateError(
            f"template is {template[:80]!r}, in which nothing is rendered. Give the text of a template{names}, or "
            "the path of a directory or file as a path object: pathlib.Path(...)"
        )
    return ChatTemplate({"default": template}, own.tokens if own is not None else None)


def _own(artifact: Artifact) -> ChatTemplate | None:
    """What the artifact's directory or the package says; None if there is neither."""
    found = None if artifact.folder is None else _from_directory(artifact.folder)
    if artifact.fingerprint in _EMBEDDED and (found is None or not found.sources):
        name, tokens = _EMBEDDED[artifact.fingerprint]
        source = Path(DATA, f"{name}.jinja").read_bytes().decode("utf-8")
        return ChatTemplate({"default": source}, tokens)
    return found


def _from_path(path: Path, own: ChatTemplate | None) -> ChatTemplate:
    if path.is_dir():
        found = _from_directory(path)
        if not found.sources:
            raise ChatTemplateError(
                f"the directory {path} holds no chat template, neither in chat_template.jinja nor in "
                f"{CONFIG} nor in chat_template.json"
            )
        return found
    if path.suffix == ".json":
        config = _json(path)
        sources = _sources(config.get("chat_template"), path)
        if not sources:
            raise ChatTemplateError(f'{path} has no "chat_template"')
        tokens = _tokens([config])
        return ChatTemplate(sources, tokens or (own.tokens if own is not None else None))
    return ChatTemplate({"default": _text(path)}, own.tokens if own is not None else None)


def _from_directory(folder: Path) -> ChatTemplate:
    configs = [_json(folder / name) for name in (CONFIG, SPECIAL_TOKENS_MAP) if (folder / name).is_file()]
    sources: dict[str, str] = {}
    if (folder / "chat_template.jinja").is_file():
        sources["default"] = _text(folder / "chat_template.jinja")
    for file in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        sources[file.stem] = _text(file)
    if not sources and configs:
        sources = _sources(configs[0].get("chat_template"), folder / CONFIG)
    if not sources and (folder / "chat_template.json").is_file():
        file = folder / "chat_template.json"
        sources = _sources(_json(file).get("chat_template"), file)
    return ChatTemplate(sources, _tokens(configs))


def _sources(value: Any, where: Path) -> dict[str, str]:
    """A template, or a list of named ones, as JSON files have them."""
    match value:
        case None:
            return {}
        case str():
            return {"default": value}
        case list() if all(isinstance(entry, dict) for entry in value):
            try:
                return {str(entry["name"]): str(entry["template"]) for entry in value}
            except KeyError as problem:
                raise ArtifactError(f"a named chat template in {where} has no {problem}") from problem
    raise ArtifactError(
        f'"chat_template" in {where} is neither text nor a list of {{"name", "template"}} objects, but a JSON '
        f"{type(value).__name__}"
    )


def _tokens(configs: list[dict[str, Any]]) -> dict[str, str]:
    """Special tokens by role; an earlier file goes before a later one."""
    given: dict[str, Any] = {}
    for config in reversed(configs):
        given.update((key, value) for key, value in config.items() if key.endswith("_token"))
        more = config.get("extra_special_tokens")
        given.update(more if isinstance(more, dict) else {})
    contents = {role: value.get("content") if isinstance(value, dict) else value for role, value in given.items()}
    return {role: content for role, content in contents.items() if isinstance(content, str)}


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as problem:
        raise ChatTemplateError(f"the chat template {path} cannot be read: {problem}") from problem
    except UnicodeDecodeError as problem:
        raise ArtifactError(f"{path} is not UTF-8 (byte {problem.start}); copy or download it again") from problem


def _json(path: Path) -> dict[str, Any]:
    try:
        return parse_object(path.read_bytes(), str(path))
    except OSError as problem:
        raise ChatTemplateError(f"the chat template {path} cannot be read: {problem}") from problem
