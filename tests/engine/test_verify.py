"""A session on a scripted GPU: its winner against what others ship, and candidates tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from astra_tui.engine import lab as lab_module
from astra_tui.engine.bisection import Slower, Sources, Trial, bisect, culprit
from astra_tui.engine.host import build_engine, open_session
from astra_tui.engine.lab import Lab
from astra_tui.engine.verify import Accepted, Verifier
from astra_tui.lab.devices import DeviceChoice
from astra_tui.lab.upstream import user_packages
from astra_tui.model.digest import content_hash
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.timing import TimingVerdict
from astra_tui.model.verification import CandidateVerification
from astra_tui.processes.child import Child
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_writer import Redactor
from tests.conftest import ROOT
from tests.engine.scripted import ScriptedTeam, Session, Step, settings_of
from tests.gpu.script import FACTS
from tests.packages.wheels import keep_wheel, make_wheel
from tests.quick import write_quick_task

pytestmark = pytest.mark.usefixtures("warm_processes")

YARDSTICKS = """\
[packages.tiny-kernels]
version = "1.2.0"
file = "tiny_kernels-1.2.0-py3-none-any.whl"
sha256 = "{here}"
licence = "Apache-2.0"
released = "2026-10-01"

[packages.missing]
version = "1.0"
file = "missing-1.0-py3-none-any.whl"
sha256 = "{missing}"
licence = "Apache-2.0"
released = "2026-10-01"
"""
YARDSTICK = """
[[yardsticks]]
name = "{name}"
about = "an example"
package = "{package}"
arch = "sm_90a"
parameters = ["pointer", "pointer", "int64", "int64"]
launch = "grid=tokens block=128 args=(out, input, tokens * d, d)"
requires = "d % {multiple} == 0"

[yardsticks.source]
text = "// scripted: {us} us\\n#include <tiny.cuh>"
kernel = "act<T>"
include = ["tiny"]
"""
KERNEL = "template <typename T> __global__ void act(T* out, const T* input, long n, long d) {}"
WORKLOADS = "[[workloads]]\ndims = { tokens = 8, d = 128 }\n"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> KernelTask:
    """silu_and_mul with one small workload."""
    folder = write_quick_task(tmp_path_factory.mktemp("task") / "kernels", WORKLOADS)
    (folder / "tuned.cu").unlink()
    wheel = make_wheel(tmp_path_factory.mktemp("wheel"), {"tiny/tiny.cuh": KERNEL})
    pin = keep_wheel(user_packages(), wheel)
    declared = [
        YARDSTICKS.format(here=pin.sha256, missing="ab" * 32),
        YARDSTICK.format(name="slow", package="tiny-kernels", multiple=128, us=60),
        YARDSTICK.format(name="fast", package="tiny-kernels", multiple=128, us=45),
        YARDSTICK.format(name="gone", package="missing", multiple=256, us=1),
    ]
    (folder / "yardsticks.toml").write_text("".join(declared), encoding="utf-8")
    return load_task(folder)


@pytest.fixture(scope="module", autouse=True)
def scripted_gpu() -> Iterator[None]:
    """Lab processes are on the scripted GPU."""

    def scripted_child(_module: str, arguments: tuple[str, ...], name: str) -> Child:
        return Child("tests.gpu_tools.scripted_worker", arguments, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setattr(lab_module, "Child", scripted_child)
        yield


@pytest.fixture(scope="module")
def session(task: KernelTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session in which a candidate of 40 us took the place of a baseline of 50 us."""
    folder = tmp_path_factory.mktemp("timed") / "session"
    chosen = settings_of(rounds=1)
    opened = open_session(folder, task, chosen, Redactor())
    team = ScriptedTeam([Step("faster", (source(task, 40),))])
    device = DeviceChoice("cuda:0", FACTS)
    engine = build_engine(opened, task, chosen, team, wait_for_engineer=False, device=device)
    asyncio.run(Session(opened, engine, team).run())
    return folder


def source(task: KernelTask, us: int) -> str:
    return f"// scripted: {us} us\n{task.baseline_file.read_text(encoding='utf-8')}"


def test_a_winner_is_timed_against_what_others_ship(session: Path) -> None:
    state = read_session(session).state
    shipped = state.candidate(state.best).shipped
    assert shipped is not None
    assert shipped.not_timed == {"gone": "missing 1.0 is not in the cache"}
    assert shipped.times is not None
    (shape,) = shipped.times.shapes
    assert (shape.base, shape.not_timed) == ("baseline.cu", {})
    assert [version.name for version in shape.versions] == ["best", "slow", "fast"]
    assert shape.fastest["best"].name == "fast"
    assert shipped.speedup is not None
    assert shipped.speedup.value == pytest.approx(45 / 40, rel=0.05)
    assert shipped.gpu_seconds > 0


def test_a_ratio_that_was_never_measured_and_the_round_that_was_slower_are_found(
    task: KernelTask, session: Path
) -> None:
    """`verify` and `bisect`, with the same lab."""

    async def run() -> tuple[list[CandidateVerification], list[Trial]]:
        lab = Lab(task, "cuda:0")
        try:
            verifier = Verifier(boastful(session), lambda h: read_blob(session, h), lab)
            verified = [one async for one in verifier.run()]
            workload, first = task.workloads[0].name, chain[0].hash
            question = Slower(Sources(lab, texts.__getitem__), workload, first, None)
            return verified, [trial async for trial in bisect(chain, question)]
        finally:
            lab.close()

    times = (50, 45, 60, 59, 58)
    texts = {content_hash(source(task, us)): source(task, us) for us in times}
    chain = [Accepted(hash_, number) for number, hash_ in enumerate(texts)]
    (baseline, winner), trials = asyncio.run(run())

    assert (baseline.problems, baseline.timings) == ((), ())
    (pair,) = winner.timings
    assert pair.measured is not None
    assert pair.measured.speedup.value == pytest.approx(50 / 40, rel=0.01)
    assert pair.measured.verdict is TimingVerdict.FASTER
    assert pair.tolerance >= 0.02
    (problem,) = winner.problems
    assert "the ratios are 16." in problem

    found = culprit(chain, trials)
    assert found is not None
    assert times[found.round] == 60
    assert len(trials) < len(chain)
    values = {times[t.accepted.round]: t.value for t in trials if t.value}
    assert values[60] == pytest.approx(50 / 60, rel=0.01)


def boastful(session: Path) -> SessionState:
    """The session's state with a ratio that nobody measured."""
    state = read_session(session).state
    known = state.candidate(state.best)
    boasted = tuple(
        replace(t, timing=replace(t.timing, speedup=replace(t.timing.speedup, value=1.5)))
        for t in known.timings
    )
    candidates = {**state.candidates, state.best: replace(known, timings=boasted)}
    return replace(state, candidates=candidates)
