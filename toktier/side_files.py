"""Added tokens that a model directory names outside its ``tokenizer.json``.

``tokenizer_config.json``, ``added_tokens.json`` and ``special_tokens_map.json``
may name literals that ``tokenizer.json`` lacks, or give them other flags.
``transformers`` merges them in when it loads a directory
(``PreTrainedTokenizerFast.from_pretrained``, written down here after version
5.24); :func:`merge` does the same and states the result as the bytes of a
``tokenizer.json``.  Only added tokens are merged: all else in those files
(chat templates, lengths, class names) has no bearing on ids.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import cache
from .artifact import parse_document, parse_object
from .backends.reference import engine_version
from .errors import ArtifactError

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import AddedToken

#: To be raised when the rules below change: what they gave before is kept on disk.
_FORMAT = 1

CONFIG = "tokenizer_config.json"
ADDED_TOKENS = "added_tokens.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
SIDE_FILES = (CONFIG, ADDED_TOKENS, SPECIAL_TOKENS_MAP)

# In this order the roles of a tokenizer are added when they are missing.
_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_SPACE = re.compile(r"[ \t\n\r]*")


def merge(data: bytes, side_files: Mapping[str, bytes], folder: Path) -> bytes:
    """The ``tokenizer.json`` that ``data`` and the side files beside it amount to.

    ``side_files`` maps names of :data:`SIDE_FILES` to contents; ``folder`` is
    only named in errors.  The result is ``data`` itself if the side files add and change
    nothing, and otherwise ``data`` with the value of ``added_tokens`` replaced, every
    other byte kept.  Raises :class:`~toktier.errors.ArtifactError` for files that are
    damaged or that the reference or ``transformers`` would reject.
    """
    digest = hashlib.sha256()
    for part in (data, *itertools.chain.from_iterable((n.encode(), c) for n, c in sorted(side_files.items()))):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    key = f"added tokens {_FORMAT} tokenizers {engine_version()} {digest.hexdigest()}"
    found = cache.load(key)
    if found is None:
        entries = _all_added_tokens(data, side_files, folder)
        cache.store(key, {"added_tokens": entries}, {})
    else:
        entries = found.header["added_tokens"]
    if entries is None:
        return data
    return _replace_added_tokens(data.decode("utf-8"), json.dumps(entries, ensure_ascii=False)).encode("utf-8")


def _all_added_tokens(data: bytes, side_files: Mapping[str, bytes], folder: Path) -> list[dict[str, Any]] | None:
    """What ``added_tokens`` is to be, or None if it is so already."""
    from tokenizers import Tokenizer

    where = _shown(folder / "tokenizer.json")
    document = parse_document(data, where)
    sides = {name: parse_object(content, _shown(folder / name)) for name, content in side_files.items()}
    try:
        tokens = _tokens_to_add(document, sides)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise ArtifactError(
            f"the added tokens named beside {where} have an unexpected shape "
            f"({type(problem).__name__}: {problem}); correct them, or load the file tokenizer.json alone"
        ) from problem
    if not tokens:
        return None
    try:
        engine = Tokenizer.from_str(data.decode("utf-8"))
    except Exception as problem:  # the engine raises nothing more specific
        raise ArtifactError(f"the reference cannot load {where}: {problem}") from problem
    # Ids are the engine's choice: those of the model's vocabulary, or the next free ones.
    engine.add_tokens(tokens)
    entries = [_entry(id, token) for id, token in sorted(engine.get_added_tokens_decoder().items())]
    return None if entries == document.get("added_tokens") else entries


def _shown(file: Path) -> str:
    """The path, for errors; the hub's cache has links, and a damaged file is to be found and deleted."""
    return f"{file} (a link to {file.resolve()})" if file.is_symlink() else str(file)


