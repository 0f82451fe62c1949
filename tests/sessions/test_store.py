from __future__ import annotations

import os
import tempfile
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from astra_tui.model.errors import UserError
from astra_tui.model.events import Event, PlanProposed
from astra_tui.model.fold import fold
from astra_tui.model.ledger import SMALLEST_RATIO, LedgerEntry, ledger, score
from astra_tui.model.plan import Counter
from astra_tui.model.verdict import Comparison
from astra_tui.present.sessions import session_entry
from astra_tui.sessions import engines
from astra_tui.sessions.engines import LONGEST_SOCKET_PATH, runtime_folder, socket_path
from astra_tui.sessions.journal_reader import journal_path
from astra_tui.sessions.journal_writer import Journal, Redactor
from astra_tui.sessions.store import (
    find_session,
    list_sessions,
    new_session_folder,
    sessions_folder,
)
from astra_tui.sessions.summary import run_report

from .samples import BASELINE, BETTER, PLAN, whole_session, write_whole

NOW = datetime(2026, 11, 21, 14, 22, 33)
NOTHING_SECRET = Redactor(environment={})


def write(folder: Path, events: list) -> None:
    with Journal.create(folder, NOTHING_SECRET) as journal:
        for event in events:
            journal.append(event)


def test_new_folders_are_named_after_task_and_time_and_never_shared(tmp_path):
    names = [new_session_folder(tmp_path, "kernels/silu_and_mul", NOW).name for _ in range(3)]
    first = "silu_and_mul-20261121-142233"
    assert names == [first, f"{first}-2", f"{first}-3"]
    assert new_session_folder(tmp_path, "..", NOW).name == "session-20261121-142233"
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be made"):
        new_session_folder(tmp_path / "file", "t", NOW)


def test_sessions_live_where_configured():
    assert sessions_folder(None) == Path("sessions")
    assert sessions_folder("~/x") == Path.home() / "x"


def test_sessions_are_found_by_name_path_and_journal(tmp_path):
    folder = tmp_path / "silu-1"
    write(folder, whole_session())
    for given in ("silu-1", str(folder), str(journal_path(folder))):
        assert find_session(given, tmp_path) == folder
    with pytest.raises(UserError, match="did you mean 'silu-1'"):
        find_session("silu-2", tmp_path)
    with pytest.raises(UserError, match="holds no sessions"):
        find_session("silu-2", tmp_path / "nowhere")


def test_lists_show_what_can_be_read_and_say_what_cannot(tmp_path):
    write_whole(tmp_path / "a")
    write(tmp_path / "b", whole_session()[:20])
    write(tmp_path / "c", whole_session()[1:])
    with journal_path(tmp_path / "b").open("ab") as file:
        file.write(b'{"seq"')
    (tmp_path / "empty").mkdir()
    found = {s.name: s for s in list_sessions(tmp_path, session_entry)}
    assert {n: s.status for n, s in found.items()} == {
        "a": "closed",
        "b": "interrupted",
        "c": "unreadable",
    }
    assert (found["a"].rounds, found["a"].best, found["a"].damage) == (1, BETTER, ())
    assert (found["a"].task, found["a"].team) == ("silu_and_mul", "playbook")
    assert "ends in the middle" in found["b"].damage[0]
    assert "does not begin" in found["c"].damage[0]
    assert list_sessions(tmp_path / "nowhere", session_entry) == []


def test_a_session_that_is_written_is_not_interrupted(tmp_path):
    write(tmp_path / "s", whole_session()[:5])
    with Journal.reopen(tmp_path / "s", NOTHING_SECRET):
        assert list_sessions(tmp_path, session_entry)[0].status == "running"
    assert list_sessions(tmp_path, session_entry)[0].status == "interrupted"


def planned() -> list[Event]:
    """The session up to its first plan."""
    events = whole_session()
    return events[: 1 + next(i for i, e in enumerate(events) if isinstance(e, PlanProposed))]


def test_the_report_of_a_session(tmp_path):
    state = fold(whole_session())
    report = msgspec.to_builtins(run_report(state, tmp_path))
    assert (report["task"], report["team"], report["device"]) == (
        "silu_and_mul",
        "playbook",
        "cuda:0",
    )
    assert (report["stopped"], report["digest"]) == ("rounds", state.digest())
    assert (report["baseline"]["candidate"], report["best"]["candidate"]) == (BASELINE, BETTER)
    assert report["best"]["source"] == str(tmp_path / "sources" / f"{BETTER[:12]}.cu")
    assert report["best"]["verdict"] == "passed"
    assert report["best"]["counters"] == {
        "requests": 32,
        "sectors": 64,
        "bytes": 2048,
        "warp_instructions": 10,
        "shared_requests": 0,
        "bank_conflicts": 0,
        "barriers": 1,
    }
    (round_,) = report["rounds"]
    assert (round_["number"], round_["parent"], round_["best"]) == (1, 0, BETTER)
    (proposal,) = round_["proposals"]
    assert (proposal["title"], proposal["author"]) == (PLAN.title, "playbook wider_loads")
    assert [d["status"] for d in proposal["decisions"]] == ["accepted", "accepted"]
    assert (proposal["outcome"], proposal["reasons"]) == ("better", ("half the requests",))
    assert proposal["prediction"]["counter_ratio"] == 0.25
    assert proposal["measured"]["measured_ratio"] == 0.5


