"""Sorts of constraint, each with three diffs: no rule is ever wrong, and most sorts are decided."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from astra_tui.constraints import Version, check_constraints
from astra_tui.constraints.reading import read
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.model.compilation import instructions_in
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


def changed(text: str, edits: list[list[str]]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def compiled(text: str, task: KernelTask, compiler: Compiler) -> Version:
    expressions = kernels_to_compile(task, read_source(task, text, ""), workload_cases(task))
    compilation = compiler.compile(text, expressions)
    assert compilation.ok, compilation.diagnostics
    return Version(text, task, compilation.kernels, instructions_in(compilation.ptx))


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
