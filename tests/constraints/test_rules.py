"""Sorts of constraint, each with three diffs: no rule is ever wrong, and most sorts are decided."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from astra_tui.constraints import Version, check_constraints
from astra_tui.constraints.reading import read
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.compiler.headers import HeaderTree
from astra_tui.model.compilation import assembly_in, instructions_in
from astra_tui.model.constraints import Compliance, Constraint, Judge, Origin
from astra_tui.model.task import KernelTask

FILE = Path(__file__).with_name("sorts.toml")
SORTS: list[dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))["sort"]
DIFFS = {"keeps": "kept", "breaks": "broken", "respelled": "broken"}
LEAST_DECIDED = 12


@pytest.fixture(scope="module")
def versions(tasks: dict[str, KernelTask], compiler: Compiler) -> dict[tuple[str, str], Version]:
    """Every source of the file, compiled for its task's workloads; by sort and diff."""
    found = {}
    for sort in SORTS:
        task = tasks[sort["kernel"]]
        base = changed(task.baseline_file.read_text(encoding="utf-8"), sort.get("base", []))
        sources = {"base": base, **{diff: changed(base, sort[diff]) for diff in DIFFS}}
        for diff, text in sources.items():
            found[sort["name"], diff] = compiled(text, task, compiler)
    return found


WITH_HEADER = [sort for sort in SORTS if "header" in sort]


def header_of(sort: dict[str, Any]) -> str:
    body = sort["header"]
    return f"#pragma once\n__device__ float more(float x, unsigned* counter) {{\n  {body}\n}}\n"


@pytest.fixture(scope="module")
def with_header() -> Iterator[Compiler]:
    """A compiler for sources that include the header of a sort, by its number."""
    headers = {f"{n}.cuh": header_of(sort) for n, sort in enumerate(WITH_HEADER)}
    with Compiler(
        upstream=HeaderTree("lib", frozenset(headers), headers.__getitem__, ("",))
    ) as opened:
        yield opened


