"""Real workers with scripted GPUs: timings alone on a GPU that has proven itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from astra_tui.engine import lab as lab_module
from astra_tui.engine.host import build_engine, open_session
from astra_tui.engine.lab import Lab
from astra_tui.engine.rerun import time_pair
from astra_tui.engine.sweeping import tuner_of
from astra_tui.export import find_winner
from astra_tui.gpu.gpu_process import Found
from astra_tui.lab.requests import NamedSource
from astra_tui.lab.tuning.tuner import Tuned
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.events import WorkersSeen
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.timing import Timing, TimingVerdict
from astra_tui.plain.console import text_lines
from astra_tui.playbook import Evidence
from astra_tui.playbook.space import space_of
from astra_tui.present.devices import status_lines
from astra_tui.present.document import fields
from astra_tui.present.files import as_markdown
from astra_tui.present.numbers import ratio
from astra_tui.present.report import compose
from astra_tui.present.sessions import ending_facts, result_blocks
from astra_tui.present.words import PORTFOLIO
from astra_tui.processes.child import Child
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_writer import Redactor
from astra_tui.workers import Workers, WorkersAsked, cluster, open_workers
from astra_tui.workers.roster import Roster, Use
from tests.conftest import ROOT
from tests.engine.scripted import ScriptedTeam, Session, Step, settings_of
from tests.gpu.script import FACTS, GPUS, OTHER_KIND
from tests.quick import SMALL_WORKLOAD, write_quick_task

pytestmark = pytest.mark.usefixtures("warm_processes")


@contextmanager
def gpu_workers(*names: str, seen: list[Roster] | None = None) -> Iterator[Workers]:
    """`--workers local` on a machine with these scripted GPUs; `seen` gets every roster."""

    def scripted(_module: str, **named: Any) -> Child:
        return Child("tests.workers.scripted_process", **named)

    here = Found(tuple(replace(GPUS[name], ordinal=n) for n, name in enumerate(names)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setattr(cluster, "Child", scripted)
        patch.setattr(cluster, "find_devices", lambda: here)
        changed = (seen if seen is not None else []).append
        with open_workers(WorkersAsked(), changed) as workers:
            yield workers


@pytest.fixture
def task(tmp_path: Path) -> KernelTask:
    return load_task(write_quick_task(tmp_path / "kernels", SMALL_WORKLOAD))


def takes(task: KernelTask, us: int, words: str = "") -> NamedSource:
    text = task.baseline_file.read_text(encoding="utf-8")
    return NamedSource(f"// scripted: {us} us{words}\n{text}", f"{us}.cu")


def did(seen: list[Roster], uuid: str) -> list[str]:
    """What a GPU did alone, in turn."""
    found: list[str] = []
    for roster in seen:
        for member in roster.members.values():
            alone = [d.words for d in member.jobs.values() if d.use is Use.ALONE]
            assert len(alone) <= 1
            assert not alone or not member.count(Use.GPU), "a timing has its GPU to itself"
            if member.gpu == uuid and alone and found[-1:] != alone:
                found += alone
    return found


def test_timings_go_to_gpus_that_tell_half_a_percent_apart(task: KernelTask) -> None:
    """Three GPUs, of which one is noisy; a timing that ends in trouble takes the proof back."""
    seen: list[Roster] = []
    base, dies = takes(task, 50), takes(task, 41, "\n// scripted: dies after 300 launches")

    async def run(workers: Workers) -> tuple[list[Timing], list[Timing]]:
        device = workers.device("cuda")
        assert device.uuid in (GPUS["first"].uuid, GPUS["second"].uuid, GPUS["noisy"].uuid)
        lab = Lab(task, device.name, workers=workers.of_kind(device.kind))
        try:
            at_once = (time_pair(lab, base, takes(task, us)) for us in (40, 45, 48))
            first = await asyncio.gather(*at_once)
            with pytest.raises(UserError):
                await time_pair(lab, base, dies)
            return first, [await time_pair(lab, base, takes(task, us)) for us in (42, 43)]
        finally:
            lab.close()

    with gpu_workers("first", "second", "noisy", seen=seen) as workers:
        first, later = asyncio.run(run(workers))
        lines = status_lines(workers.status)
    good = {GPUS["first"].uuid, GPUS["second"].uuid}
    assert {t.uuid for t in first} == good
    assert {t.uuid for t in later} <= good
    for timing, us in zip([*first, *later], (40, 45, 48, 42, 43), strict=True):
        assert timing.verdict is TimingVerdict.FASTER
        assert timing.speedup is not None
        assert timing.speedup.value == pytest.approx(50 / us, rel=0.01)
    for uuid in good:
        proof, *timed = did(seen, uuid)
        assert proof == "A/A timing"
        assert timed
        trouble = [n for n, words in enumerate(timed) if words == "timing 41 vs 50"]
        assert all(timed[n + 1 :][:1] in ([], ["A/A timing"]) for n in trouble)
    assert did(seen, GPUS["noisy"].uuid) == ["A/A timing"]
    assert sum(did(seen, uuid).count("A/A timing") for uuid in good) == 3, (
        "one again, after trouble"
    )
    assert lines[0].startswith("2 workers, 2 GPUs, 1 left out")
    (left_out,) = (line for line in lines if "left out:" in line)
    assert "gpu2: left out: its A/A timing tells no less than" in left_out


def test_a_sweep_on_two_gpus_finds_what_one_process_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sources are compiled by workers, and their trials timed on both GPUs at once."""
    two = SMALL_WORKLOAD + SMALL_WORKLOAD.replace("= 8", "= 16", 1)
    task = load_task(write_quick_task(tmp_path / "kernels", two))
    baseline = task.baseline_file.read_text(encoding="utf-8")
    text = f"// scripted by threads: 64=70 128=60 256=50 512=40 1024=55\n{baseline}"
    seen: list[Roster] = []

    async def swept(lab: Lab) -> tuple[Tuned, int]:
        space = space_of(text, Evidence(task, device=lab.device, arch=FACTS.arch))
        sources = space.sources()
        try:
            tuner = await tuner_of(lab, space, sources, task.workloads)
            tuned = await tuner.tune(share=0.3)
        finally:
            lab.close()
        return tuned, sources[tuned.portfolio.default][0]["threads"]

    def scripted_lab(_module: str, arguments: tuple[str, ...], name: str) -> Child:
        return Child("tests.gpu_tools.scripted_worker", arguments, name)

    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setattr(lab_module, "Child", scripted_lab)
        one, threads = asyncio.run(swept(Lab(task, "cuda:0")))
    with gpu_workers("first", "second", seen=seen) as workers:
        both, again = asyncio.run(swept(Lab(task, "cuda:0", workers=workers)))
    assert threads == again == 512
    assert one.portfolio.parts == both.portfolio.parts == ()
    assert one.trials == both.trials
    assert one.gpus == (GPUS["first"].uuid,)
    assert both.gpus == (GPUS["first"].uuid, GPUS["second"].uuid)
    timing = [{m.gpu for m in r.members.values() if m.count(Use.ALONE)} for r in seen]
    assert max(map(len, timing)) == 2, "at the same time"
    for uuid in both.gpus:
        proof, *timed = did(seen, uuid)
        assert (proof, {*timed}) == ("A/A timing", {"timing trials of a sweep"})


