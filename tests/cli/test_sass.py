"""`sass` as a command."""

from __future__ import annotations

import json

import pytest

from astra_tui.cli.exit_codes import ExitCode
from tests.cli.command import Shell

SILU = ("sass", "silu_and_mul")


def test_listing_has_source_lines_beside_it(shell: Shell) -> None:
    outcome = shell.run(*SILU, "tuned.cu")
    assert (outcome.code, outcome.err) == (ExitCode.OK, "")
    title, _, heading, *lines = outcome.out.splitlines()
    assert title.startswith("silu_and_mul, workload 16x4096, sm_90a, NVRTC ")
    assert heading == "tuned.cu: silu_and_mul_vec<__half, 8>"
    first = next(i for i, x in enumerate(lines) if "const P g = gate[i];" in x)
    then = next(i for i, x in enumerate(lines) if "const P u = up[i];" in x)
    assert any("LDG.E.128.CONSTANT" in x for x in lines[first:then])
    row = next(x for x in lines if x.startswith("LDG.128"))
    assert row.split() == ["LDG.128", "2", "2", "global", "load"]


def test_histogram_alone(shell: Shell) -> None:
    outcome = shell.run(*SILU, "baseline.cu", "--histogram")
    assert outcome.code == ExitCode.OK
    assert "LDG.U16" in outcome.out
    assert "desc[" not in outcome.out


def test_against_another_version(shell: Shell) -> None:
    outcome = shell.run(*SILU, "tuned.cu", "--against", "baseline.cu")
    assert outcome.code == ExitCode.OK
    lines = outcome.out.splitlines()
    assert "silu_and_mul<__half>  ->  silu_and_mul_vec<__half, 8>" in lines
    changes = {x.split()[0]: x.split()[1:3] for x in lines if x.startswith(("LDG.", "STG."))}
    assert changes["LDG.128"] == ["2", "+2"]
    assert changes["STG.U16"] == ["1", "-1"]
    assert any(x.startswith("-") and "LDG.E.U16" in x for x in lines)
    assert any(x.startswith("+") and "LDG.E.128.CONSTANT" in x for x in lines)


def test_against_itself_nothing_has_changed(shell: Shell) -> None:
    outcome = shell.run(*SILU, "baseline.cu", "--against", "baseline.cu")
    assert outcome.code == ExitCode.OK
    assert "the histograms are the same" in outcome.out
    assert "the instructions are the same, but for the numbers of registers" in outcome.out


def test_json_has_every_instruction_and_the_diff(shell: Shell) -> None:
    outcome = shell.run(*SILU, "tuned.cu", "--against", "baseline.cu", "--json")
    assert (outcome.code, outcome.err) == (ExitCode.OK, "")
    answer = json.loads(outcome.out)
    after, before = (s["disassembly"]["kernels"][0] for s in answer["sources"])
    for kernel in (after, before):
        assert sum(r["count"] for r in kernel["histogram"]) == len(kernel["instructions"])
    (diff,) = answer["diff"]["kernels"]
    assert (diff["before"], diff["after"]) == (before["name"], after["name"])
    assert sum(s["before"] is not None for s in diff["listing"]) == len(before["instructions"])
    assert sum(s["after"] is not None for s in diff["listing"]) == len(after["instructions"])


def test_one_kernel_and_one_workload_by_name(shell: Shell) -> None:
    named = ("--kernel", "silu_and_mul_vec", "--workload", "64x8192", "--histogram")
    outcome = shell.run(*SILU, "tuned.cu", *named, "--against", "baseline.cu")
    assert outcome.code == ExitCode.OK
    assert outcome.out.startswith("silu_and_mul, workload 64x8192, ")
    assert "silu_and_mul<__half>  ->  silu_and_mul_vec<__half, 8>" in outcome.out
    unknown = shell.run(*SILU, "tuned.cu", "--kernel", "silu_vec")
    assert unknown.code == ExitCode.BAD_INPUT
    assert "no kernel 'silu_vec' is launched" in unknown.err
    nowhere = shell.run(*SILU, "tuned.cu", "--workload", "64x8193")
    assert nowhere.code == ExitCode.BAD_INPUT
    assert "did you mean" in nowhere.err


@pytest.mark.usefixtures("sources")
def test_sources_that_do_not_compile_or_are_missing(shell: Shell) -> None:
    broken = shell.run(*SILU, "no_compile.cu", "--against", "good.cu", "--kernel", "silu_and_mul")
    assert broken.code == ExitCode.COMPILE_ERROR
    assert broken.out.startswith("COMPILE ERROR no_compile.cu\n  line 21: error: ")
    as_json = json.loads(shell.run(*SILU, "no_compile.cu", "--json").out)
    assert (as_json["sources"][0]["compiled"], as_json["diff"]) == (False, None)
    assert as_json["sources"][0]["disassembly"]["problem"] == "the source does not compile"
    missing = shell.run(*SILU, "missing.cu")
    assert (missing.code, missing.out) == (ExitCode.BAD_INPUT, "")


def test_the_listing_is_cut_at_the_edge_of_a_terminal(shell: Shell) -> None:
    outcome = shell.on_terminal(*SILU, "tuned.cu", NO_COLOR="1")
    assert outcome.code == ExitCode.OK
    listing = outcome.out[outcome.out.index(" addr loop") :]
    assert max(map(len, listing.splitlines())) == 80
