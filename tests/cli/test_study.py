"""`study`: two seeds of a small task, cut after the first and gone on with; and what is refused."""

from __future__ import annotations

import contextlib
import math
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeGuard

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.json_answers import StudyAnswer
from astra_tui.cli.settings import Choices
from astra_tui.cli.study_file import StudyBudget, cost_of, most_of, read_study
from astra_tui.model.errors import UserError
from astra_tui.model.settings import Budget
from astra_tui.model.state import Usage
from astra_tui.present.document import Table
from astra_tui.present.sessions import study_blocks
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_reader import journal_path
from astra_tui.sessions.study import over_seeds, over_tasks, study_row
from astra_tui.sessions.summary import final_timings
from tests.cli.command import SECONDS, Outcome, Shell
from tests.cli.conftest import KEY
from tests.cli.test_json import decoded
from tests.conftest import ROOT
from tests.quick import SMALL_WORKLOAD, write_quick_task

FILE = """
tasks = ["silu_and_mul"]
teams = ["playbook"]
seeds = [1, 2]

[settings.lot]
rounds = 1
device = "emulator"
accept_plans = 0.3

[budget]
runs = 1
"""


def write(shell: Shell, text: str) -> None:
    (shell.folder / "tried.toml").write_text(text, encoding="utf-8")


def test_a_study_that_was_cut_goes_on(shell: Shell) -> None:
    write_quick_task(shell.folder / "kernels", SMALL_WORKLOAD)
    write(shell, FILE)
    cut = shell.run("study", "tried.toml", "--json")
    answer = decoded(cut, StudyAnswer)
    assert (cut.code, answer.not_ended) == (ExitCode.OK, ("silu_and_mul-playbook-lot-2",)), cut.err
    assert "(1 of 1 runs are begun), with 1 run left" in cut.err

    out = shell.folder / "studies" / "tried"
    journal = journal_path(out / "silu_and_mul-playbook-lot-1")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    write(shell, FILE.replace("runs = 1", "runs = 2"))
    stopped = on_workers(shell, lambda study, _: study.send_signal(signal.SIGINT))
    answer = decoded(stopped, StudyAnswer)
    assert (stopped.code, len(answer.not_ended)) == (ExitCode.INTERRUPTED, 2), stopped.err
    assert "interrupted; the same command continues" in stopped.err
    whole = on_workers(shell, lambda _, worker: worker.kill())
    answer = decoded(whole, StudyAnswer)
    assert (whole.code, answer.not_ended, "ended before" in whole.err) == (ExitCode.OK, (), False)
    assert len(journal.read_bytes().splitlines()) > len(lines)
    (row,) = answer.rows
    assert (row.runs, row.ended, row.devices) == (2, 2, ("emulator",))
    assert row.stopped == {"rounds": 1, "no_plan": 1}
    assert row.outcomes == {"better": 1, "rejected": 2}  # As drawn: 0.13; then 0.96 and 0.95.
    assert row.speedup is None
    requests = row.counters["requests"]
    assert requests is not None
    assert requests.value == pytest.approx(0.125**0.5)
    assert requests.values == pytest.approx((0.125, 1.0))
    assert (row.correct, [w.workload for w in row.workloads]) == (2, ["8x128"])
    assert row.lines is not None
    assert row.lines.after > row.lines.before

    ended = journal.read_bytes()
    again = shell.run("study", "tried.toml", "--json")
    assert (again.out, again.err.count("ended before")) == (whole.out, 2)
    assert journal.read_bytes() == ended
    write(shell, FILE.replace("rounds = 1", "rounds = 2"))
    other = shell.run("study", "tried.toml", "--no-run")
    assert other.code == ExitCode.BAD_INPUT
    assert "with other settings than the study says now: rounds" in other.err


def on_workers(
    shell: Shell, disturb: Callable[[psutil.Process, psutil.Process], object]
) -> Outcome:
    """The study on two workers. `disturb` gets it, and a worker that is at work; in the end no
    process is left.
    """
    command = [*shell.command, "study", "tried.toml", "--json", "--workers", "2"]
    out, err = shell.folder / "out", shell.folder / "err"
    with out.open("w") as to_out, err.open("w") as to_err:
        study = psutil.Popen(
            command, cwd=shell.folder, env=shell.environment(), stdout=to_out, stderr=to_err
        )
        while not (busy := busy_workers(study)):
            assert study.poll() is None, err.read_text()
            time.sleep(0.02)
        started = study.children(recursive=True)
        disturb(study, busy[0])
        code = study.wait()
    _, alive = psutil.wait_procs(started, timeout=SECONDS)
    assert not alive
    return Outcome(code, out.read_text(), err.read_text())


def busy_workers(study: psutil.Process) -> list[psutil.Process]:
    busy = []
    for child in study.children():
        with contextlib.suppress(psutil.NoSuchProcess):  # It has just ended.
            if any("astra_tui.lab.worker" in lab.cmdline() for lab in child.children()):
                busy.append(child)
    return busy


def test_a_gate_rejects_what_is_too_risky(shell: Shell) -> None:
    write_quick_task(shell.folder / "kernels", SMALL_WORKLOAD)
    write(shell, FILE.replace("[1, 2]", "[1]").replace("accept_plans = 0.3", 'max_risk = "low"'))
    gated = shell.run("study", "tried.toml")
    assert gated.code == ExitCode.OK, gated.err
    assert re.search(r"plans +rejected\nsilu_and_mul +playbook +lot +2 +100 %\n", gated.out)
    (file,) = (shell.folder / "studies" / "tried").glob("*.gate.toml")
    assert file.read_text(encoding="utf-8").count("riskier than low") == 2