def test_a_report_of_what_was_not_measured_has_holes(tmp_path):
    report = run_report(fold(planned()), tmp_path)
    (proposal,) = report.rounds[0].proposals
    assert (proposal.outcome, proposal.measured, proposal.source) == (None, None, None)
    assert (report.best, report.stopped) == (report.baseline, None)
    with pytest.raises(ValueError, match="never opened"):
        run_report(fold([]), tmp_path)


@pytest.mark.parametrize(
    ("predicted", "measured", "error", "log_error"),
    [
        (0.5, 0.5, 0.0, 0.0),
        (0.25, 0.5, 0.25, 0.6931471805599453),
        (0.5, 1.25, 0.75, 0.9162907318741551),
        (0.5, 1.0, 0.5, 0.6931471805599453),
        (1.0, 1.0, 0.0, 0.0),
        (SMALLEST_RATIO, 0.0, SMALLEST_RATIO, 0.0),
    ],
)
def test_scores(predicted, measured, error, log_error):
    prediction = replace(PLAN.prediction, counter_ratio=predicted)
    got = score(prediction, Comparison("counters", (1, 1, 1), (1, 1, 1), {"requests": measured}))
    assert (got.counter, got.measured_ratio) == (Counter.REQUESTS, measured)
    assert (got.error, got.log_error) == pytest.approx((error, log_error))


def test_a_counter_that_the_base_lacks_has_no_score():
    assert score(PLAN.prediction, Comparison("counters", (1, 1, 1), (1, 1, 1), {})) is None


def test_the_ledger_of_a_session():
    (entry,) = ledger(fold(whole_session()))
    assert entry == LedgerEntry(
        "playbook", "", 1, 1, 1, pytest.approx(0.25), pytest.approx(0.6931471805599453)
    )
    (unmeasured,) = ledger(fold(planned()))
    assert unmeasured == LedgerEntry("playbook", "", 1, 0, 0, None, None)
    assert ledger(fold([])) == ()


def test_sockets_lie_in_a_private_folder(short_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_path))
    path = socket_path(short_path / "a" / ".." / "s")
    assert path == socket_path(short_path / "s") != socket_path(short_path / "t")
    assert path.parent == runtime_folder() == short_path / "astra-tui"
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_without_a_runtime_folder_the_temporary_one_serves(short_path, monkeypatch):
    monkeypatch.setattr(engines.tempfile, "gettempdir", lambda: str(short_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(short_path / "state"))
    long = short_path / ("x" * LONGEST_SOCKET_PATH)
    long.mkdir()
    for given in ("", "relative", str(short_path / "nowhere"), str(long)):
        monkeypatch.setenv("XDG_RUNTIME_DIR", given)
        assert runtime_folder() == short_path / f"astra-tui-{os.getuid()}"
    monkeypatch.setattr(engines.tempfile, "gettempdir", lambda: str(long))
    monkeypatch.setenv("XDG_STATE_HOME", str(long))
    with pytest.raises(UserError, match="longer than 107 bytes"):
        runtime_folder()


@pytest.fixture
def short_path():
    """A folder whose path leaves room for that of a socket."""
    with tempfile.TemporaryDirectory(prefix="s") as place:
        yield Path(place)


def test_folders_of_others_are_refused_and_do_not_block(short_path, monkeypatch):
    tmp_path = short_path
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(engines.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = runtime_folder()
    folder.chmod(0o750)
    with pytest.raises(UserError, match="chmod 700"):
        runtime_folder()
    folder.rmdir()
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")  # As another user may who was first.
    second = tmp_path / f"astra-tui-{os.getuid()}"
    second.write_text("")
    own = runtime_folder()
    assert own == tmp_path / "state" / "astra-tui" / "run"
    assert own.stat().st_mode & 0o777 == 0o700
    second.unlink()
    assert runtime_folder() == own, "engines are looked for where they were put"
    own.rmdir()
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with pytest.raises(UserError, match="not a folder"):
        runtime_folder()
