"""Rendering a chat template exactly as ``transformers`` does (5.24; ``utils/chat_template_utils.py`` there).

The environment is Jinja's immutable sandbox, with blocks trimmed, loop controls, a ``{% generation %}`` block,
a ``tojson`` that leaves characters as they are, ``raise_exception`` and ``strftime_now``.  What a template sees
is rebuilt from plain JSON types first: templates come from strangers.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ChatTemplateError, MissingDependencyError
from .templates import ROLES

if TYPE_CHECKING:
    import jinja2

# The names under which a message's reasoning is given.
_REASONING = ("reasoning_content", "thinking", "reasoning")


def require_jinja() -> None:
    """Raise :class:`~toktier.errors.MissingDependencyError` if Jinja is missing or too old."""
    try:
        import jinja2
    except ImportError as problem:
        raise MissingDependencyError(
            "chat templates are written in Jinja, and the package jinja2 is not installed: "
            "pip install 'toktier-jax[chat]'"
        ) from problem
    version = tuple(int(part) for part in jinja2.__version__.split(".")[:3] if part.isdigit())
    if version < (3, 1, 6):
        raise MissingDependencyError(
            f"jinja2 {jinja2.__version__} lets templates out of its sandbox; update it: "
            "pip install 'toktier-jax[chat]'"
        )


# --- the environment ------------------------------------------------------------------


def environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    """A new environment with all that ``transformers`` gives to chat templates."""
    require_jinja()
    from jinja2 import TemplateError, ext, nodes, parser
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(ext.Extension):
        """``{% generation %}``: marks what the assistant says; renders its body as it is."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: parser.Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller: Callable[[], str]) -> str:
            return caller()

    class Dictionary:
        """``dict`` without the class's other attributes."""

        def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            return dict(*args, **kwargs)

        def fromkeys(self, *args: Any) -> dict[Any, Any]:
            return dict.fromkeys(*args)

    class GuardedNamespace(Namespace):
        """``namespace`` that takes no names with a leading underscore."""

        def __init__(*args: Any, **kwargs: Any) -> None:  # as in Jinja, so that `namespace(self=…)` works
            self, rest = args[0], args[1:]
            attributes = dict(*rest, **kwargs)
            for name in attributes:
                GuardedNamespace._check(name)
            Namespace.__init__(self, attributes)

        def __setitem__(self, name: str, value: Any) -> None:
            GuardedNamespace._check(name)
            Namespace.__setitem__(self, name, value)

        @staticmethod
        def _check(name: object) -> None:
            if isinstance(name, str) and name.startswith("_"):
                raise SecurityError(f"a chat template cannot set the attribute {name!r} of a namespace")

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols]
    )
    made.filters["tojson"] = to_json
    made.globals.update(
        raise_exception=raise_exception, strftime_now=strftime_now, dict=Dictionary(), namespace=GuardedNamespace
    )
    return made


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter ``tojson``: Jinja's own would escape HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(format: str) -> str:
    """The function ``strftime_now``: the local time."""
    return datetime.now().strftime(format)


@lru_cache(maxsize=32)
def compiled(source: str) -> jinja2.Template:
    """The template with this source, compiled.

    Raises :class:`~toktier.errors.ChatTemplateError` with the line if it is not a Jinja template.
    """
    return compile_with(environment(), source)


def compile_with(made: jinja2.Environment, source: str) -> jinja2.Template:
    """Compile ``source`` in an environment of :func:`environment`'s kind."""
    from jinja2 import TemplateSyntaxError

    try:
        return made.from_string(source)
    except TemplateSyntaxError as problem:
        raise ChatTemplateError(
            f"the chat template is not valid Jinja: {problem.message}, line {problem.lineno}"
        ) from problem


@lru_cache(maxsize=32)
def _undeclared(source: str) -> frozenset[str]:
    from jinja2 import meta

    return frozenset(meta.find_undeclared_variables(compiled(source).environment.parse(source)))


def check_tokens(source: str, known: Mapping[str, str] | None, given: Mapping[str, str]) -> None:
    """Raise :class:`~toktier.errors.ChatTemplateError` if the template names a special token that nobody knows.

    Jinja would write nothing in its place.
    """
    if known is None:
        for role in ROLES:
            if role in _undeclared(source) and role not in given:
                raise ChatTemplateError(
                    f"the chat template writes {role}, and what that is stands in the model's "
                    f"tokenizer_config.json, which is not at hand; pass it, as in {role}='<s>'"
                )


@lru_cache(maxsize=32)
def literal_text(source: str) -> str:
    """What a template can write by itself: its raw text and its string constants, NULs in between."""
    from jinja2 import nodes

    tree = compiled(source).environment.parse(source)
    texts = [node.data for node in tree.find_all(nodes.TemplateData)]
    texts += [node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)]
    return "\0".join(texts)


