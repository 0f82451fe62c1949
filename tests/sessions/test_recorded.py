"""The recorded sessions that come with the project: whole, small, and replayed to their digests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_tui.model.fold import fold
from astra_tui.model.sass import unpacked
from astra_tui.model.task import load_task
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.integrity import check_integrity
from astra_tui.sessions.journal_reader import is_packed, read_journal

ROOT = Path(__file__).resolve().parents[2] / "sessions"
RECORDED = sorted(ROOT.glob("h[12]00-*"))
TASKS = {"silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse"}
SHIPPED = {"flashinfer_silu_and_mul", "sglang_fused_add_rmsnorm", "vllm_static_int8_quant"}


def test_there_is_one_for_every_task_and_one_with_decisions():
    settings = [read_journal(folder).state().opened.settings for folder in RECORDED]
    assert {s.task for s in settings} == TASKS | SHIPPED
    assert any("scripted by the authors" in s.title for s in settings)


def test_the_task_of_each_is_kept_but_for_one_that_the_readme_names():
    tasks = [*(ROOT.parent / "kernels").iterdir(), *(ROOT.parent / "examples").iterdir()]
    hashes = {load_task(folder).hash for folder in tasks if (folder / "task.toml").exists()}
    without = [f for f in RECORDED if read_journal(f).state().opened.task_hash not in hashes]
    assert [folder.name for folder in without] == ["h100-playbook-rmsnorm"]


@pytest.mark.parametrize("folder", RECORDED, ids=lambda f: f.name)
def test_a_replay_reaches_the_digest_that_the_live_engine_wrote(folder):
    *before, closed = read_journal(folder).events
    assert fold(before).digest() == closed.digest


@pytest.mark.parametrize("folder", RECORDED, ids=lambda f: f.name)
def test_it_is_whole_packed_and_small(folder):
    integrity, state = check_integrity(folder)
    assert integrity.flaws == ()
    assert is_packed(folder)
    assert sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) < 1_000_000
    assert folder.name[:4].upper() in state.device.gpu.name


@pytest.mark.parametrize("folder", RECORDED, ids=lambda f: f.name)
def test_every_verdict_rests_on_a_timing_or_says_why_not(folder):
    state = read_journal(folder).state()
    for round_ in state.rounds:
        for proposal in round_.proposals:
            verdict = proposal.verdict
            assert verdict is not None
            if verdict.outcome.measured:
                timing = state.candidate(verdict.candidate).timing(verdict.base)
                assert timing.speedup == verdict.comparison.speedup


@pytest.mark.parametrize("folder", RECORDED, ids=lambda f: f.name)
def test_the_machine_code_is_that_of_the_profiles(folder):
    profiled = [c for c in read_journal(folder).state().candidates.values() if c.profile]
    assert profiled
    for candidate in profiled:
        kernels = unpacked(read_blob(folder, candidate.machine_code)).kernels
        assert [(k.name, k.histogram) for k in kernels] == [
            (code.kernel, code.histogram) for code in candidate.profile.code
        ]


def test_answers_by_hand_came_after_their_prompts_and_are_named_so():
    folders = sorted(ROOT.glob("h200-partner-*"))
    states = [read_journal(folder).state() for folder in folders]
    assert {state.opened.settings.model for state in states} == {"by-hand"}
    assert all(state.best != state.opened.baseline for state in states)
    log = (ROOT.parent / "benchmarks" / "results" / "partner_log.jsonl").read_text()
    asked = {}
    for line in map(json.loads, log.splitlines()):
        if line["answered"]:
            assert asked[line["prompt"]] <= line["answer_written"]
        asked.setdefault(line["prompt"], line["at"])