def test_a_run_that_the_budget_cuts_is_the_last(shell: Shell, url: str) -> None:
    write_quick_task(shell.folder / "kernels", SMALL_WORKLOAD)
    model = f'base_url = "{url}"\nmodel = "small"'
    text = FILE.replace("playbook", "llm").replace("accept_plans = 0.3", model)
    write(shell, text.replace("runs = 1", "tokens = 1"))
    cut = shell.run("study", "tried.toml", "--json", ASTRA_TUI_API_KEY=KEY)
    answer = decoded(cut, StudyAnswer)
    assert cut.code == ExitCode.OK, cut.err
    assert "the study's budget is spent (1 of 1 tokens are left" in cut.err
    assert cut.err.rstrip().endswith("with 2 runs left")
    assert (len(answer.not_ended), answer.rows[0].ended, answer.usage.calls) == (2, 0, 0)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"silu_and_mul"', '"silu_and_mull"', 2, "tasks: "),
        ('"playbook"', '"playbok"', 3, "teams: there is no team 'playbok'"),
        ("[1, 2]", "[1, 1]", 4, "seeds: names each one once"),
        ("[1, 2]", "[1, -2]", 4, "seeds: a seed is a whole number"),
        ("rounds = 1", "round = 1", 7, "settings.lot.round: unknown setting"),
        ("rounds = 1", "rounds = 0", 7, "rounds: a whole number of 1 or more is needed"),
        ("rounds = 1", 'theme = "dark"', 7, "settings.lot.theme: unknown setting"),
        ("rounds = 1", 'approve = "ask"', 7, "no one is there to be asked"),
        ("rounds = 1", 'approve = "auto"', 7, "a random gate decides already"),
        ("= 0.3", "= 1.5", 9, "settings.lot.accept_plans: a share lies from 0 to 1"),
        ("runs = 1", "runs = -1", 12, "budget.runs: a budget is not below 0"),
        ("runs = 1", "hours = 1", 12, "budget.hours: unknown key"),
        ("[settings.lot]", "[settings.lot", 6, "cannot be read"),
        ("[settings.lot]", "[settings.'a/b']", 6, "a setting's name has letters"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    file = tmp_path / "tried.toml"
    assert old in FILE
    file.write_text(FILE.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError) as caught:
        read_study(file, Choices())
    assert caught.value.describe().startswith(f"{file}:{line}:")
    assert words in caught.value.message


def test_speedups_have_an_interval_over_seeds() -> None:
    """Two recorded sessions of a GPU in the place of two seeds; Student's t of one degree."""
    names = ("h100-playbook-silu", "h200-playbook-silu")
    folders = [ROOT / "sessions" / name for name in names]
    states = [read_session(folder, texts=False).state for folder in folders]
    ended = dict(zip(folders, states, strict=True))
    first, second = (final_timings(state)[0].timing.speedup.value for state in states)
    row = study_row("silu_and_mul", "playbook", "both", 2, ended)
    assert row.speedup is not None
    assert row.speedup.value == pytest.approx(math.sqrt(first * second))
    factor = math.exp(12.706 * abs(math.log(first / second)) / 2)
    assert row.speedup.high == pytest.approx(row.speedup.value * factor)
    assert row.speedup.low == pytest.approx(row.speedup.value / factor)
    assert (row.plans, row.outcomes["worse"], row.candidates) == (15, 2, 15)
    tables = [b for b in study_blocks([row, replace(row, team="llm")], Usage()) if is_table(b)]
    gains, teams, by_workload = tables[:3]
    assert "speedup" in gains.columns
    assert teams.columns[-2:] == ("playbook", "llm")
    (times,) = (cells for cells in teams.rows if cells[2] == ("speedup",))
    assert times[3] == times[4] == gains.rows[0][-1]
    assert sum(cells[3] == ("16x4096",) for cells in by_workload.rows) == 2
    alone = study_row("silu_and_mul", "playbook", "one", 1, {folders[0]: states[0]}).speedup
    assert alone is not None
    assert (alone.value, alone.low, alone.high) == (pytest.approx(first), None, None)


def is_table(block: object) -> TypeGuard[Table]:
    return isinstance(block, Table)


def test_all_tasks_are_the_mean_of_each_seed_over_them() -> None:
    one, other = over_seeds([0.5, 0.25]), over_seeds([2.0, 1.0])
    found = over_tasks([one, other])
    assert found is not None
    assert found.values == pytest.approx((1.0, 0.5))
    assert over_tasks([one, None]) is over_tasks([one, over_seeds([1.0])]) is None


COSTS = st.integers(0, 1000)


@given(COSTS, COSTS, COSTS, st.none() | COSTS, st.lists(st.integers(1, 4), min_size=1))
def test_runs_never_may_cost_more_than_the_study(
    whole: int, earlier: int, own: int, asked: int | None, rooms: list[int]
) -> None:
    """One after the other, each may have what the rest left; several at a time have parts of it."""
    budget = StudyBudget(None, Budget(tokens=whole))
    others, mine = cost_of(Usage(input_tokens=earlier)), cost_of(Usage(output_tokens=own))
    assert bool(budget.spent(0, [others, mine])) == (earlier + own >= whole)
    share = budget.share([others], Budget(tokens=asked), mine)
    assert share.tokens == min(max(whole - earlier, own), math.inf if asked is None else asked)
    assert (share.calls, share.dollars, share.gpu_seconds) == (None, None, None)
    costs = [others]
    for room in rooms:
        left = whole - sum(cost["tokens"] for cost in costs)
        assert bool(budget.spent(0, costs)) == (left <= 0)
        if left <= 0:
            break
        part = budget.share(costs, Budget(tokens=asked), among=room)
        assert part.tokens is not None
        assert part.tokens <= left
        assert part.tokens == asked or part.tokens * room >= left
        costs.append(most_of(part))
