"""Kernels as moves see them: those that a source only includes are copied into it, under names of
their own, and may be written out.

The file that they come from stays as it is. A copy stands in the namespaces of its original and
differs from it in nothing but its name, so that a move edits it like any kernel of the source, and
the whole of it is in the diff. Plans name the lines where they are in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from msgspec.structs import replace

from astra_tui.cuda_source.functions import Function, function_declarator, functions_of
from astra_tui.cuda_source.syntax import field, last_line_of, line_of, parse
from astra_tui.model.counters import Counters, Place
from astra_tui.model.launch import find_plan, plan_of
from astra_tui.model.plan import Citation, CodePlace, Observation, Plan
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.edits import rewritten

_LINES = re.compile(r"\blines? \d+(?: to \d+)?(?:(?:, | and )\d+(?: to \d+)?)*")
_NUMBER = re.compile(r"\d+")
_OF_LINES = ("lines", "loops")
"""Parameters whose choices are lines."""


class CannotBring(Exception):
    """Why a kernel that a source launches cannot be copied into it."""


@dataclass(frozen=True)
class BroughtIn:
    """A source with the kernels that it includes: where each line of the copies comes from."""

    text: str
    origin: Mapping[int, tuple[str, int]]
    """Lines of the text that are copies, each with its file and the line there; the file "" is the
    source."""
    said: str
    """What was copied and written out, in sentences."""

    def written(self, text: str, said: str) -> BroughtIn:
        """With a text in which the same is written in other words, line for line where it can."""
        before, after = (t.splitlines() for t in (self.text, text))
        origin = {}
        for _, first, last, begin, end in SequenceMatcher(None, before, after, False).get_opcodes():
            for line in range(begin, end):
                old = min(first + line - begin, max(last - 1, first)) + 1
                origin[line + 1] = self.origin.get(old, ("", old))
        return BroughtIn(text, origin, f"{self.said} {said}".strip())

    def counted(self, counters: Counters) -> Counters:
        """The counts, at lines of copies where they were at lines of the included files."""
        at: dict[Place, int] = {}
        for line, (file, number) in self.origin.items():
            at.setdefault((0, f"{file}:{number}") if file else (number, ""), line)

        def moved(place: Place) -> int:
            return at.get(place, place[0])

        return replace(
            counters,
            accesses=tuple(replace(a, line=moved(a.place)) for a in counters.accesses),
            lines=tuple(replace(c, line=moved(c.place)) for c in counters.lines),
        )

    def placed(self, plan: Plan) -> Plan:
        """A plan for the text, with the lines of copies where they are in their files.

        Which lines change cannot be set: their numbers are those of several files.
        """
        return replace(
            plan,
            bottleneck=self.words(plan.bottleneck),
            change=f"{self.said} {self.words(plan.change)}",
            evidence=tuple(map(self._evidence, plan.evidence)),
            places=self._places(plan.places),
            parameters=tuple(p for p in plan.parameters if p.name not in _OF_LINES),
        )

    def within(self, places: tuple[CodePlace, ...]) -> tuple[CodePlace, ...]:
        """Places as `placed` gives them, in the text."""
        at: dict[tuple[str, int], int] = {}
        for line, origin in self.origin.items():
            at.setdefault(origin, line)
        return tuple(
            CodePlace(at[p.file, p.first], at[p.file, p.last])
            if (p.file, p.first) in at and (p.file, p.last) in at else p
            for p in places
        )  # fmt: skip

    def words(self, text: str) -> str:
        """A sentence whose lines of copies are named where they are in their files."""

        def moved(match: re.Match[str]) -> str:
            numbers = [int(n) for n in _NUMBER.findall(match[0])]
            files = {self.origin[n][0] for n in numbers if n in self.origin} - {""}
            name = " and ".join(sorted(file.rpartition("/")[2] for file in files))
            return _NUMBER.sub(self._number, match[0]) + (f" of {name}" if name else "")

        return _LINES.sub(moved, text)

    def _number(self, match: re.Match[str]) -> str:
        return str(self.origin.get(int(match[0]), ("", int(match[0])))[1])

    def _evidence(self, evidence: str | Observation) -> str | Observation:
        if isinstance(evidence, str):
            return self.words(evidence)
        cites = tuple(self._citation(c) for c in evidence.cites)
        return Observation(self.words(evidence.sentence), cites)

    def _citation(self, citation: Citation) -> Citation:
        return replace(citation, lines=self._places(citation.lines))

    def _places(self, places: tuple[CodePlace, ...]) -> tuple[CodePlace, ...]:
        return tuple(map(self._place, places))

    def _place(self, place: CodePlace) -> CodePlace:
        if place.first not in self.origin or place.last not in self.origin:
            return place
        (file, first), (_, last) = self.origin[place.first], self.origin[place.last]
        return CodePlace(first, last, file)


def bring_in(source: str, included: Mapping[str, str], credit: str) -> BroughtIn | None:
    """A source with copies of the kernels that it launches and has only by `#include`.

    None where it has all of them itself. `included` are texts by the name under which counters
    know a file, `credit` says whose they are. Raises CannotBring, and PlanError for a plan that
    cannot be read.
    """
    own = {function.path for function in functions_of(parse(source)) if function.is_kernel}
    missing = {launch.kernel for launch in plan_of(source).launches()} - own
    if not missing or not included:
        return None
    text, copied = source.rstrip("\n") + "\n", []
    origin: dict[int, tuple[str, int]] = {}
    for path in sorted(missing):
        file, kernel = _definition(path, included)
        name = _fresh(f"{kernel.name}_own", (source, *included.values()))
        first, last = line_of(kernel.outer), last_line_of(kernel.outer)
        lines = f"{file} at lines {first} to {last}"
        text = _renamed_in_plan(text, path, path[: len(path) - len(kernel.name)] + name)
        text += f"\n// As in {lines}, under another name.\n// {credit}\n"
        spaces = path.rpartition("::")[0]
        text += f"namespace {spaces} {{\n" if spaces else ""
        begin = text.count("\n") + 1
        origin |= {begin + n: (file, first + n) for n in range(last - first + 1)}
        text += _under_name(kernel, name, included[file].encode()) + "\n"
        text += f"}}  // namespace {spaces}\n" if spaces else ""
        copied.append(f"{name} is a copy of {path}, {lines}.")
    return BroughtIn(text, origin, " ".join(copied))


def _definition(path: str, included: Mapping[str, str]) -> tuple[str, Function]:
    """The file that defines a kernel, and the kernel there."""
    name = path.rpartition("::")[2]
    found = [
        (file, function)
        for file, text in included.items() if re.search(rf"\b{name}\b", text)
        for function in functions_of(parse(text))
        if function.is_kernel and function.path == path
    ]  # fmt: skip
    if len(found) != 1:
        several = "several definitions" if found else "no definition"
        raise CannotBring(f"{path} has {several} that can be read in the files that are included")
    ((file, function),) = found
    if function.outer.has_error:
        raise CannotBring(f"{path}: the grammar does not follow its text in {file}")
    if function.outer != function.node and not function.template:
        raise CannotBring(f"{path} is a specialisation in {file}")
    return file, function


def _fresh(name: str, texts: tuple[str, ...]) -> str:
    while any(re.search(rf"\b{name}\b", text) for text in texts):
        name += "_"
    return name


def _under_name(kernel: Function, name: str, file: bytes) -> str:
    declarator = function_declarator(kernel.node)
    assert declarator is not None
    return rewritten(file, kernel.outer, [put(field(declarator, "declarator"), name)])


def _renamed_in_plan(source: str, path: str, name: str) -> str:
    plan = find_plan(source)
    text = re.sub(rf"(?<![\w:]){re.escape(path)}(?![\w:])", name, source[plan.begin : plan.end])
    return source[: plan.begin] + text + source[plan.end :]
