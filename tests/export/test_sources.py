"""The winner of a session, its source with a header, and its patch."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unidiff import PatchSet

from astra_tui.export import Format, Subject, export_files, find_winner
from astra_tui.export.header import plain
from astra_tui.export.source_files import unified_patch
from astra_tui.model.check import CheckVerdict
from astra_tui.model.digest import content_hash
from astra_tui.model.errors import UserError
from astra_tui.model.launch import plan_of
from astra_tui.model.task import KernelTask
from astra_tui.sessions.integrity import read_session
from tests.export.sessions import tuned, winner_of, write_session

SOURCE_LINES = st.lists(
    st.sampled_from(["", "a", "b", "int x;", "\tc \r", "// \\", "@@ -1 +1 @@", "--- a/x", "é"]),
    max_size=12,
)


@pytest.fixture
def task(tasks: dict[str, KernelTask]) -> KernelTask:
    return tasks["silu_and_mul"]


def subject(folder: Path, task: KernelTask, text: str = "") -> Subject:
    """The winner of a new session with its plan."""
    winner = winner_of(folder / "session", task, text)
    return Subject(winner, task, plan_of(winner.text))


# -- the winner ------------------------------------------------------------------------------------


def test_the_winner_and_who_wrote_it(tmp_path: Path, task: KernelTask) -> None:
    winner = winner_of(tmp_path / "a-session", task)
    assert winner.session == "a-session"
    assert winner.text == tuned(task)
    assert winner.baseline == task.baseline_file.read_text(encoding="utf-8")
    (step,) = winner.steps
    assert (step.round, step.author.describe()) == (1, "engineer ada")
    assert winner.verdict == "3 of 3 cases passed; round 1: better (fewer requests)"


def test_a_candidate_by_the_beginning_of_its_hash(tmp_path: Path, task: KernelTask) -> None:
    folder = write_session(tmp_path / "s", task, tuned(task))
    baseline = content_hash(task.baseline_file.read_bytes())
    winner = find_winner(read_session(folder), baseline[:8])
    assert winner.is_baseline
    assert winner.steps[0].author.describe() == "task"


@pytest.mark.parametrize(("named", "problem"), [("zz", "no candidate"), ("", "more than one")])
def test_a_candidate_that_is_not_one(
    tmp_path: Path, task: KernelTask, named: str, problem: str
) -> None:
    folder = write_session(tmp_path / "s", task, tuned(task))
    with pytest.raises(UserError, match=problem):
        find_winner(read_session(folder), named)


def test_a_wrong_candidate_does_not_leave(tmp_path: Path, task: KernelTask) -> None:
    folder = write_session(tmp_path / "s", task, tuned(task), CheckVerdict.FAILED)
    with pytest.raises(UserError, match="has not passed its check: as told"):
        find_winner(read_session(folder))


def test_a_missing_text_is_named(tmp_path: Path, task: KernelTask) -> None:
    folder = write_session(tmp_path / "s", task, tuned(task))
    hash_ = content_hash(tuned(task))
    (folder / "blobs" / hash_[:2] / hash_).unlink()
    with pytest.raises(UserError, match="missing"):
        find_winner(read_session(folder))


# -- cu --------------------------------------------------------------------------------------------


def test_the_source_below_its_header_is_the_candidate(tmp_path: Path, task: KernelTask) -> None:
    found = subject(tmp_path, task)
    (text,) = export_files(found, Format.CU).values()
    assert isinstance(text, str)
    header, _, source = text.partition("\n\n")
    assert content_hash(source) == found.winner.candidate
    for word in ("session", "playbook", found.winner.candidate, "engineer ada", "better"):
        assert word in header
    assert all(line.startswith("//") and not line.endswith("\\") for line in header.splitlines())
    assert plan_of(text) == found.plan


@given(text=st.text(max_size=60))
def test_text_of_a_journal_stays_within_its_comment(text: str) -> None:
    made = plain(f"{text} */ /* @launch \\")
    assert made.isprintable()
    assert made.isascii()
    assert not {"*/", "/*", "@launch"} & set(made.split())
    assert not made.endswith("\\")


# -- patch -----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(old=SOURCE_LINES, new=SOURCE_LINES, ends=st.tuples(st.booleans(), st.booleans()))
def test_git_applies_the_patch_to_the_byte(
    old: list[str], new: list[str], ends: tuple[bool, bool]
) -> None:
    before, after = ("\n".join(t) + "\n" * e for t, e in zip((old, new), ends, strict=True))
    if before == after or not before or not after:
        return  # Nothing to change, or a file that begins or ends to be.
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "baseline.cu").write_bytes(before.encode())
        (folder / "it.patch").write_bytes(unified_patch(before, after).encode())
        command = ["git", "-c", "core.autocrlf=false", "apply", "it.patch"]
        environment = {"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(folder.parent)}
        subprocess.run(command, cwd=folder, env=environment, check=True)
        assert (folder / "baseline.cu").read_bytes() == after.encode()


@pytest.mark.parametrize("name", ["silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse"])
def test_unidiff_reads_the_patch(name: str, tasks: dict[str, KernelTask], tmp_path: Path) -> None:
    found = subject(tmp_path, tasks[name])
    (text,) = export_files(found, Format.PATCH).values()
    (file,) = PatchSet(str(text))
    assert (file.path, file.is_modified_file) == ("baseline.cu", True)
    assert file.added > 10


def test_the_baseline_has_no_patch(tmp_path: Path, task: KernelTask) -> None:
    winner = winner_of(tmp_path / "session", task)
    same = Subject(replace(winner, text=winner.baseline), task, plan_of(winner.baseline))
    with pytest.raises(UserError, match="nothing to patch"):
        export_files(same, Format.PATCH)
