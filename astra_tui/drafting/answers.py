"""What an engineer answers where a source does not say: the answers file of `astra-tui new`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
import tomli_w

from astra_tui.model.dtypes import OF_SPELLING, DType
from astra_tui.model.errors import Place, UserError, value_words
from astra_tui.model.task import Acceptance, ArgumentRole

_NAMED_KEY = re.compile(r"`\$?\.?([\w.\[\]]+)`|\b((?:template|python|plan|args|dims)\.[\w.]+)")
_SOURCE_KEYS = ("from", "kernel", "include", "define", "whole")


class Ask(Protocol):
    """Adds an open point to the draft; `key` is what answers it in an answers file."""

    def __call__(self, text: str, key: str = "", line: int = 0) -> None:
        """Notes the point, unless its key is answered; `line` shows where it comes from."""


class ArgumentAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[args.NAME]`, as in task.toml."""

    role: ArgumentRole | None = None
    dtype: str = ""
    shape: tuple[str, ...] = ()
    values: dict[str, Any] = {}
    limit: float | None = None
    choices: tuple[float, ...] = ()


class DimensionAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[dims.NAME]`: the sizes to try."""

    sizes: tuple[int, ...]


class ContractAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[contract]`: conditions on top of those that the draft reads."""

    accepts: tuple[str, ...] = ()


class PlanAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[plan]`: parts of the launch, in the language of launch plans."""

    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str = ""
    args: dict[str, str] = {}


class ToleranceAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[tolerance.TYPE]`, as in task.toml."""

    atol: float
    rtol: float = 0.0
    source: str = ""


class AcceptAnswer(Acceptance, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[[accept]]`, as in task.toml."""


class WorkloadAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[[workloads]]`, as in task.toml."""

    dims: dict[str, int]


TemplateAnswer = bool | int | str | tuple[int, ...]
"""A value of a template parameter: a number, C++ text, an element type, or sizes to try.

A C++ text with a body is the definition of a function that is passed.
"""


class Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An answers file: where the kernel is, and what its source does not say."""

    source: str = msgspec.field(default="", name="from")
    kernel: str = ""
    include: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    whole: bool = False
    """Whether baseline.cu includes the source as it is, and holds nothing of it."""
    launch: int = 0
    """The line of the launch to follow, 0 for the first."""
    dtypes: tuple[DType, ...] = ()
    rows: str | None = None
    reference: str = ""
    """The name of an operator, or the text of a reference.py."""
    template: dict[str, TemplateAnswer] = {}
    python: dict[str, bool | int | str] = {}
    """What is passed to the Python function that writes the launcher, by parameter."""
    plan: PlanAnswer = PlanAnswer()
    args: dict[str, ArgumentAnswer] = {}
    dims: dict[str, DimensionAnswer] = {}
    contract: ContractAnswer = ContractAnswer()
    tolerance: dict[DType, ToleranceAnswer] = {}
    workloads: tuple[WorkloadAnswer, ...] = ()
    accept: tuple[AcceptAnswer, ...] = ()
    """Findings and conditions that the task allows, as in task.toml."""

    @property
    def is_reference_text(self) -> bool:
        """Whether the reference is Python code of the engineer's."""
        return "def reference(" in self.reference

    def definitions(self) -> tuple[str, ...]:
        """The functions that are defined here to be template arguments."""
        texts = (value for value in self.template.values() if isinstance(value, str))
        return tuple(text.strip() for text in texts if defined_function(text))

    def keys(self) -> tuple[str, ...]:
        """What is answered, such as "template.T" or "args.x.role"; where the kernel is, is none."""
        return tuple(key for key in _leaves(msgspec.to_builtins(self)) if key not in _SOURCE_KEYS)

    def has(self, key: str) -> bool:
        """Whether a key or something below it is answered."""
        return any(k == key or k.startswith(f"{key}.") for k in self.keys())

    def resolved(self, folder: Path) -> Answers:
        """With the files that are named in an answers file looked up next to it.

        Raises UserError for a reference that cannot be read.
        """
        changed: dict[str, Any] = {"include": tuple(str(folder / root) for root in self.include)}
        if self.source and (folder / self.source).exists():
            changed["source"] = str(folder / self.source)
        if self.reference.endswith(".py"):
            file = folder / self.reference
            try:
                changed["reference"] = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UserError(f"cannot be read: {error}", file=str(file)) from None
        return msgspec.structs.replace(self, **changed)

    def text(self) -> str:
        """The file."""
        return tomli_w.dumps(msgspec.to_builtins(self))

    def with_answers(self, given: Mapping[str, str]) -> Answers:
        """With values as TOML writes them, by key; "" takes an answer back.

        Raises UserError when one cannot be the answer for its key.
        """
        data = msgspec.to_builtins(self)
        for key, text in given.items():
            place = data
            *above, last = key.split(".")
            for name in above:
                place = place.setdefault(name, {})
            if text:
                place[last] = typed(text)
            else:
                place.pop(last, None)
        return _converted(_without_empty(data), "the answer")

    def written(self) -> dict[str, str]:
        """The answers as TOML writes them, by key."""
        data = msgspec.to_builtins(self)
        return {key: toml_text(_at(data, key)) for key in self.keys()}

    def dtype_of(self, name: str) -> DType | None:
        """The element type that a template parameter is answered with, None for another answer."""
        value = self.template.get(name)
        return element_type(value) if isinstance(value, str) else None