def test_gpus_of_two_kinds_end_with_a_portfolio_and_no_mean(
    task: KernelTask, tmp_path: Path
) -> None:
    """On the other kind the first candidate is faster than the session's best; a wrong mean of both
    would name neither. All of it is in the journal, with the GPU that measured.
    """
    for name in ("tuned.cu", "yardsticks.toml"):
        (task.folder / name).unlink()
    good_there = takes(task, 45, "\n// scripted elsewhere: 20 us").text
    steps = [Step("good there", (good_there,)), Step("good here", (takes(task, 30).text,))]
    settings = settings_of(rounds=2, reflections=0, repairs=0, sweep=0)
    seen: list[Roster] = []
    with gpu_workers("first", "second", "other", seen=seen) as workers:
        opened = open_session(tmp_path / "session", task, settings, Redactor())
        device = workers.device("cuda")
        assert device.kind == FACTS.name, "of this kind there are two"
        engine = build_engine(
            opened, task, settings, ScriptedTeam(steps), wait_for_engineer=False, device=device,
            workers=workers,
        )  # fmt: skip
        session = Session(opened, engine, ScriptedTeam(()))
        asyncio.run(session.run())
    found = read_session(tmp_path / "session")
    state = found.state
    assert found.trust.whole
    first, best = (r.proposals[0].attempts[0].candidate for r in state.rounds[1:])
    assert (state.best, state.gpu_name) == (best, FACTS.name)
    known = state.kinds[OTHER_KIND]
    assert known.winner == first
    assert known.reason == f"faster there than {short(best)}, the best on {FACTS.name}"
    baseline = state.rounds[0].base
    final = known.timing(first, baseline, final=True)
    assert final is not None
    assert (final.gpu, final.uuid) == (OTHER_KIND, GPUS["other"].uuid)
    assert final.speedup.value == pytest.approx(50 / 20, rel=0.01)

    own = [t for c in state.candidates.values() for t in c.timings]
    assert {t.timing.uuid for t in own} <= {GPUS["first"].uuid, GPUS["second"].uuid}
    (confirmed,) = (t.timing for t in own if t.final)
    assert confirmed.speedup.value == pytest.approx(50 / 30, rel=0.01)
    timed = [t.timing for t in own] + [t.timing for t in known.timed if t.timing is not None]
    assert state.usage.gpu_seconds == pytest.approx(sum(t.gpu_seconds for t in timed))
    assert did(seen, GPUS["other"].uuid)[0] == "A/A timing"
    watched = [e.status for e in session.events if isinstance(e, WorkersSeen)]
    assert any(w.doing == ("A/A timing",) for status in watched for w in status.workers)

    shown = " ".join(text_lines(result_blocks(state, tmp_path / "session")))
    report = as_markdown(compose(found))
    for text in (shown, report):
        assert "Portfolio by device" in text
        assert PORTFOLIO.split(":")[0] in text
    ending = text_lines([fields(ending_facts(state))])
    told = " ".join(" ".join(ending).split())
    here, there_too = ratio(confirmed.speedup.value), ratio(final.speedup.value)
    assert f"best on {FACTS.name} {short(best)}, {here}" in told
    assert f"best on {OTHER_KIND} {short(first)}, {there_too}" in told
    assert find_winner(found).candidate == best
    there = find_winner(found, OTHER_KIND)
    assert there.candidate == first
    assert (
        f"faster against the baseline on {OTHER_KIND}: {ratio(final.speedup.value, '')} "
        in there.elsewhere[0]
    )
    assert f"candidate {short(first)} wins there" in find_winner(found).elsewhere[0]
