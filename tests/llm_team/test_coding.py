"""The coding agent: what it is told, and which answers are code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from astra_tui.llm import BadAnswer, Truncated
from astra_tui.llm.llm_team import LlmTeam
from astra_tui.llm.roles.coding import coding_prompt, read_source, summary_of
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Brief, CodeDraft, Failure, NotWritten
from tests.llm.conftest import Scripted
from tests.llm_team.conftest import (
    Team,
    brief_of,
    fence,
    notes_of,
    plan_of,
    profile_of,
    reply,
    source,
    with_team,
)


def coded(
    server: Scripted, brief: Brief, failure: Failure | None = None, log: Team | None = None
) -> CodeDraft:
    log = log or Team()
    return with_team(server, lambda t: t.code(brief, plan_of(), failure, log.on_text), log)


def test_a_prompt_holds_the_plan_as_decided_the_language_and_the_refusals(
    task: KernelTask,
) -> None:
    plan = plan_of(change="the engineer wrote: only for even widths")
    prompt = coding_prompt(brief_of(task, constraints=notes_of("no inline PTX")), plan, None)
    for part in (
        "the engineer wrote: only for even widths",
        "no inline PTX",
        task.baseline_file.read_text(encoding="utf-8"),
        "ceil_div(a, b): a / b rounded up",
        "max_shared_memory_per_block",
        "- wgmma (Hopper's warpgroup tensor-core instructions): Run on a GPU, or write this part",
        "the WHOLE new file",
        "Step: coding, round 1.",
    ):
        assert part in prompt, part
    assert "It failed at the step" not in prompt


def test_after_a_failure_the_last_attempt_and_its_errors_are_shown(task: KernelTask) -> None:
    failure = Failure(source("broken"), "compile", 'line 20: identifier "reciprocal" is undefined')
    prompt = coding_prompt(brief_of(task), plan_of(), failure)
    assert source("broken") in prompt
    assert task.baseline_file.read_text(encoding="utf-8") in prompt
    assert 'It failed at the step "compile"' in prompt
    assert failure.message in prompt


def test_a_repair_of_wrong_code_shows_what_was_counted_of_it(task: KernelTask) -> None:
    failure = Failure(source("broken"), "check", "column 9 is wrong", profile_of(9_999))
    counted = "where its outputs are wrong it"
    prompt = coding_prompt(brief_of(task), plan_of(), failure)
    assert "9999 requests" in prompt.partition(counted)[2]
    assert counted not in coding_prompt(brief_of(task), plan_of(), replace(failure, profile=None))


def test_an_answer_is_streamed_and_becomes_the_source(task: KernelTask, server: Scripted) -> None:
    server.play(reply("Step: coding", fence(source("better"))))
    log = Team()
    draft = coded(server, brief_of(task), log=log)
    assert draft.source == source("better")
    assert draft.summary == "This is the file."
    assert "".join(text for _, text, _ in log.shown) == fence(source("better"))
    assert {role for role, _, _ in log.shown} == {"coding"}


@pytest.mark.parametrize(
    "entry",
    [
        {"text": fence(source("better")), "finish": "length"},
        {"text": fence(source("better"))[:400]},
        {"text": "I would vectorise the loads."},
        {"text": fence(source("better").split("template")[0] + "// ... existing code\n")},
        {"text": fence("__global__ void k() {}\n")},
    ],
    ids=["length", "open fence", "no code", "gap", "too short"],
)
def test_an_unusable_answer_is_asked_for_once_more(
    task: KernelTask, server: Scripted, entry: dict[str, object]
) -> None:
    bad = reply("Step: coding", **entry)
    server.play({**bad, "times": 1}, reply("Step: coding", fence(source("better"))))
    log = Team()
    assert coded(server, brief_of(task), log=log).source == source("better")
    assert "An earlier answer to this could not be used" in log.settled[1].request

    server.play(bad)
    with pytest.raises(NotWritten, match="no usable code"):
        coded(server, brief_of(task), log=(log := Team()))
    assert len(log.settled) == 2


def test_long_sources_are_changed_in_blocks(task: KernelTask, server: Scripted) -> None:
    long = task.baseline_file.read_text(encoding="utf-8") + "// tail\n" * 400
    brief = brief_of(task, source=long)
    assert "<<<<<<< SEARCH" in coding_prompt(brief, plan_of(), None)
    blocks = "<<<<<<< SEARCH\n#include <stdint.h>\n=======\n#include <cstdint>\n>>>>>>> REPLACE\n"
    server.play(reply("Step: coding", f"The header.\n{blocks}"))
    draft = coded(server, brief)
    assert draft.source == long.replace("<stdint.h>", "<cstdint>")
    assert draft.summary == "The header."

    server.play(reply("Step: coding", blocks.replace("#include <stdint.h>", "// tail")))
    with pytest.raises(NotWritten, match="matches 400 times"):
        coded(server, brief)


def test_only_whole_files_are_sources(task: KernelTask) -> None:
    current = task.baseline_file.read_text(encoding="utf-8")
    assert read_source(fence(current), current) == current
    with pytest.raises(BadAnswer, match="leaves out code"):
        read_source(fence(current + "// rest of the kernel\n"), current)
    with pytest.raises(Truncated):
        read_source(fence(current).removesuffix("```\n"), current)
    # A comment of the kernel's own that talks of a rest is no gap.
    talks = current + "// elements that are left over\n"
    assert read_source(fence(talks), current) == talks


def test_a_summary_is_what_stands_before_the_code() -> None:
    assert summary_of("Reads\n pairs.\n```cuda\nint x;\n```\nDone.") == "Reads pairs."
    assert summary_of("```cuda\nint x;\n```") == ""


def test_a_reflection_shows_both_profiles_and_every_earlier_attempt(task: KernelTask) -> None:
    brief = brief_of(task, profile_of(6144))
    first = Failure(brief.source.replace("step)", "2 * step)"), "check", "column 9 is wrong")
    slow = brief.source.replace("expf", "exp2f")
    failure = Failure(slow, "verdict", "worse: sectors", profile_of(9_999), earlier=(first,))
    prompt = coding_prompt(brief, plan_of(), failure)
    assert "9999 requests" in prompt
    assert "6144 requests" in prompt
    assert "worse: sectors" in prompt
    earlier = prompt.partition("Your earlier attempts at this plan")[2]
    assert "attempt 1, result at the step 'check': column 9 is wrong" in earlier
    assert "i += 2 * step)" in earlier
    repair = coding_prompt(brief, plan_of(), Failure(slow, "compile", "no", earlier=(first,)))
    assert "attempt 1, result at the step 'check': column 9 is wrong" in repair
    assert "KEEP" not in repair


def test_a_reflection_brings_code_a_reason_or_nothing(task: KernelTask, server: Scripted) -> None:
    brief, text = brief_of(task, profile_of()), source("better")
    failure = Failure(source("broken"), "verdict", "worse", profile_of())

    def reflected(answer: str) -> CodeDraft | str:
        server.play(reply("Step: coding", answer))

        async def use(team: LlmTeam) -> CodeDraft | str:
            return await team.reflect(brief, plan_of(), failure, lambda *_: None)

        return with_team(server, use)

    mended = reflected(fence(text))
    assert isinstance(mended, CodeDraft)
    assert mended.source == text
    assert reflected("KEEP: the idea\nbrings nothing.") == "the idea brings nothing."
    assert reflected(fence(failure.source)) == ""
    assert reflected("I am not sure.") == ""