# --- what the template sees ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Inputs:
    """What is rendered, in plain JSON types; ``left_out``: the keys of messages whose value was None."""

    messages: list[dict[str, Any]]
    tools: list[Any] | None
    documents: list[Any] | None
    variables: dict[str, Any]
    add_generation_prompt: bool
    left_out: frozenset[Any] = frozenset()


#: Arguments of ``apply_chat_template`` that no template ever sees.
_OF_ENCODING = {
    "chat_template",
    "conversation",
    "max_length",
    "padding",
    "return_assistant_tokens_mask",
    "return_dict",
    "return_tensors",
    "tokenize",
    "tokenizer_kwargs",
    "truncation",
}


def inputs(
    messages: Sequence[Any],
    tools: Sequence[Any] | None,
    documents: Sequence[Any] | None,
    add_generation_prompt: bool,
    variables: Mapping[str, Any],
) -> Inputs:
    """Rebuild a caller's messages as ``transformers`` does before it renders them.

    A message may be a mapping, a dataclass or a pydantic model; its keys whose value is None go; its reasoning is
    put under the names that templates read.  Raises :class:`~toktier.errors.ChatTemplateError` for other shapes.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise ChatTemplateError(f"messages must be a list of messages, not {type(messages).__name__}")
    if not messages:
        raise ChatTemplateError("there are no messages to render; give at least one")
    plain = [_plain(message) for message in messages]
    for number, message in enumerate(plain):
        if not isinstance(message, dict):
            raise ChatTemplateError(
                f"message number {number} is {type(messages[number]).__name__}; a message is a mapping with "
                '"role" and "content"'
            )
    for name, given in (("tools", tools), ("documents", documents)):
        if given is not None and not isinstance(given, Iterable):
            raise ChatTemplateError(f"{name} must be a list, not {type(given).__name__}")
    if tools is not None:
        tools = list(tools)
        for number, tool in enumerate(tools):
            if not isinstance(tool, Mapping):
                raise ChatTemplateError(
                    f"tool number {number} is {type(tool).__name__}; give its JSON schema, a mapping"
                )
    if "continue_final_message" in variables:
        raise ChatTemplateError(
            "continue_final_message is not supported; render with add_generation_prompt=False and cut the end off"
        )
    if refused := _OF_ENCODING & variables.keys():
        raise ChatTemplateError(
            f"{', '.join(sorted(refused))}: no variable of a template, but an argument of transformers' "
            "apply_chat_template. Here update() gives the change of the ids, .ids has them and .text their text; "
            "chat_session() takes a template"
        )
    return Inputs(
        [
            _with_reasoning({key: value for key, value in message.items() if value is not None})
            for message in plain
        ],
        None if tools is None else _plain(tools),
        None if documents is None else _plain(list(documents)),
        _plain(dict(variables)),
        add_generation_prompt,
        frozenset(key for message in plain for key, value in message.items() if value is None),
    )


def _with_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    reasoning = next((message[key] for key in _REASONING if key in message), None)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def _plain(value: Any) -> Any:
    """``value`` in plain JSON types; an object of any other kind becomes the name of its type."""
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case Mapping():
            return {_plain(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case tuple():
            return tuple(_plain(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    if isinstance(value, np.generic):
        return _plain(value.item())
    if callable(getattr(value, "model_dump", None)):  # pydantic models
        return _plain(value.model_dump())
    return f"<{type(value).__name__}>"


def render(template: jinja2.Template, given: Inputs, tokens: Mapping[str, str]) -> str:
    """The rendered text.

    Raises :class:`~toktier.errors.ChatTemplateError` where the template raises or fails.
    """
    from jinja2 import TemplateError, UndefinedError

    variables: dict[str, Any] = {
        **tokens,
        **given.variables,
        "messages": given.messages,
        "tools": given.tools,
        "documents": given.documents,
        "add_generation_prompt": given.add_generation_prompt,
    }
    try:
        return template.render(variables)
    except TemplateError as problem:
        hint = _hint(given) if isinstance(problem, UndefinedError) else ""
        raise ChatTemplateError(f"the chat template refuses these messages: {problem}{hint}") from problem
    except (TypeError, ValueError, KeyError, AttributeError, LookupError, ArithmeticError) as problem:
        raise ChatTemplateError(
            f"the chat template fails on these messages ({type(problem).__name__}: {problem}){_hint(given)}"
        ) from problem


def _hint(given: Inputs) -> str:
    """What in the messages may be the reason why a template fails."""
    hints = []
    for number, message in enumerate(given.messages):
        if isinstance(message.get("content"), list | tuple):
            hints = [f"the content of message number {number} is a list, and this template may take text only"]
            break
    if given.left_out:
        hints.append(f"what is None is left out of messages, here {', '.join(sorted(map(str, given.left_out)))}")
    return f" ({'; '.join(hints)})" if hints else ""


def with_surrogate(messages: Sequence[Any]) -> int | None:
    """The number of the first message that has a lone surrogate somewhere."""
    for number, message in enumerate(messages):
        try:
            json.dumps(message, ensure_ascii=False, skipkeys=True).encode()
        except UnicodeEncodeError:
            return number
    return None