def defined_function(text: str) -> str:
    """The name of the function that a C++ text defines, "" for any other text."""
    found = re.match(r"[^{]*?(\w+)\s*\([^{]*\)\s*(?:noexcept\s*)?\{", text)
    return found[1] if found is not None else ""


NO_ANSWERS = Answers()


def read_answers(text: str, file: str) -> Answers:
    """The answers in a TOML text. Raises UserError with the place in it."""
    try:
        return _converted(msgspec.toml.decode(text), file)
    except msgspec.DecodeError as error:
        raise UserError(f"not TOML: {error}", file=file) from None
    except UserError as error:
        raise located(error, text, file) from None


def located(error: UserError, text: str, file: str) -> UserError:
    """An error that names a key of an answers file, with the line of the key."""
    named = _NAMED_KEY.search(error.message)
    if error.place.line or named is None:
        return error
    *above, last = re.sub(r"\[[^\]]*\]", "", named[1] or named[2]).strip(".").split(".")
    table, found = "", []
    for number, line in enumerate(text.split("\n"), 1):
        head = re.match(r"\s*\[+([^\]]*)\]+", line)
        table = head[1] if head else table
        is_inside = not above or ".".join(above) in (table, table.rpartition(".")[0])
        if (head and table.endswith(last)) or (is_inside and re.match(rf"\s*{last}\b", line)):
            found.append(number)
    place = Place(found[0]) if len(found) == 1 else None
    return UserError(error.message, file=file, place=place, hint=error.hint)


def _converted(data: object, file: str) -> Answers:
    try:
        return msgspec.convert(data, Answers)
    except msgspec.ValidationError as error:
        message, _, path = value_words(error).partition(" - at `$")
        unknown = re.search(r"unknown field `(\w+)`", message)
        key = ".".join(filter(None, (path.strip("`."), unknown[1] if unknown else "")))
        said = f"unknown key `{key}`" if unknown else f"`{key}`: {message}"
        raise UserError(
            said, file=file, hint="the keys are in docs/kernel-task.md, Answers"
        ) from None


def _leaves(table: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict) and name != "values":
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def typed(text: str) -> object:
    """A value as TOML writes it; what is none is a text."""
    try:
        return msgspec.toml.decode(f"value = {text}")["value"]
    except msgspec.DecodeError:
        return text


def toml_text(value: object, *, quoted: bool = False) -> str:
    """A value on one line of TOML; a text without quotes where it is read as one all the same."""
    match value:
        case str():
            plain = not quoted and "\n" not in value and typed(value) == value
            return value if plain else json.dumps(value, ensure_ascii=False)
        case Mapping():
            parts = (f"{name} = {toml_text(each, quoted=True)}" for name, each in value.items())
            return f"{{ {', '.join(parts)} }}"
        case list() | tuple():
            return f"[{', '.join(toml_text(each, quoted=True) for each in value)}]"
        case _:
            return json.dumps(value)


def _at(table: Mapping[str, Any], key: str) -> object:
    found: Any = table
    for name in key.split("."):
        found = found[name]
    return found


def _without_empty(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table without tables in it that say nothing."""
    inner = {
        name: _without_empty(value) if isinstance(value, dict) else value
        for name, value in table.items()
    }
    return {name: value for name, value in inner.items() if value != {}}


def element_type(text: str) -> DType | None:
    """The element type of a name in task.toml or in C++, None for another text."""
    return DType(text) if text in {d.value for d in DType} else OF_SPELLING.get(text)
