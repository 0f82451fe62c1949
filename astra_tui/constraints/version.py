"""One source as rules look at it: its text, its launch plan, and what a compiler made of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from astra_tui.constraints.bounds import Bounds
from astra_tui.cuda_source.functions import Function, functions_of
from astra_tui.cuda_source.syntax import parse
from astra_tui.model.compilation import CompiledKernel
from astra_tui.model.errors import UserError
from astra_tui.model.launch import LaunchPlan, Refused, find_plan, plan_of, resolve
from astra_tui.model.launch.resolve import ResolvedLaunch
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.task import KernelTask

_COMMENT_OR_TEXT = re.compile(
    r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//(?:\\\n|[^\n])*|/\*.*?\*/',
    re.DOTALL,
)
_TOKEN = re.compile(r'\w+|"(?:\\.|[^"\\\n])*"|\S')
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(\w+)([^\n]*)", re.MULTILINE)


@dataclass(frozen=True)
class Version:
    """A source of a task, with its compilation for every kernel that the task's cases need."""

    text: str
    task: KernelTask
    kernels: tuple[CompiledKernel, ...]
    instructions: tuple[str, ...]
    """As `instructions_in` finds them."""
    assembly: tuple[str, ...] = ()
    """As `assembly_in` finds it."""
    included: Mapping[str, str] = field(default_factory=dict)
    """The texts of the upstream files that the source includes, by their names."""

    @cached_property
    def code(self) -> str:
        """The text with comments, the launch plan among them, as blanks; places stay."""
        return _without_comments(self.text)

    @cached_property
    def included_code(self) -> Mapping[str, str]:
        """The same of the files that it includes."""
        return {name: _without_comments(text) for name, text in self.included.items()}

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The functions that the source defines, by name; of several, the last."""
        return functions_in(self.code)

    @cached_property
    def plan(self) -> LaunchPlan:
        """Its launch plan."""
        return plan_of(self.text)

    @cached_property
    def plan_text(self) -> str:
        """The launch plan as it is written, blanks joined."""
        return " ".join(find_plan(self.text).text.split())

    @cached_property
    def bounds(self) -> Bounds:
        """What the numbers of the launch plan can be."""
        return Bounds(self.plan)

    @cached_property
    def launches(self) -> tuple[ResolvedLaunch, ...]:
        """What runs on the task's workloads; nothing of one that cannot be worked out."""
        return tuple(self._launches())

    @property
    def opcodes(self) -> frozenset[str]:
        """The distinct instructions and directives of the compiled code, with their suffixes."""
        return frozenset(self.instructions)

    def directives(self, *names: str) -> list[tuple[str, int]]:
        """What follows preprocessor directives of these names, each with its line."""
        return directives_in(self.code, *names)

    def find(self, pattern: re.Pattern[str]) -> int:
        """The line of the first match in the code; 0 where there is none."""
        match = pattern.search(self.code)
        return self.line_at(match.start()) if match else 0

    def find_included(self, pattern: re.Pattern[str]) -> str:
        """The first file with a match that the source includes; "" where there is none."""
        found = (name for name, code in self.included_code.items() if pattern.search(code))
        return next(found, "")

    def has_from(self, other: Version, pattern: re.Pattern[str]) -> bool:
        """Whether every match in the code stands, with the lines that it spans and the next one, in
        a file that another version includes: it was moved here and need not be new.
        """
        known = [" ".join(code.split()) for code in other.included_code.values()]
        around = (self._around(match) for match in pattern.finditer(self.code))
        return all(any(lines in code for code in known) for lines in around)

    @property
    def pastes(self) -> bool:
        """Whether macros may make names that the text does not hold."""
        return "##" in self.code or "%:%:" in self.code

    def line_at(self, offset: int) -> int:
        """The line of a place in the code, from 1."""
        return self.code.count("\n", 0, offset) + 1

    def _around(self, match: re.Match[str]) -> str:
        """The lines of a match and the one after it, blanks joined."""
        begin = self.code.rfind("\n", 0, match.start()) + 1
        end = self.code.find("\n", self.code.find("\n", match.end()) + 1)
        return " ".join(self.code[begin : end if end >= 0 else None].split())

    def _launches(self) -> Iterator[ResolvedLaunch]:
        scalars = {n: a.choices[0] for n, a in self.task.args.items() if a.choices}
        for workload in self.task.workloads:
            placed = self.task.placements(workload.dims, workload.dtype)
            layouts = self.task.bindings(workload.dims, workload.dtype, placed).layouts
            try:
                found = resolve(
                    self.plan, Bindings(workload.dtype, workload.dims, layouts, scalars)
                )
            except UserError:
                continue
            if not isinstance(found, Refused):
                yield from found.launches


def functions_in(code: str) -> dict[str, Function]:
    """The functions that code without comments defines, by name; of several, the last."""
    return {f.name: f for f in functions_of(parse(code))}


def directives_in(code: str, *names: str) -> list[tuple[str, int]]:
    """What follows preprocessor directives of these names, each with its line."""
    return [
        (" ".join(m[2].split()), code.count("\n", 0, m.start(1)) + 1)
        for m in _DIRECTIVE.finditer(code)
        if m[1] in names
    ]


def tokens(code: str) -> tuple[str, ...]:
    """A text without comments, as words, texts and signs."""
    return tuple(_TOKEN.findall(_COMMENT_OR_TEXT.sub(_blank_comment, code)))


def _without_comments(text: str) -> str:
    return _COMMENT_OR_TEXT.sub(_blank_comment, text.replace("\\\n", "  "))


def _blank_comment(match: re.Match[str]) -> str:
    found = match[0]
    return found if found[0] not in "/" else re.sub(r"[^\n]", " ", found)