def changed(text: str, edits: list[list[str]]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def compiled(text: str, task: KernelTask, compiler: Compiler) -> Version:
    expressions = kernels_to_compile(task, read_source(task, text, ""), workload_cases(task))
    compilation = compiler.compile(text, expressions)
    assert compilation.ok, compilation.diagnostics
    texts = {path: compiler.upstream.read(path) for path in compiler.included(text).paths}  # type: ignore[union-attr]
    seen = instructions_in(compilation.ptx), assembly_in(compilation.ptx)
    return Version(text, task, compilation.kernels, *seen, texts)


def verdict(said: str, base: Version, new: Version) -> str:
    """What rules say of a constraint: kept only where each part of it is."""
    rulings = check_constraints([Constraint(Origin.NOTE, said)], base, new)
    found = {r.compliance for r in rulings}
    assert all((r.judge is Judge.RULE) == (r.compliance != "undecided") for r in rulings)
    assert all(r.why for r in rulings if r.judge)
    if Compliance.BROKEN in found:
        return "broken"
    return "kept" if found == {Compliance.KEPT} else "undecided"


@pytest.mark.parametrize("sort", SORTS, ids=lambda s: s["name"])
def test_rules_say_what_they_can(
    sort: dict[str, Any], versions: dict[tuple[str, str], Version]
) -> None:
    name, says = sort["name"], sort.get("says", {})
    base = versions[name, "base"]
    for diff, truth in DIFFS.items():
        expected = says.get(diff, truth)
        assert expected in (truth, "undecided")  # No rule is ever wrong.
        assert verdict(sort["said"][0], base, versions[name, diff]) == expected, diff


@pytest.mark.parametrize("sort", WITH_HEADER, ids=lambda s: s["name"])
def test_rules_are_not_blind_to_what_a_source_includes(
    sort: dict[str, Any], tasks: dict[str, KernelTask], with_header: Compiler
) -> None:
    said, task = sort["said"][0], tasks["silu_and_mul"]
    baseline = task.baseline_file.read_text(encoding="utf-8")
    first, call = "#include <stdint.h>", ["(T)(silu * up)", "(T)more(silu * up, (unsigned*)out)"]
    include = f'#include "{WITH_HEADER.index(sort)}.cuh"\n{first}'
    texts = {
        "plain": baseline,
        "includes": changed(baseline, [[first, include]]),
        "calls": changed(baseline, [[first, include], call]),
        "has it": changed(baseline, [[first, header_of(sort)[13:] + first], call]),
    }
    found = {name: compiled(text, task, with_header) for name, text in texts.items()}
    for base in ("plain", "includes"):
        assert verdict(said, found[base], found["calls"]) != "kept"
        assert verdict(said, found["calls"], found[base]) != "broken"
    assert verdict(said, found["includes"], found["plain"]) == "kept"
    assert verdict(said, found["plain"], found["has it"]) == "broken"
    assert verdict(said, found["calls"], found["has it"]) == "undecided", "it was there before"


def test_assembly_is_decided_also_where_the_base_only_includes_files(
    tasks: dict[str, KernelTask], with_header: Compiler
) -> None:
    """As in an edit of a plan: the source that it starts from holds nothing but an include."""
    (number,) = (n for n, s in enumerate(WITH_HEADER) if s["name"] == "no inline assembly")
    task = tasks["silu_and_mul"]
    own = task.baseline_file.read_text(encoding="utf-8")
    base = compiled(
        changed(
            own,
            [["#include <stdint.h>", f'#include "{number}.cuh"\n#include <stdint.h>'],
             ["(T)(silu * up)", "(T)more(silu * up, nullptr)"]],
        ),
        task,
        with_header,
    )  # fmt: skip
    assembly = ["const float silu", 'asm volatile("" ::: "memory");\n    const float silu']
    said = "Use no inline assembly."
    assert verdict(said, base, compiled(changed(own, [assembly]), task, with_header)) == "broken"
    assert verdict(said, base, compiled(own, task, with_header)) == "kept"
    same = compiled(changed(base.text, [["expf(-gate)", "__expf(-gate)"]]), task, with_header)
    assert verdict(said, base, same) == "kept", "no assembly is new"
    more = compiled(changed(base.text, [assembly]), task, with_header)
    assert verdict(said, base, more) == "broken"


def test_at_least_twelve_of_at_least_twenty_sorts_are_decided_by_rule() -> None:
    decided = [s["name"] for s in SORTS if not s.get("says")]
    assert len(SORTS) >= 20
    assert len(decided) >= LEAST_DECIDED


@pytest.mark.parametrize("sort", [s for s in SORTS if len(s["said"]) > 1], ids=lambda s: s["name"])
def test_a_demand_is_read_in_several_wordings(sort: dict[str, Any]) -> None:
    first, *others = (
        {(d.sort, d.number, d.name, d.narrowed) for d in read(said).demands}
        for said in sort["said"]
    )
    assert len(first) == 1
    for said, demands in zip(sort["said"][1:], others, strict=True):
        assert demands == first, said


@pytest.mark.parametrize(
    "said",
    [
        "no need for shuffles",
        "why are there no shuffles?",
        "there are no shuffles yet, add some",
        "you may use shuffles",
        "no shared memory beyond what there is",
        "no fewer than 128 threads per block",
        "instead of atomics take a second pass",
        "between 128 and 256 threads",
        "maybe no atomics",
        "prefer few registers",
        "keep the accuracy as it is",
        "not only shuffles",
        "no shuffles were used before",
    ],
)
def test_what_demands_something_else_is_left_to_a_reader(said: str) -> None:
    assert not read(said).demands


def test_a_demand_on_a_part_is_narrowed() -> None:
    for said in (
        "no shuffles in the tail",
        "if d is odd, no shuffles",
        "no shuffles, except in the last warp",
        "no shuffles but in the last warp",
    ):
        reading = read(said)
        assert [(d.sort.value, d.narrowed) for d in reading.demands] == [("shuffles", True)], said


def test_lists_and_what_follows_from_them() -> None:
    reading = read("no atomics, shuffles or barriers and at most 128 threads per block, never 256")
    assert [d.sort.value for d in reading.demands] == [
        "atomics", "shuffles", "barriers", "threads a block at most",
    ]  # fmt: skip
    assert reading.demands[-1].number == 128
    assert not reading.unread
    assert read("no atomics and leave the rest").unread == ["leave the rest"]


def test_a_demand_on_a_part_is_never_broken_by_rule(
    versions: dict[tuple[str, str], Version],
) -> None:
    base, new = versions["no shuffles", "base"], versions["no shuffles", "breaks"]
    assert verdict("no shuffles in the tail", base, new) == "undecided"
    assert verdict("no shuffles in the tail", base, base) == "kept"


def test_what_was_said_later_allows_what_was_forbidden(
    versions: dict[tuple[str, str], Version],
) -> None:
    said = [Constraint(Origin.NOTE, t) for t in ("no shuffles", "shuffles are fine after all")]
    base, new = versions["no shuffles", "base"], versions["no shuffles", "breaks"]
    (ruling,) = check_constraints(said, base, new)
    assert ruling.compliance is Compliance.UNDECIDED
    assert "allows it" in ruling.why


def test_what_the_base_has_is_no_break_of_the_diff(
    versions: dict[tuple[str, str], Version],
) -> None:
    new = versions["no shuffles", "breaks"]
    assert verdict("no shuffles", new, new) == "undecided"


def test_refused_lines_are_found_again_under_other_names(
    versions: dict[tuple[str, str], Version], compiler: Compiler, tasks: dict[str, KernelTask]
) -> None:
    task = tasks["fused_add_rmsnorm"]
    refused = "  float best = sum;\n  if (best > 1024.0f) best = 0.5f * best;\n  sum = best;\n"
    at = "  partial[threadIdx.x] = sum;\n"
    base = versions["no shuffles", "base"]
    hunk = Constraint(Origin.HUNK, refused, "clamp", 1)

    def ruled(lines: str) -> list[tuple[str, str]]:
        new = compiled(changed(base.text, [[at, lines + at]]), task, compiler)
        return [(r.compliance.value, r.why) for r in check_constraints([hunk], base, new)]

    assert ruled(refused) == [("broken", "the refused lines are there again")]
    reworded = refused.replace("best", "clamped").replace("  ", " ")
    (found,) = ruled(reworded)
    assert found == ("broken", "the refused lines are there again, with other names")
    assert ruled("  sum = fminf(sum, 1024.0f);\n") == [("undecided", "")]