def _tokens_to_add(document: Mapping[str, Any], sides: Mapping[str, dict[str, Any]]) -> list[AddedToken]:
    """What ``transformers`` hands to ``add_tokens`` after it has loaded the file; empty if all is there."""
    from tokenizers import AddedToken

    own = {entry["content"]: _token(entry) for entry in document.get("added_tokens") or ()}
    config = dict(sides.get(CONFIG, {}))
    if "additional_special_tokens" in config and not config.get("extra_special_tokens"):
        config["extra_special_tokens"] = config.pop("additional_special_tokens")
    # Roles of a model's own ("image_token") come after the usual ones.
    model_roles: dict[str, Any] = {}
    for key in [k for k, v in config.items() if _is_model_role(k) and isinstance(v, str)]:
        model_roles[key] = config.pop(key)
    if isinstance(config.get("extra_special_tokens"), dict):
        model_roles.update(config.pop("extra_special_tokens"))

    declared: dict[int, AddedToken] = {}
    by_content: dict[str, AddedToken] = {}

    def declare(id: int, token: AddedToken) -> None:
        declared[id] = by_content[token.content] = token

    if "added_tokens_decoder" in config:
        for id, entry in config["added_tokens_decoder"].items():
            declare(int(id), _token(entry))
    else:  # only without that key do the two older files count
        for key, value in sides.get(SPECIAL_TOKENS_MAP, {}).items():
            config[key] = _special_value(key, value, config)
        if isinstance(config.get("extra_special_tokens"), dict):
            model_roles.update(config.pop("extra_special_tokens"))
        special = {str(config[role]) for role in _ROLES if config.get(role)}
        special.update(str(token) for token in config.get("extra_special_tokens") or ())
        for content, id in sides.get(ADDED_TOKENS, {}).items():
            is_special = content in special
            declare(int(id), AddedToken(content, normalized=not is_special, special=is_special))
        for entry in document.get("added_tokens") or ():
            declare(int(entry["id"]), own[entry["content"]])

    named: dict[str, Any] = {}
    for role in _ROLES:
        value = _value(config.get(role))
        if value is not None:
            named[role] = by_content.get(str(value), value)
        elif role == "pad_token" and role not in config and document.get("padding"):
            named[role] = document["padding"]["pad_token"]
    for role, value in config.items():
        if _is_model_role(role) and isinstance(_value(value), (str, AddedToken)):
            named[role] = _value(value)
    named.update((role, _value(value)) for role, value in model_roles.items())
    if "extra_special_tokens" not in config:
        config["extra_special_tokens"] = config.get("additional_special_tokens")
    extra = [_value(token) for token in config["extra_special_tokens"] or ()]

    # Every declared token is added anew, also those that the file has: that is how one
    # gets other flags, and how the token of a role becomes special.
    before = {content: repr(token) for content, token in own.items()}
    wanted: list[Any] = [token for _, token in sorted(declared.items())]
    known = {*own, *(str(token) for token in wanted)}
    for value in (*named.values(), *extra):
        if not isinstance(value, (str, AddedToken)):
            raise TypeError(f"a special token must be text or an AddedToken object, not {value!r}")
        if str(value) not in known and value not in wanted:
            wanted.append(value)
    roles = {str(value) for value in named.values()}
    tokens: list[AddedToken] = []
    for value in wanted:
        if isinstance(value, str):
            tokens.append(AddedToken(value, special=True))
        else:
            value.special = value.special or str(value) in roles
            tokens.append(value)
    return [] if all(before.get(token.content) == repr(token) for token in tokens) else tokens


def _special_value(key: str, value: Any, config: Mapping[str, Any]) -> Any:
    """A value of ``special_tokens_map.json``, where objects are always special tokens."""
    if isinstance(value, dict) and key != "extra_special_tokens":
        return _token({**value, "special": True})
    if not isinstance(value, list):
        return value
    tokens = [_token({**v, "special": True}) if isinstance(v, dict) else v for v in value]
    if key != "extra_special_tokens":
        return tokens
    already = list(config.get(key) or ())
    return already + [token for token in tokens if token not in already]


def _is_model_role(key: str) -> bool:
    return key.endswith("_token") and key not in _ROLES


def _token(entry: Mapping[str, Any]) -> AddedToken:
    from tokenizers import AddedToken

    return AddedToken(entry["content"], **{flag: entry[flag] for flag in _FLAGS if flag in entry})


def _value(value: Any) -> Any:
    """A token written as an object is marked ``"__type": "AddedToken"``; others are plain strings."""
    return _token(value) if isinstance(value, dict) and value.get("__type") == "AddedToken" else value


def _entry(id: int, token: AddedToken) -> dict[str, Any]:
    return {"id": id, "content": token.content, **{flag: getattr(token, flag) for flag in _FLAGS}}


def _replace_added_tokens(text: str, value: str) -> str:
    """Replace one value of a JSON object and keep every other character.

    Writing the whole document anew would not do: the reference reads a long decimal
    (a Unigram score) a little differently from Python, so digits must stay as they are.
    """
    decoder = json.JSONDecoder()

    def skip(position: int) -> int:
        match = _SPACE.match(text, position)
        return match.end() if match else position

    opening = text.index("{") + 1
    position = skip(opening)
    while text[position] != "}":
        key, position = decoder.raw_decode(text, position)
        start = skip(skip(position) + 1)  # past the colon
        _, stop = decoder.raw_decode(text, start)
        if key == "added_tokens":
            return text[:start] + value + text[stop:]
        position = skip(stop)
        if text[position] == ",":
            position = skip(position + 1)
    return f'{text[:opening]}"added_tokens": {value}, {text[opening:]}'
