"""Who wrote which character of a rendered chat: the template, or the messages.

A user's message may hold the text ``<|im_end|>``.  Once the chat is one string, nothing tells it from the
``<|im_end|>`` that the template wrote to end a turn; so the difference must be kept while rendering.  Here every
string that a template handles is a :class:`Traced`: a ``str`` that behaves like any other, for the template too,
and carries the :class:`Origin` of each of its characters.  Strings of the template begin as ``TEMPLATE``, those
of the messages as ``CONTENT`` (or ``TRUSTED``, see below); joining, slicing, stripping, splitting and replacing
keep track.  Where an operation that is not traced mixes strings of several origins, the result is ``UNKNOWN``,
and so is a string that it makes of something else; the caller must not guess there.

Because a traced string equals its text, the template takes the same decisions as without tracing: nothing is
inserted into the messages that a condition or a ``trim`` could meet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, SupportsIndex

from ..arguments import is_one_of
from . import rendering

if TYPE_CHECKING:
    import jinja2

# What a role may consist of to count as a part of the template's own writing (`'<|' + message.role + '|>'`).
_WORD = re.compile(r"[A-Za-z0-9_-]+")


class Origin(IntEnum):
    """Where a character comes from."""

    TEMPLATE = 0
    TRUSTED = 1
    """A message of a trusted role: what the model itself said."""
    CONTENT = 2
    UNKNOWN = 3


#: Origins as (end position, origin), in order, the last end being the length.
Runs = tuple[tuple[int, Origin], ...]


class Traced(str):
    """A string that knows the origin of its characters.

    ``runs`` is not meant for templates, which cannot see it (the sandbox hides names with an underscore).
    """

    __slots__ = ("_runs",)
    _runs: Runs

    def __new__(cls, text: str, origin: Origin | Runs = Origin.UNKNOWN) -> Traced:
        self = super().__new__(cls, text)
        if isinstance(origin, tuple):
            self._runs = origin
        else:
            self._runs = ((len(text), origin),) if text else ()
        return self

    def __str__(self) -> str:
        return self

    # --- operations that keep every character's origin ---------------------------------

    def __add__(self, other: str) -> str:
        return concat((self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> str:
        return concat((other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> str:
        return concat([self] * count.__index__())

    __rmul__ = __mul__

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        text = str.__getitem__(self, key)
        if not isinstance(key, slice):
            position = key.__index__() % len(self)
            return self._slice(text, position)
        start, _, step = key.indices(len(self))
        return self._slice(text, start) if step == 1 else self._mixed(text)

    def __iter__(self) -> Iterator[str]:
        return (self._slice(character, at) for at, character in enumerate(str.__iter__(self)))

    def strip(self, chars: str | None = None, /) -> str:
        return self._slice(str.strip(self, chars), len(self) - len(str.lstrip(self, chars)))

    def lstrip(self, chars: str | None = None, /) -> str:
        return self._slice(str.lstrip(self, chars), len(self) - len(str.lstrip(self, chars)))

    def rstrip(self, chars: str | None = None, /) -> str:
        return self._slice(str.rstrip(self, chars), 0)

    def removeprefix(self, prefix: str, /) -> str:
        text = str.removeprefix(self, prefix)
        return self._slice(text, len(self) - len(text))

    def removesuffix(self, suffix: str, /) -> str:
        return self._slice(str.removesuffix(self, suffix), 0)

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._located(str.split(self, sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._located(str.rsplit(self, sep, maxsplit), sep)

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines = self._located(str.splitlines(self, True), "")
        if keepends:
            return lines
        bare = str.splitlines(self)
        return [line[: len(text)] for line, text in zip(lines, bare, strict=True)]

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        before, middle, after = self._located(list(str.partition(self, sep)), "")
        return before, middle, after

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        before, middle, after = self._located(list(str.rpartition(self, sep)), "")
        return before, middle, after

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        if not old:
            return self._mixed(str.replace(self, old, new, count), new)
        return join(new, self.split(old, count))

    def join(self, parts: Iterable[str], /) -> str:
        return join(self, parts)

    def _slice(self, text: str, start: int) -> Traced:
        """``text``, which stands at ``start``."""
        stop = start + len(text)
        runs: list[tuple[int, Origin]] = []
        if text:
            for end, origin in self._runs:
                if end > start:
                    runs.append((min(end, stop) - start, origin))
                    if end >= stop:
                        break
        return Traced(text, tuple(runs))

    def _located(self, parts: list[str], separator: str | None) -> list[str]:
        """Parts that stand in this string one after another, ``separator`` in between (None: white space)."""
        found: list[str] = []
        position = 0
        for part in parts:
            start = str.find(self, part, position) if separator is None else position
            found.append(self._slice(part, start))
            position = start + len(part) + len(separator or "")
        return found

    # --- and those that keep it if there is but one ---------------------------------------

    def _mixed(self, text: str, *others: object) -> Traced:
        origins = {origin for _, origin in self._runs}
        for other in others:
            if isinstance(other, str) and other:
                origins.update(origin for _, origin in _runs(other))
        return Traced(text, origins.pop() if len(origins) == 1 else Origin.UNKNOWN)


def _untraced(name: str) -> Callable[..., Any]:
    method = getattr(str, name)

    def call(self: Traced, *args: Any, **kwargs: Any) -> Any:
        return self._mixed(method(self, *args, **kwargs), *args, *kwargs.values())

    call.__name__ = name  # the sandbox looks at it
    return call


for _name in (
    *("capitalize", "casefold", "center", "expandtabs", "ljust", "lower", "rjust", "swapcase", "title"),
    *("upper", "zfill"),
):
    setattr(Traced, _name, _untraced(_name))


def _runs(text: str) -> Runs:
    if isinstance(text, Traced):
        return text._runs
    return ((len(text), Origin.UNKNOWN),) if text else ()


def concat(parts: Iterable[str]) -> Traced:
    """The parts in a row."""
    pieces = list(parts)
    runs: list[tuple[int, Origin]] = []
    length = 0
    for piece in pieces:
        for end, origin in _runs(piece):
            if runs and runs[-1][1] is origin:
                runs.pop()
            runs.append((length + end, origin))
        length += len(piece)
    return Traced("".join(pieces), tuple(runs))


def join(separator: str, parts: Iterable[str]) -> Traced:
    """``separator.join(parts)``."""
    pieces: list[str] = []
    for part in parts:
        pieces += (separator, part)
    return concat(pieces[1:])


def origins(text: str) -> Runs:
    """The origins of a rendered text's characters."""
    return _runs(text)


