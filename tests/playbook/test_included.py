"""Moves on kernels that a source only includes: copied into it, checked, named where they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.counting import count, workload_case
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.upstream import included_texts, task_headers
from astra_tui.model.check import CheckReport, CheckVerdict
from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.digest import content_hash
from astra_tui.model.dtypes import DType
from astra_tui.model.plan import CodePlace, places_words
from astra_tui.model.state import CandidateState
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Brief, Tried
from astra_tui.model.verdict import Outcome, Profile, WorkloadProfile
from astra_tui.playbook import Evidence, Proposal, propose_all
from astra_tui.playbook.moves.combined import Combined
from astra_tui.playbook.playbook_team import PlaybookTeam
from astra_tui.playbook.propose import propose_as_set
from astra_tui.playbook.shipped.included import BroughtIn, CannotBring, bring_in
from tests.conftest import OracleHere
from tests.playbook.path import GPU
from tests.upstream_task import BASELINE, LIBRARY, OWN, upstream_task

pytestmark = pytest.mark.usefixtures("warm_processes")

ACT = "upstream/include/lib/act.cuh"
HEAD = "template <typename T>\n__global__"


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> KernelTask:
    return upstream_task(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def checker(task: KernelTask) -> Iterator[Checker]:
    with Compiler(upstream=task_headers(task)) as compiler, OracleHere(task) as oracle:
        yield Checker(task, Emulator(), compiler, oracle)


def offered(task: KernelTask, source: str, device: str = GPU) -> list[Proposal]:
    """What it proposes, each move alone."""
    evidence = Evidence(task, device=device, included=included_texts(task))
    return [p for p in propose_all(source, evidence)[0] if p.plan.move != Combined.name]


def test_a_copy_differs_in_its_name_alone_and_every_move_on_it_is_correct(checker, task) -> None:
    brought = bring_in(BASELINE, included_texts(task), "lib at 1.0, MIT")
    assert brought is not None
    whole = LIBRARY["include/lib/act.cuh"]
    begin = whole.index(HEAD)
    body = whole[begin : whole.index("\n}\n", begin) + 2]
    body = body.replace("silu_and_mul(", "silu_and_mul_own(")
    assert brought.text.startswith(BASELINE.replace("lib::silu_and_mul<", "lib::silu_and_mul_own<"))
    assert f"// lib at 1.0, MIT\nnamespace lib {{\n{body}\n}}  // namespace lib\n" in brought.text
    path, source = [], BASELINE
    for _ in range(4):
        new = [p for p in offered(task, source) if p.plan.move not in path]
        *_, report = checker.check(new[0].source, "candidate.cu", select_cases(task, ("*",))[::3])
        assert isinstance(report, CheckReport)
        assert report.verdict is CheckVerdict.PASSED, (new[0].plan.move, report.message)
        path, source = [*path, new[0].plan.move], new[0].source
    assert path[:3] == ["row_grid", "wide_accesses", "overlap_launches"]
    assert "lib/act.cuh" in source
    assert "lib::silu_and_mul_own_wide<T, " in source


def test_a_plan_cites_the_lines_of_the_file_as_they_were_counted(checker, task) -> None:
    case = workload_case(task, task.workloads[0].name, 2)
    source = read_source(task, BASELINE, "baseline.cu")
    counters = count(task, source, case, checker.compiler, Emulator()).counters
    evidence = Evidence(task, counters, included=included_texts(task))
    wide = next(p for p in propose_all(BASELINE, evidence)[0] if p.plan.move == "wide_accesses")
    assert {p.file for p in wide.plan.places} == {ACT}
    assert {p.name for p in wide.plan.parameters} >= {"pack_bytes"}
    assert wide.plan.change.startswith(
        f"silu_and_mul_own is a copy of lib::silu_and_mul, {ACT} at lines 10 to 17."
    )
    (observed, *_) = [o for o in wide.plan.observations if o.cites]
    assert "of act.cuh" in observed.sentence
    profile = Profile(GPU, (WorkloadProfile("w", {}, DType.FLOAT16, (), counters, 1, 1, 1),))
    cited = check_citations(observed, CandidateState("", profile=profile))
    assert cited
    assert {c.standing for c in cited} == {CitationStatus.AGREES}
    again = propose_as_set(BASELINE, wide.plan, evidence)
    assert again == wide


def test_what_gained_nothing_on_a_copy_is_not_tried_again(task) -> None:
    def moves(*tried: Tried) -> list[str]:
        parts = task, 1, content_hash(BASELINE), BASELINE, Profile(GPU, ())
        brief = Brief(*parts, tried=tried, included=included_texts(task))
        answer = asyncio.run(PlaybookTeam().plan(brief, 20, lambda _: None))
        return [d.plan.move for d in answer.plans if d.plan.move != Combined.name]

    for proposal in (p for p in offered(task, BASELINE) if p.plan.move in moves()):
        plan = proposal.plan
        for outcome in (Outcome.SAME, Outcome.WORSE, Outcome.WRONG, Outcome.NOT_COMPILED):
            tried = Tried(0, plan, "another base", outcome, (), BASELINE)
            assert moves(tried) == [m for m in moves() if m != plan.move]


def test_kernels_that_cannot_be_copied_are_refused_with_the_reason(task) -> None:
    texts = included_texts(task)
    twice = {**texts, "upstream/other.cuh": texts[ACT]}
    special = {ACT: texts[ACT].replace(HEAD, HEAD.replace("typename T", ""))}
    broken = {ACT: texts[ACT].replace("const int64_t step", "@@ $$ int64_t ((step")}
    for included, reason in (
        ({"upstream/bits.h": texts["upstream/include/lib/bits.h"]}, "has no definition"),
        (twice, "has several definitions"),
        (special, "is a specialisation"),
        (broken, "the grammar does not follow"),
    ):
        with pytest.raises(CannotBring, match=reason):
            bring_in(BASELINE, included, "")
        proposals, refused = propose_all(BASELINE, Evidence(task, device=GPU, included=included))
        assert not proposals
        assert all(reason in r.reason for r in refused)
    assert bring_in(OWN, texts, "") is None
    assert bring_in(BASELINE, {}, "") is None


def test_a_kernel_in_a_namespace_of_the_source_is_changed_where_it_is(checker, task) -> None:
    own = OWN.replace("template <typename T>", "namespace a::b {\ntemplate <typename T>") + "}\n"
    own = own.replace("act<T>", "a::b::act<T>", 1)
    proposals = offered(task, own)
    assert {p.plan.move for p in proposals} == {p.plan.move for p in offered(task, OWN)}
    for proposal in proposals:
        *_, report = checker.check(proposal.source, "own.cu", select_cases(task, ("*",))[::3])
        assert report.verdict is CheckVerdict.PASSED, (proposal.plan.move, report.message)


@given(st.data())
def test_lines_of_copies_are_named_where_they_are(data: st.DataObject) -> None:
    """Sentences and places are moved together, and places come back."""
    offset = data.draw(st.integers(1, 99))
    spans = data.draw(
        st.lists(st.tuples(st.integers(1, 99), st.integers(0, 9)), min_size=1, max_size=4)
    )
    brought = BroughtIn("", {n: ("upstream/a.cuh", n + offset) for n in range(1, 120)}, "")
    places = tuple(CodePlace(first, first + more) for first, more in spans)
    moved = tuple(CodePlace(p.first + offset, p.last + offset) for p in places)
    assert brought.words(f"at {places_words(places)}: x") == (
        f"at {places_words(moved)} of a.cuh: x"
    )
    named = tuple(CodePlace(p.first, p.last, "upstream/a.cuh") for p in moved)
    assert brought.within(named) == places
    assert brought.words("12 lines, line 500") == "12 lines, line 500"
