"""Small sessions whose winner is a task's tuned kernel, written with the journal's writer."""

from __future__ import annotations

from pathlib import Path

from astra_tui.export import Files, Subject, Winner, find_winner
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.check.kernels import kernels_to_compile
from astra_tui.lab.check.layout import layouts_of, plan_layouts
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import CaseOutcome, CaseResult, CheckVerdict
from astra_tui.model.digest import content_hash
from astra_tui.model.events import (
    SCHEMA_VERSION,
    BestChanged,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeWritten,
    CompileFinished,
    EngineStarted,
    Event,
    PlanningFinished,
    PlanProposed,
    RoundClosed,
    RoundOpened,
    SessionOpened,
    VerdictReached,
)
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Outcome, RoundVerdict
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_writer import Journal, Redactor
from tests.sessions.samples import PLAN

SUMMARY = "wider loads */ and a backslash \\"
WAIT = "cudaGridDependencySynchronize();"
ENGINEER = Author(AuthorKind.ENGINEER, "ada")


def write_session(
    folder: Path, task: KernelTask, winner: str, verdict: CheckVerdict = CheckVerdict.PASSED
) -> Path:
    """A session of one round whose candidate is `winner`."""
    baseline = task.baseline_file.read_text(encoding="utf-8")
    with Journal.create(folder, Redactor(environment={})) as journal:
        base, candidate = journal.put_source(baseline), journal.put_source(winner)
        for event in _events(task, base, candidate, verdict):
            journal.append(event)
    return folder


def _events(task: KernelTask, base: str, candidate: str, verdict: CheckVerdict) -> list[Event]:
    settings = RunSettings(task.name, TeamKind.PLAYBOOK)
    versions = {"astra-tui": "0.1"}
    playbook = Author(AuthorKind.PLAYBOOK, "wide_accesses")
    better = RoundVerdict(Outcome.BETTER, ("fewer requests",), candidate, base)
    return [
        SessionOpened(SCHEMA_VERSION, "s", task.hash, base, settings, versions),
        EngineStarted("host", 1, 1),
        RoundOpened(0, 0, base),
        *_checked(task, base, CheckVerdict.PASSED),
        RoundClosed(0),
        RoundOpened(1, 0, base),
        PlanProposed(1, 0, PLAN, playbook),
        PlanningFinished(1),
        CodeWritten(1, 0, 0, candidate, base, ENGINEER, SUMMARY),
        *_checked(task, candidate, verdict),
        VerdictReached(1, 0, better),
        BestChanged(1, candidate),
        RoundClosed(1),
    ]


def _checked(task: KernelTask, candidate: str, verdict: CheckVerdict) -> list[Event]:
    cases = build_suite(task)[:3]
    outcome = CaseOutcome.PASSED if verdict is CheckVerdict.PASSED else CaseOutcome.WRONG
    return [
        CompileFinished(candidate, True, (), "NVRTC", 0.1),
        CheckStarted(candidate, len(cases)),
        *(CaseChecked(candidate, CaseResult(case, outcome)) for case in cases),
        CheckFinished(candidate, verdict, "as told", (), (), 0.25),
    ]


def tuned(task: KernelTask) -> str:
    """The text of a task's tuned kernel."""
    return task.tuned_file.read_text(encoding="utf-8")


def waiting(task: KernelTask) -> str:
    """The tuned kernel of silu_and_mul with `pdl=`: its threads wait before anything else."""
    first = "  const int64_t token = blockIdx.x;\n"
    text = tuned(task).replace(first, f"{first}  {WAIT}\n")
    return text.replace("args=(out, input, d)", "args=(out, input, d) pdl=(tokens <= 100)")


def winner_of(folder: Path, task: KernelTask, text: str = "") -> Winner:
    """The winner of a new session in `folder`."""
    return find_winner(read_session(write_session(folder, task, text or tuned(task))))


def made_up(task: KernelTask, text: str) -> Winner:
    """A winner without a session, for sources that were never run."""
    hash_ = content_hash(text)
    baseline = task.baseline_file.read_text(encoding="utf-8")
    return Winner(
        "s", task.name, task.hash, "playbook", "emulator", hash_, text, baseline, (), "", {}
    )


def compiled_subject(winner: Winner, task: KernelTask, compiler: Compiler) -> Subject:
    """The winner with its kernels for the emulator's architecture."""
    source = read_source(task, winner.text, "winner.cu")
    suite = build_suite(task)
    compilation = compiler.compile(winner.text, kernels_to_compile(task, source, suite))
    assert compilation.ok, compilation.errors
    calls = tuple(
        Bindings(c.dtype, c.dims, plan_layouts(layouts_of(task, c)), scalars_of(task, c))
        for c in suite
    )
    return Subject(winner, task, source.plan, calls, (compilation,))


def write_files(folder: Path, files: Files) -> Path:
    """Writes the files of an export."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
