"""A whole session as an engineer lives it, with every kind of decision, read back from the disk."""

from __future__ import annotations

from pathlib import Path

from astra_tui.model.author import AuthorKind
from astra_tui.model.constraints import Origin
from astra_tui.model.digest import content_hash
from astra_tui.model.events import CheckStarted
from astra_tui.model.hunks import apply_hunks
from astra_tui.model.plan import Risk
from astra_tui.model.settings import TeamKind
from astra_tui.model.state import SessionState, SessionStatus
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Brief, OnText, PlanAnswer
from astra_tui.playbook.playbook_team import PlaybookTeam
from astra_tui.sessions.integrity import check_integrity
from astra_tui.sessions.journal_reader import read_journal
from tests.engine.scripted import ASK, settings_of
from tests.tui.harness import Desk, on_a_loop, seated, working

FAST = "const float silu = __fdividef(gate, 1.0f + __expf(-gate));"


class WatchedPlaybook(PlaybookTeam):
    """The playbook, and the briefs that it plans with."""

    def __init__(self) -> None:
        self.briefs: list[Brief] = []

    async def plan(self, brief: Brief, count: int, on_text: OnText) -> PlanAnswer:
        self.briefs.append(brief)
        return await super().plan(brief, count, on_text)


class Reader:
    """Someone who reads before deciding: `seen` has the hash of what was on the screen."""

    def __init__(self, desk: Desk):
        self.desk = desk
        self.seen: dict[str, str] = {}

    async def plan(self, *keys: str) -> None:
        """Reads the plan that is asked about, then types."""
        await self.desk.asked("plan")
        view = self.desk.session.view
        assert view is not None
        assert view.awaiting is not None
        assert view.proposal is not None
        plan, lines = view.proposal.plan, self.desk.session.source_pane.lines
        assert plan.title in self.desk.text("#plan")
        await self.desk.until(lambda: lines.line == plan.places[0].first, "the lines of the plan")
        self.seen[view.awaiting.id] = plan.hash
        await self.desk.press(*keys)

    async def diff(self, *keys: str) -> str:
        """Reads the diff that is asked about, then types; the new code."""
        await self.desk.asked("diff")
        view, shown = self.desk.session.view, self.desk.session.diff.view
        assert view is not None
        assert view.awaiting is not None
        assert shown is not None
        self.seen[view.awaiting.id] = content_hash(shown.new)
        await self.desk.press(*keys)
        return shown.new

    async def raise_the_risk(self) -> None:
        """Edits the plan that is asked about: its risk, which the form has last."""
        await self.plan("e")
        await self.desk.until(lambda: self.desk.app.screen.query("#risk"), "the form")
        await self.desk.press(*["tab"] * 5, "right", "ctrl+s")

    async def take_the_first_hunk(self) -> tuple[str, str]:
        """Accepts one of two hunks, then the smaller diff; the code of both diffs."""
        whole = await self.diff("J", "space")
        assert self.desk.text("#diff").count(f"+    {FAST}") == 1
        assert self.desk.text("#diff").count(f"+      {FAST}") == 1
        await self.desk.until(lambda: "1 of 2 hunks" in self.desk.text("#approval"), "the choice")
        await self.desk.press("a")
        await self.desk.until(lambda: self.desk.text("#diff").count(FAST) == 1, "a smaller diff")
        return whole, await self.diff("a")


@on_a_loop
async def test_edit_accept_and_take_a_part(tmp_path: Path, task: KernelTask) -> None:
    folder, team = tmp_path / "s", WatchedPlaybook()
    settings = settings_of(ASK, team=TeamKind.PLAYBOOK, rounds=5)
    async with working(folder, task, team, settings) as source, seated(source) as desk:
        reader = Reader(desk)
        await reader.raise_the_risk()
        await reader.diff("a")
        await reader.plan("a")
        whole, part = await reader.take_the_first_hunk()
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
    integrity, state = check_integrity(folder)
    assert integrity.flaws == ()
    assert {key: d.subject for key, d in state.decisions.items()} == reader.seen
    assert {d.by.kind for d in state.decisions.values()} == {AuthorKind.ENGINEER}
    check_decisions(state)
    check_partial(folder, state, whole, part)
    check_what_the_team_is_told(state, team.briefs[-1])


def check_decisions(state: SessionState) -> None:
    assert [(key, d.status.value, d.partial) for key, d in state.decisions.items()] == [
        ("1.0.plan", "edited", None),
        ("1.0.diff.0", "accepted", None),
        ("2.0.plan", "accepted", None),
        ("2.0.diff.0", "accepted", (0,)),
        ("2.0.diff.1", "accepted", None),
    ]
    proposed, edited = state.round(1).proposals[0].plan, state.plan_of(1, 0)
    assert (proposed.risk, edited.risk) == (Risk.MEDIUM, Risk.HIGH)
    assert (edited.move, edited.change) == (proposed.move, proposed.change)
    assert state.decisions["1.0.plan"].result == edited.hash


def check_partial(folder: Path, state: SessionState, whole: str, part: str) -> None:
    """The part is what the accepted hunk makes of the base, and all that was ever run of it."""
    base = (folder / "sources" / f"{state.round(2).base[:12]}.cu").read_text(encoding="utf-8")
    assert part == apply_hunks(base, whole, [0])
    assert state.decisions["2.0.diff.0"].result == ""
    assert state.decisions["2.0.diff.1"].result == content_hash(part)
    checked = [e.candidate for e in read_journal(folder).events if isinstance(e, CheckStarted)]
    assert content_hash(part) in checked
    assert content_hash(whole) not in checked
    verdict = state.round(2).proposals[0].verdict
    assert verdict is not None
    assert verdict.candidate == content_hash(part)


def check_what_the_team_is_told(state: SessionState, brief: Brief) -> None:
    """The next brief has the edited plan and the refused hunk."""
    tried = {t.round: t for t in brief.tried}
    assert sorted(tried) == [1, 2]
    assert tried[1].plan == state.plan_of(1, 0)
    assert (tried[1].edited, tried[2].edited) == (True, False)
    (refused,) = (c.text for c in brief.constraints if c.origin is Origin.HUNK)
    assert refused == f"      {FAST}\n"