# --- rendering with traced strings ------------------------------------------------------------


def _own(text: str) -> Traced:
    return Traced(text, Origin.TEMPLATE)


def _environment() -> jinja2.Environment:
    made = rendering.environment()
    from jinja2 import pass_eval_context
    from jinja2.compiler import CodeGenerator

    class TracingGenerator(CodeGenerator):
        """Makes every string constant of the template a traced one, and joins strings by :func:`concat`."""

        def visit_Const(self, node: Any, frame: Any) -> None:
            self.write(_python_source(node.value))

        def _output_const_repr(self, group: Iterable[Any]) -> str:
            return f"environment.own({super()._output_const_repr(group)})"

        def visit_Concat(self, node: Any, frame: Any) -> None:
            self.write("environment.concat(map(str, (")
            for child in node.nodes:
                self.visit(child, frame)
                self.write(", ")
            self.write(")))")

    made.code_generator_class = TracingGenerator
    made.concat = concat  # type: ignore[method-assign]
    made.own = lru_cache(maxsize=None)(_own)  # type: ignore[attr-defined]
    made.globals["strftime_now"] = lambda format: _own(rendering.strftime_now(format))
    made.filters["tojson"] = _to_json
    plain_safe, plain_join = made.filters["safe"], made.filters["join"]

    def traced_safe(value: Any) -> Any:
        return value if isinstance(value, Traced) else plain_safe(value)

    @pass_eval_context
    def traced_join(context: Any, value: Any, d: str = _own(""), attribute: Any = None) -> Any:
        return plain_join(context, value, d, attribute)  # which asks ``d`` to join, so it must be traced

    made.filters.update(safe=traced_safe, join=traced_join)
    return made


def _python_source(value: Any) -> str:
    """Python source of a constant, in which strings are traced."""
    match value:
        case str():
            return f"environment.own({str.__str__(value)!r})"
        case tuple():
            return "(" + "".join(_python_source(item) + ", " for item in value) + ")"
        case list():
            return "[" + ", ".join(map(_python_source, value)) + "]"
        case dict():
            pairs = (f"{_python_source(key)}: {_python_source(item)}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
    return repr(value)


def _to_json(value: Any, *args: Any, **kwargs: Any) -> Traced:
    """JSON counts as the work of the least trusted string in it; without one, as the template's."""
    return Traced(rendering.to_json(value, *args, **kwargs), max(_strings(value), default=Origin.TEMPLATE))


def _strings(value: Any) -> Iterator[Origin]:
    match value:
        case str():
            yield from (origin for _, origin in _runs(value))
        case Mapping():
            for key, item in value.items():
                yield from _strings(key)
                yield from _strings(item)
        case list() | tuple():
            for item in value:
                yield from _strings(item)


@lru_cache(maxsize=32)
def compiled(source: str) -> jinja2.Template:
    """The template with this source, compiled so that rendering gives a traced text."""
    return rendering.compile_with(_environment(), source)


def render(source: str, given: rendering.Inputs, tokens: Mapping[str, str], trusted: frozenset[str]) -> str:
    """The rendered text, traced.  Messages whose role is in ``trusted`` have the origin ``TRUSTED``.

    A role, where it is a single word, and the tokenizer's special tokens count as the template's writing; tools,
    documents and variables count as content.
    """
    traced = rendering.Inputs(
        [_traced_message(message, trusted) for message in given.messages],
        _traced(given.tools, Origin.CONTENT),
        _traced(given.documents, Origin.CONTENT),
        {name: _traced(value, Origin.CONTENT) for name, value in given.variables.items()},
        given.add_generation_prompt,
    )
    return rendering.render(compiled(source), traced, {role: _own(token) for role, token in tokens.items()})


def _traced_message(message: dict[str, Any], trusted: frozenset[str]) -> dict[str, Any]:
    role = message.get("role")
    found: dict[str, Any] = _traced(message, Origin.TRUSTED if is_one_of(role, trusted) else Origin.CONTENT)
    if isinstance(role, str) and _WORD.fullmatch(role):
        found["role"] = _own(role)
    return found


def _traced(value: Any, origin: Origin) -> Any:
    match value:
        case str():
            return Traced(value, origin)
        case dict():
            return {_traced(key, origin): _traced(item, origin) for key, item in value.items()}
        case list():
            return [_traced(item, origin) for item in value]
        case tuple():
            return tuple(_traced(item, origin) for item in value)
    return value
