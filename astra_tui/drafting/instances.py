"""Sizes that a kernel and its launcher accept as template arguments, as a compiler tells.

What they assert (`static_assert(kDim % 256 == 0)`), and what their types can hold, is C++ that only
a compiler evaluates. So every size of a ladder is instantiated, in one text that is made to fail,
and each error tells by its context which of them it refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from astra_tui.drafting.expressions import plan_expression
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import PlanError
from astra_tui.model.launch.evaluate import Evaluator
from astra_tui.model.launch.expression import names_in
from astra_tui.model.launch.scope import RESERVED_NAMES, Bindings

Errors = Callable[[str], Sequence[Sequence[str]]]
"""For each error of a text, the instantiations that led there, as the compiler names them."""

_LADDERS = (
    (),
    (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 320, 384, 512, 576, 768, 1024, 1536, 2048, 2560,
     4096, 5120, 8192),
    (16, 64, 128, 192, 256, 512, 1024, 2048),
    (32, 64, 128, 512),
)  # fmt: skip
"""Sizes to try of one dimension, and of each of two and three."""
_ROUNDS = 3
"""An error that two sizes share is told once, with one of them."""
_MOST = 4
_WITH = re.compile(r'"[^"]*?(?:[\w ]+ )?([\w:]+)<.*\[with (.*)\]"')
_NUMBER = re.compile(r"(\w+)=(?:\([^()]*\))?(-?\d+)[UL]*(?=,|$)")

_Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Template:
    """A template with its arguments in the plan's language, by parameter: `kDim` is `head_dim`."""

    name: str
    arguments: Mapping[str, str]


@dataclass(frozen=True)
class Instances:
    """The templates that depend on dimensions of a draft, and the file that declares them."""

    files: Mapping[str, str]
    """The project's files by the names under which they are included."""
    include: str
    """The name under which the source's own file is included."""
    dims: tuple[str, ...]
    kernel: Template
    launcher: Template | None
    """The class of the function that launches the kernel."""
    element: DType
    offered: Mapping[str, _Sizes] = field(default_factory=dict)
    """Of some dimensions the sizes that Python passes: no others are tried."""

    def accepted(self, errors: Errors) -> dict[str, _Sizes]:
        """Sizes of each dimension that are accepted with all those of the others.

        Empty where no size is accepted, or more dimensions depend on each other than are tried.
        """
        if not 0 < len(self.dims) < len(_LADDERS):
            return {}
        ladder = _LADDERS[len(self.dims)]
        ladders = ([n for n in ladder if n in self.offered.get(d, ladder)] for d in self.dims)
        left = list(product(*ladders))
        was_first = False
        for _ in range(_ROUNDS if left else 0):
            refused = self._refused(left, errors(self._text(left)))
            is_first = refused == {left[0]}
            left = [sizes for sizes in left if sizes not in refused]
            if not refused or not left or (is_first and was_first):
                break  # Twice only the first: it is an error of all sizes, told with one of them.
            was_first = is_first
        return dict(zip(self.dims, _rectangle(left), strict=True)) if left else {}

    def _text(self, tried: Sequence[_Sizes]) -> str:
        """A text that instantiates the templates with each of the sizes, and fails at the end."""
        lines = [f'#include "{self.include}"']
        for number, sizes in enumerate(tried):
            lines.append(f"auto* astra_tui_{number} = &{self._written(self.kernel, sizes)};")
            if self.launcher is not None:
                lines.append(f"static_assert(sizeof({self._written(self.launcher, sizes)}) > 0);")
        return "\n".join((*lines, "static_assert(false);", ""))

    def _written(self, template: Template, sizes: _Sizes) -> str:
        arguments = (self._argument(text, sizes) for text in template.arguments.values())
        return f"{template.name}<{', '.join(arguments)}>"

    def _argument(self, text: str, sizes: _Sizes) -> str:
        value = self._value(text, sizes)
        if value is not None:
            return str(value)
        named = next((d for d in DType if d.value == text), None)
        plain = text.strip('"') if text.startswith('"') else named.cuda if named else text
        return re.sub(r"\bT\b", self.element.cuda, plain)

    def _value(self, text: str, sizes: _Sizes) -> int | None:
        """The value of a whole number in the plan's language, None for a type or C++ text.

        Other dimensions are taken as 1.
        """
        is_type = text == "T" or any(d.value == text for d in DType)
        expression = plan_expression(text) if not is_type else None
        if expression is None or text.strip('"') != text:
            return None
        others = dict.fromkeys(names_in(expression) - RESERVED_NAMES, 1)
        try:
            known = others | dict(zip(self.dims, sizes, strict=True))
            bindings = Bindings(self.element, known, {})
            value = Evaluator(bindings).value(expression)
        except (PlanError, AssertionError, KeyError):
            return None
        return value if isinstance(value, int) else None

    def _refused(self, tried: Sequence[_Sizes], errors: Sequence[Sequence[str]]) -> set[_Sizes]:
        """The sizes whose templates stand in the context of an error."""
        named = [
            dict(self._numbers(template, sizes)) for sizes in tried for template in self._all()
        ]
        found: set[_Sizes] = set()
        for name, numbers in (context for error in errors for context in _contexts(error)):
            for place, wanted in enumerate(named):
                template = self._all()[place % len(self._all())]
                is_same = name.rpartition("::")[2] == template.name.rpartition("::")[2]
                if is_same and wanted and wanted.items() <= numbers.items():
                    found.add(tried[place // len(self._all())])
        return found

    def _all(self) -> tuple[Template, ...]:
        return (self.kernel,) if self.launcher is None else (self.kernel, self.launcher)

    def _numbers(self, template: Template, sizes: _Sizes) -> Iterator[tuple[str, int]]:
        """The numbers among a template's arguments that depend on the sizes."""
        for parameter, text in template.arguments.items():
            expression = plan_expression(text)
            if expression is not None and names_in(expression) & set(self.dims):
                value = self._value(text, sizes)
                if value is not None:
                    yield parameter, value


def _contexts(error: Sequence[str]) -> Iterator[tuple[str, dict[str, int]]]:
    """The templates that an error's lines name, with the numbers that they were given."""
    for line in error:
        match = _WITH.search(line)
        if match:
            yield match[1], {n: int(value) for n, value in _NUMBER.findall(match[2])}


def _rectangle(accepted: Sequence[_Sizes]) -> tuple[_Sizes, ...]:
    """Sizes of each dimension, every combination of which is accepted."""
    known = set(accepted)
    usual = [
        sorted({sizes[n] for sizes in accepted}, key=_unusual) for n in range(len(accepted[0]))
    ]
    first = min(accepted, key=lambda sizes: [_unusual(size) for size in sizes])
    chosen: list[list[int]] = [[size] for size in first]
    for _ in range(_MOST - 1):
        for place, sizes in enumerate(usual):
            for size in sizes:
                others = [*chosen[:place], [size], *chosen[place + 1 :]]
                if size not in chosen[place] and known.issuperset(product(*others)):
                    if len(chosen[place]) < _MOST:
                        chosen[place].append(size)
                    break
    return tuple(tuple(sorted(sizes)) for sizes in chosen)


def _unusual(size: int) -> tuple[bool, bool, int]:
    """Orders sizes: powers of two from 64 on first, the smallest first."""
    return size < 64, size & (size - 1) != 0, size
