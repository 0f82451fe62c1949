"""Mutants of kernel sources: each has one barrier, guard or bounds term less than the original."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from astra_tui.model.launch import find_plan


@dataclass(frozen=True)
class Mutant:
    """A changed source, and what was changed where."""

    name: str
    line: int
    text: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a kernel source."""
    plan = find_plan(source)
    for name, begin, end, replacement in _edits(source, plan.begin, plan.end):
        line = source.count("\n", 0, begin) + 1
        shown = " ".join(source[begin:end].split())
        yield Mutant(f"{name}: {shown}", line, source[:begin] + replacement + source[end:])


def _edits(source: str, plan_begin: int, plan_end: int) -> Iterator[tuple[str, int, int, str]]:
    for match in re.finditer(r"__sync(threads|warp)\(\);", source):
        yield "barrier removed", *match.span(), ";"
    for match in re.finditer(
        r"\bif (?P<condition>\((?:[^()]|\([^()]*\))*\)) (?P<body>\{|[^{;]*;)", source
    ):
        begin, end = match.span("condition")
        yield "guard always true", begin, end, "(true)"
        if match["body"] != "{":
            yield "guarded statement removed", *match.span(), ";"
    choice = (
        r"(?<= = )(?P<condition>[^;?=]+(?:== [^;?]+)?) \? (?P<yes>[^:?;]+) : (?P<no>[^;]+)(?=;)"
    )
    for match in re.finditer(choice, source):
        if not plan_begin <= match.start() < plan_end:
            yield "choice always taken", *match.span(), match["yes"]
            yield "choice never taken", *match.span(), match["no"]
    for match in re.finditer(r"; (?P<bound>\w+ < [^;]+);", source):
        yield "loop one too far", *match.span("bound"), match["bound"].replace("<", "<=", 1)
    for match in re.finditer(r"; (?P<bound>\w+ > 0);", source):
        yield "loop one short", *match.span("bound"), match["bound"].replace("> 0", "> 1")
    yield from _plan_edits(source, plan_begin, plan_end)


def _plan_edits(source: str, begin: int, end: int) -> Iterator[tuple[str, int, int, str]]:
    plan = source[begin:end]
    for match in re.finditer(r"\bwhen (?P<condition>[^:]+):", plan):
        first = begin + match.start("condition")
        terms = re.split(r"\s+and\s+", match["condition"])
        if len(terms) == 1:
            yield "plan condition always true", first, begin + match.end("condition"), "0 == 0"
        for term in terms if len(terms) > 1 else ():
            kept = " and ".join(t for t in terms if t is not term)
            yield f"plan term '{term}' dropped from", first, begin + match.end("condition"), kept
    for match in re.finditer(r"ceil_div\(", plan):
        depth, position = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(plan[position], 0)
            position += 1
        inner = plan[match.end() : position - 1]
        cut = _top_level_comma(inner)
        replacement = f"(({inner[:cut]}) // ({inner[cut + 1 :]}))"
        yield "plan rounds down", begin + match.start(), begin + position, replacement


def _top_level_comma(text: str) -> int:
    depth = 0
    for position, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            return position
    raise ValueError(text)
