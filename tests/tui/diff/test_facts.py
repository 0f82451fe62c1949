"""Marks and columns from what the lab says."""

from __future__ import annotations

from astra_tui.model.compilation import Diagnostic, Severity
from astra_tui.model.counters import AccessCount, Counters
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.sass import Instruction, InstructionClass
from astra_tui.tui.widgets.code.annotations import LineColumn, LineMark, MarkKind
from astra_tui.tui.widgets.code.facts import (
    counter_columns,
    diagnostic_marks,
    finding_marks,
    sass_column,
)


def test_diagnostics_keep_their_order_and_severity() -> None:
    said = [Diagnostic(Severity.WARNING, "unused", 3), Diagnostic(Severity.ERROR, "undefined", 1)]
    assert diagnostic_marks(said) == (
        LineMark(3, MarkKind.WARNING, "unused"),
        LineMark(1, MarkKind.ERROR, "undefined"),
    )


def test_the_same_fault_in_several_cases_is_one_mark() -> None:
    race = Finding(FindingKind.SHARED_RACE, "threads 0 and 1", line=7)
    printf = Finding(FindingKind.PRINTF, "called", launch_line=4)
    assert finding_marks([race, printf, race]) == (
        LineMark(4, MarkKind.WARNING, f"{printf.describe()}"),
        LineMark(7, MarkKind.FINDING, f"{race.describe()} (2 times)"),
    )


def test_counters_are_added_up_by_line() -> None:
    counters = Counters(
        accesses=(
            AccessCount(7, "global", "load", 4, 10, 40, 1280, 0),
            AccessCount(7, "global", "store", 2, 1, 2, 64, 0),
            AccessCount(9, "shared", "load", 4, 5, 0, 640, 0),
        )
    )
    assert counter_columns(counters) == (
        LineColumn("requests", {7: "11"}),
        LineColumn("sectors", {7: "42"}),
    )
    assert counter_columns(None) == ()


def test_instructions_stand_beside_their_lines() -> None:
    def instruction(name: str, line: int) -> Instruction:
        return Instruction(0, name, (), InstructionClass.OTHER, name, line=line)

    code = [instruction("FFMA", 3), instruction("LDG.128", 3), instruction("FFMA", 3)]
    (column,) = sass_column([*code, instruction("EXIT", 0)])
    assert column.values == {3: "FFMA 2, LDG.128 1"}
    assert sass_column([instruction("EXIT", 0)]) == ()
