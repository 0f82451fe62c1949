"""compute-sanitizer's text: read completely, whatever it is, and in the words of findings."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.sanitizer.interpretation import Interpretation, interpret
from astra_tui.gpu.sanitizer.records import CodeLocation, Log, Record, read_log, read_place
from astra_tui.model.findings import Finding, FindingKind
from tests.gpu_tools import texts

PLACED = {"out": (0x1000, 16384), "input": (0x9000, 32768)}


def meaning(text: str) -> Interpretation:
    def address(match: re.Match[str]) -> str:
        return hex(PLACED[match[1]][0] + int(match[2] or 0))

    return interpret(read_log(re.sub(r"@(\w+)([+-]\d+)?@", address, text)), PLACED)


def only(text: str) -> Finding:
    found = meaning(text)
    assert not found.unread
    assert len(found.findings) == 1
    return found.findings[0]


def test_reports_of_many_threads_about_one_line_are_one_finding_at_the_first_of_them() -> None:
    finding = only(texts.OUT_OF_BOUNDS)
    assert finding.kind is FindingKind.GLOBAL_OUT_OF_BOUNDS
    assert finding.line == 24
    assert finding.kernel == "void silu_and_mul<__half>"
    assert (finding.thread, finding.block, finding.lanes) == ((0, 0, 0), (64, 0, 0), 2)
    assert finding.instruction == "0x4d0"
    assert finding.message == (
        "write of 2 bytes in global memory, out of bounds, 0 bytes past the end of out"
    )


def test_reports_of_a_real_gpu_are_understood() -> None:
    finding = only(texts.REAL_OUT_OF_BOUNDS)
    assert finding == Finding(
        FindingKind.GLOBAL_OUT_OF_BOUNDS,
        "read of 2 bytes in global memory, out of bounds, 0 bytes past the end of input",
        line=19,
        kernel="void silu_and_mul<__half>",
        block=(0, 0, 0),
        thread=(0, 0, 0),
        lanes=1,
        instruction="0x490",
    )
    finding = only(texts.REAL_UNINITIALISED)
    assert (finding.kind, finding.line) == (FindingKind.UNINITIALISED_GLOBAL, 22)
    assert (finding.block, finding.lanes) == ((8, 0, 0), 2)
    assert "at byte 2048 of out" in finding.message
    assert read_log(texts.REAL_UNINITIALISED).errors == 8192


def test_a_race_that_a_real_gpu_reports_for_two_launches_is_one_finding() -> None:
    finding = only(texts.REAL_RACE)
    assert finding.kind is FindingKind.SHARED_RACE
    assert finding.line == 23
    assert finding.message == "write in line 23 and read in line 24, nothing between"


def test_a_misaligned_read_in_a_function_names_its_callers_in_the_source() -> None:
    finding = only(texts.MISALIGNED)
    assert finding.kind is FindingKind.MISALIGNED
    assert (finding.line, finding.callers) == (12, (30,))
    assert (finding.thread, finding.block) == ((3, 1, 2), (7, 8, 9))
    assert "at byte 2 of input" in finding.message


def test_a_race_names_all_its_places_and_a_warning_stays_one() -> None:
    found = meaning(texts.RACE)
    (race,) = found.findings
    assert race.kind is FindingKind.SHARED_RACE
    assert race.line == 41
    assert race.message == (
        "write in line 41 and read in line 51 and write in line 52, nothing between"
    )
    (warning,) = found.warnings
    assert warning.message == "write in line 41 and write in line 41, nothing between"


def test_an_uninitialised_read_says_where_in_which_buffer() -> None:
    finding = only(texts.UNINITIALISED)
    assert finding.kind is FindingKind.UNINITIALISED_GLOBAL
    assert finding.line == 23
    assert "at byte 318 of out" in finding.message


def test_a_barrier_inside_a_header_is_shown_at_the_line_that_called_it() -> None:
    finding = only(texts.DIVERGENT)
    assert finding.kind is FindingKind.DIVERGENT_BARRIER
    assert finding.line == 60
    assert finding.kernel == "k"
    assert finding.thread == (32, 0, 0)


def test_the_count_is_that_of_all_errors_and_not_of_the_printed_ones() -> None:
    assert read_log(texts.UNINITIALISED).errors == 4096
    assert read_log(texts.OUT_OF_BOUNDS).errors == 3
    race = read_log(texts.RACE)
    assert (race.errors, race.warnings) == (1, 1)


def test_a_log_without_its_summary_has_no_count() -> None:
    cut = texts.OUT_OF_BOUNDS.partition("========= ERROR SUMMARY")[0]
    assert read_log(cut).errors is None
    assert read_log("").errors is None


def test_what_has_no_kind_is_kept_in_the_words_of_the_tool() -> None:
    found = meaning(
        "========= COMPUTE-SANITIZER\n"
        "========= Barrier error detected. Missing wait.\n"
        "=========     at k()+0x10 in kernel.cu:3\n"
        "========= Something new\n"
        "========= ERROR SUMMARY: 2 errors\n"
    )
    assert not found.findings
    assert found.unread == ("Barrier error detected. Missing wait.", "Something new")


def test_an_api_error_alone_is_not_passed_over() -> None:
    head = 'Program hit CUDA_ERROR_ILLEGAL_INSTRUCTION (error 715) due to "x" on CUDA API call'
    found = meaning(f"========= {head}\n========= ERROR SUMMARY: 1 error\n")
    assert found.unread == (head,)


def test_places_of_old_and_new_versions() -> None:
    new = "kernel(int *)+0x90 in kernel.cu:41"
    old = "0x90 in /tmp/kernel.cu:41:kernel(int*)"
    assert read_place(new) == CodeLocation("kernel(int *)", "0x90", "kernel.cu", 41)
    assert read_place(old) == CodeLocation("kernel(int*)", "0x90", "/tmp/kernel.cu", 41)
    assert read_place("0x41b0 in triton_kernel") == CodeLocation("triton_kernel", "0x41b0")
    assert read_place("kernel()+0x50") == CodeLocation("kernel()", "0x50")
    assert read_place("kernel() in [vector] in kernel.cu:7") is not None


WORDS = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=12)
HEADS = (
    st.lists(WORDS, min_size=1, max_size=5)
    .map(" ".join)
    .filter(lambda text: "SUMMARY" not in text and text != "COMPUTE-SANITIZER")
)
RECORDS = st.lists(st.builds(Record, HEADS, st.lists(HEADS, max_size=4).map(tuple)), max_size=6)


@given(RECORDS, st.lists(HEADS.filter(lambda text: not text.startswith("="))))
def test_records_come_back_as_they_were_written(records: list[Record], others: list[str]) -> None:
    lines = [*others]
    for record in records:
        lines.append(f"========= {record.head}")
        lines += [f"=========     {detail}" for detail in record.details]
        lines.append("=========")
    assert read_log("\n".join(lines)) == Log(tuple(records), None)


PIECES = st.sampled_from(
    [
        "=========", "========= ", "=========     ", "at ", "by thread (", "1,2,3", ") in block (",
        "Invalid __", "global", "__ write of size ", "4 bytes", "Race reported between ", "Write",
        " access at ", "k()+0x10 in kernel.cu:", "9", "and Read", " [", " hazards]",
        "Barrier error", " detected. Divergent", "Address 0x", "f00", " is misaligned",
        "ERROR SUMMARY: ", " errors",
        "Uninitialized __shared__ memory read of size ", "\n", "\n", "\n========= ", "Warning: ",
    ]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join)))
def test_any_text_is_read_and_nothing_of_it_is_lost(text: str) -> None:
    log = read_log(text)
    found = interpret(log, PLACED)
    reported = found.findings + found.warnings
    assert all(f.line >= 0 for f in reported)
    primary = [r for r in log.records if not r.head.startswith(("Program hit", "Target app"))]
    assert bool(primary) <= bool(reported or found.unread)
