"""Asks every move, and holds each answer to the same standard before anyone sees it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType

from msgspec.structs import replace

from astra_tui.cuda_source.syntax import line_of, of_type, parse
from astra_tui.model.digest import content_hash
from astra_tui.model.errors import Place, UserError
from astra_tui.model.launch import find_plan, plan_of, print_expression, validate_plan
from astra_tui.model.plan import CodePlace, Plan
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Brief, CannotFollow, Tried
from astra_tui.model.verdict import Outcome
from astra_tui.playbook.api import WORKLOADS, Evidence, Move, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import Edit, OverlappingEdits, apply
from astra_tui.playbook.edits import replace as replace_node
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import launched_kernels, lets_of, resolved_on_workloads
from astra_tui.playbook.moves import BY_TIME, FOR_SLOW, all_moves
from astra_tui.playbook.moves.combined import LESS_EXACT, Combined
from astra_tui.playbook.moves.merge import Merge
from astra_tui.playbook.moves.overlap_launches import OverlapLaunches
from astra_tui.playbook.shipped.included import BroughtIn, CannotBring, bring_in
from astra_tui.playbook.shipped.written_out import written_out

Runs = tuple[tuple[object, ...], ...]
"""What a source runs on each workload of its task: equal parts do the same."""


def propose_all(
    source: str,
    evidence: Evidence,
    withdrawn: Mapping[tuple[str, str], str] = MappingProxyType({}),
    settled: frozenset[tuple[str, str]] = frozenset(),
) -> tuple[list[Proposal], list[NotApplicable]]:
    """What the playbook offers for a source, best first, and why its other moves do not.

    `withdrawn` names moves that failed or were rejected, each with the hash of the source that it
    is not to be offered for, and says why; `settled` those that gained nothing, each with the
    `region` that they had to change.

    Raises PlanError for a source whose launch plan cannot be read.
    """
    base = Base.of(source, evidence)
    hash_ = content_hash(source)
    proposals: list[Proposal] = []
    refusals: list[NotApplicable] = []
    for move in all_moves():
        reason = withdrawn.get((move.name, hash_))
        answer = NotApplicable(move.name, reason) if reason else base.ask(move)
        if isinstance(answer, Proposal) and (move.name, base.region(answer.plan)) in settled:
            answer = NotApplicable(
                move.name, "it gained nothing before, and what it would change is still the same"
            )
        if isinstance(answer, Proposal):
            proposals.append(answer)
        else:
            refusals.append(answer)
    proposals.sort(key=_by_time(proposals) if evidence.timed else _preference)
    if evidence.timed:
        answer = base.ask(_combined(withdrawn, settled, hash_))
        if isinstance(answer, Proposal):
            proposals.insert(0, answer)
        else:
            refusals.insert(0, answer)
    for move in _merging(evidence):  # What a round is to merge is neither withdrawn nor settled.
        answer = propose(move, KernelText.read(source), evidence)
        if isinstance(answer, Proposal):
            proposals.insert(0, answer)
        else:
            refusals.insert(0, answer)
    return proposals, refusals


def _merging(evidence: Evidence) -> tuple[Move, ...]:
    """The move of a round that merges; it is no other round's."""
    return (Merge(),) if evidence.second is not None else ()


def withdrawn_moves(brief: Brief) -> dict[tuple[str, str], str]:
    """Moves that are not to be proposed, each with the hash of the source that this is about, and
    why: turned down by the engineer, on whatever source, or tried on this one.
    """
    withdrawn = {}
    for tried in brief.tried:
        if tried.plan.move:
            rejected = tried.outcome is Outcome.REJECTED
            if tried.edited and not rejected:
                continue  # As the move proposes it, it was not tried.
            base = brief.base if rejected else tried.base
            for move in withdrawn_by(tried):
                withdrawn[move, base] = tried.describe_outcome()
    return withdrawn


def withdrawn_by(tried: Tried) -> Sequence[str]:
    """The moves that a plan has shown to be of no use: its own, or those of its steps that made
    it wrong by little, where the others are worth another try.
    """
    if tried.plan.move == Combined.name and tried.outcome is Outcome.WRONG:
        steps = tried.plan.settings.get("moves")
        less_exact = LESS_EXACT.intersection(steps if isinstance(steps, tuple) else ())
        if less_exact and isinstance(steps, tuple) and len(steps) - len(less_exact) > 1:
            return sorted(less_exact)
    return (tried.plan.move,)


@dataclass(frozen=True)
class Base:
    """A source as moves see it: with the kernels that it only includes, and what was counted."""

    text: KernelText
    evidence: Evidence
    brought: BroughtIn | None = None
    problem: str = ""
    """Why kernels that it includes cannot be changed, "" where they can or there are none."""

    @classmethod
    def of(cls, source: str, evidence: Evidence) -> Base:
        """Reads it. Raises PlanError for a source whose launch plan cannot be read."""
        upstream = evidence.task.upstream
        credit = f"{upstream.origin}, {upstream.licence}" if upstream is not None else ""
        try:
            brought = bring_in(source, evidence.included, credit)
        except CannotBring as reason:
            return cls(KernelText.read(source), evidence, problem=str(reason))
        if brought is None:
            return cls(KernelText.read(source), evidence)
        return cls._of_brought(brought, evidence)

    @classmethod
    def _of_brought(cls, brought: BroughtIn, evidence: Evidence) -> Base:
        counters = evidence.counters and brought.counted(evidence.counters)
        return cls(KernelText.read(brought.text), replace(evidence, counters=counters), brought)

    @cached_property
    def written_out(self) -> Base | None:
        """The same with its kernels written out; None where there is nothing to write out."""
        evidence = self.evidence
        dtypes = evidence.task.dtypes
        found = written_out(
            self.text.text,
            evidence.included,
            dependent_launches=evidence.overlaps_launches,
            element=dtypes[0] if len(dtypes) == 1 else None,
        )
        if found is None:
            return None
        brought = self.brought or BroughtIn(self.text.text, {}, "")
        return self._of_brought(brought.written(found.text, found.said), evidence)

    def ask(self, move: Move) -> Proposal | NotApplicable:
        """One move's answer; its plan names lines where they are in the source and its files.

        What it does not find in the kernels as they are it may find in those written out. Several
        moves at once are made on those first, since some of them may need it.
        """
        if isinstance(move, Combined) and not self.problem and self.written_out is not None:
            joined = self.written_out.ask(move)
            if isinstance(joined, Proposal):
                return joined
        answer = propose(move, self.text, self.evidence, self.runs)
        if isinstance(answer, NotApplicable):
            if not self.problem and self.written_out is not None:
                return self.written_out.ask(move)
            reason = self.problem or answer.reason
            return NotApplicable(move.name, self.brought.words(reason) if self.brought else reason)
        return replace(answer, plan=self.brought.placed(answer.plan)) if self.brought else answer

    def region(self, plan: Plan) -> str:
        """The code that a plan for the source names as its places; see `region`."""
        places = self.brought.within(plan.places) if self.brought else plan.places
        return region(replace(plan, places=places), self.text)

    def why_unmeasured(self, proposal: Proposal) -> str:
        """Why no workload would show what a proposal is worth, "" where one does: none launches
        what it adds or changes.
        """
        plan, task = plan_of(proposal.source), self.evidence.task
        added = {launch.kernel for launch in plan.launches()}
        added -= {launch.kernel for launch in self.text.plan.launches()}
        launched = launched_kernels(task, plan)
        if launched and added and not added & launched:
            return f"no workload would launch {', '.join(sorted(added))}"
        if launched and not proposal.reach:
            return "no workload launches what it would change"
        return ""

    @cached_property
    def runs(self) -> Runs:
        """What the source runs on each workload."""
        return _what_runs(self.text, self.evidence.task)


def propose_as_set(source: str, plan: Plan, evidence: Evidence) -> Proposal | NotApplicable:
    """What the move of a plan makes of a source with the plan's parameters.

    Raises UserError for a value that is no choice.
    """
    merging = {move.name: move for move in _merging(evidence)}
    move = (merging | moves_by_name()).get(plan.move)
    if move is None:
        return NotApplicable(plan.move, "no such move")
    set_ = replace(evidence, settings={**evidence.settings, **plan.settings})
    if isinstance(move, Merge):
        return propose(move, KernelText.read(source), set_)
    return Base.of(source, set_).ask(move)


def plan_as_set(source: str, shown: Plan, edited: Plan, evidence: Evidence) -> Plan:
    """The plan that the move of a shown plan has with the parameters of an edited one.

    Raises CannotFollow where the move cannot be set like that.
    """
    own = {p.name: p for p in shown.parameters}
    if [p.name for p in edited.parameters] != list(own):
        raise not_followed(shown, "the names of its parameters")
    # Only these: what the others can be may follow from them.
    changed = tuple(p for p in edited.parameters if p.value != own[p.name].value)
    try:
        answer = propose_as_set(source, replace(shown, parameters=changed), evidence)
    except UserError as error:
        raise CannotFollow(error.message, hint=error.hint) from None
    if isinstance(answer, NotApplicable):
        raise CannotFollow(f"{shown.move} cannot do this: {answer.reason}")
    return answer.plan


def not_followed(plan: Plan, what: str) -> CannotFollow:
    """Says of an edit of a move's plan that the code would not obey it, and what it would."""
    names = ", ".join(p.name for p in plan.parameters)
    settable = f"set its parameters ({names})" if names else "it has no parameters to set"
    return CannotFollow(
        f"the move {plan.move} would not follow an edit of {what}",
        hint=f"{settable}, or accept the plan and edit the code at the diff",
    )


def propose(
    move: Move, source: KernelText, evidence: Evidence, runs: Runs | None = None
) -> Proposal | NotApplicable:
    """One move's answer for a source; a rewrite that is no valid source becomes a refusal.

    `runs` is what the source runs on each workload, where that is known.
    """
    broken = next(of_type(source.root, "ERROR"), None) if source.root.has_error else None
    if broken is not None:
        return NotApplicable(move.name, f"line {line_of(broken)}: the grammar does not follow")
    if move.needs_gpu and not evidence.timed:
        return NotApplicable(move.name, move.needs_gpu)
    try:
        answer = move.propose(source, evidence)
    except OverlappingEdits as error:
        return NotApplicable(move.name, f"its changes get in each other's way: {error}")
    if isinstance(answer, NotApplicable):
        return answer
    problem = _problem(answer.source, source.text, evidence)
    if problem:
        return NotApplicable(move.name, problem)
    after = _what_runs(KernelText.read(answer.source), evidence.task)
    runs = runs or _what_runs(source, evidence.task)
    answer = replace(answer, reach=_reach(runs, after, answer.plan, evidence.task))
    return _with_gain(answer, move, evidence.room) if evidence.timed else answer


def _problem(text: str, before: str, evidence: Evidence) -> str:
    """What is wrong with a rewritten source, "" for nothing."""
    if text == before:
        return "the rewrite changed nothing"
    root = parse(text)
    if root.has_error:
        places = [line_of(n) for n in of_type(root, "ERROR")]
        return f"the rewrite does not parse (line {places[0] if places else '?'})"
    try:
        validate_plan(plan_of(text), evidence.task.scope)
    except UserError as error:
        return f"the rewritten launch plan does not fit the task: {error.describe()}"
    return ""


def _what_runs(text: KernelText, task: KernelTask) -> Runs:
    """For each workload its launches, and all code but the kernels that it does not launch."""

    @cache
    def code(launched: frozenset[str]) -> list[bytes]:
        left_out = [k.outer for k in text.kernels if k.name not in launched]
        plan = find_plan(text.text)
        begin, end = (len(text.text[:at].encode()) for at in (plan.begin, plan.end))
        gone = [Edit(begin, end, ""), *(replace_node(node, "") for node in left_out)]
        return apply(text.data, gone).split()

    found = []
    for launches in resolved_on_workloads(task, text.plan):
        names = frozenset(launch.kernel.partition("<")[0] for launch in launches)
        placeless = [dataclasses.replace(launch, place=Place()) for launch in launches]
        found.append((placeless, code(names)))
    return tuple(found)


def _reach(before: Runs, after: Runs, plan: Plan, task: KernelTask) -> float:
    """The share of the workloads, by their weights, on which something else runs.

    Where a plan names the workloads that use the new code, the others run the old, under whatever
    name and template arguments.
    """
    named = next((p.chosen for p in plan.parameters if p.name == WORKLOADS), None)
    changed = [
        workload.weight
        for workload, old, new in zip(task.workloads, before, after, strict=True)
        if old != new and (named is None or workload.name in named)
    ]
    total = math.fsum(workload.weight for workload in task.workloads)
    return math.fsum(changed) / total if total else 1.0


def _combined(
    withdrawn: Mapping[tuple[str, str], str], settled: frozenset[tuple[str, str]], base: str
) -> Combined:
    """The move that joins several, without those that are not to be made; empty once it failed."""
    without = {name for name, of in withdrawn if of == base} | {name for name, _ in settled}
    if Combined.name in without:
        return Combined({}, propose)
    moves = {move.name: move for move in all_moves() if move.name not in without}
    return Combined({name: moves[name] for name in BY_TIME if name in moves}, propose)


def moves_by_name() -> dict[str, Move]:
    """Every move that a plan can name, but for those of rounds of their own kind."""
    return {move.name: move for move in (_combined({}, frozenset(), ""), *all_moves())}


def _by_time(proposals: Sequence[Proposal]) -> Callable[[Proposal], tuple[bool, bool, int]]:
    """The order as measured; what is for the lesser part of the workloads comes last.

    Where no move is left for a kernel that is slow, what launches wait for comes first.
    """
    slow = any(p.plan.move in FOR_SLOW for p in proposals)

    def order(proposal: Proposal) -> tuple[bool, bool, int]:
        move = proposal.plan.move
        later = slow or move != OverlapLaunches.name
        return proposal.reach < 0.5, later, BY_TIME.index(move)

    return order


def _preference(proposal: Proposal) -> tuple[float, int, str]:
    """Larger middle of the predicted speedup first, over all workloads by their weights; then lower
    risk, then by name.
    """
    low, high = proposal.plan.prediction.speedup or (1.0, 1.0)
    middle = math.sqrt(low * high) ** proposal.reach
    return -middle, proposal.plan.risk.rank, proposal.plan.move


def _with_gain(proposal: Proposal, move: Move, room: float) -> Proposal:
    """The proposal with what its move can gain over all workloads, as far as the device leaves room
    for it: where it reaches only some, they count by their weights.
    """
    if move.gain is None:
        return proposal
    low, high = (min(gain, max(room, 1.0)) ** proposal.reach for gain in move.gain)
    prediction = replace(proposal.plan.prediction, speedup_low=low, speedup_high=high)
    return replace(proposal, plan=replace(proposal.plan, prediction=prediction))


def region(plan: Plan, text: KernelText) -> str:
    """The code that a plan for a source names as its places, however it is indented.

    With the geometry of the launches concerned where the effect depends on it. Equal regions
    promise equal effects: a move looks at these lines, and what it writes follows from them.
    """
    found = find_plan(text.text)
    of_plan = range(found.place.line, found.place.line + found.text.count("\n") + 1)
    lines = text.text.splitlines()
    named = [
        lines[number - 1].strip()
        for p in plan.places
        for number in range(p.first, min(p.last, len(lines)) + 1)
        if number not in of_plan
    ]
    if named and all(m.kind is MoveKind.CODE for m in all_moves() if m.name == plan.move):
        return "\n".join(named)
    return "\n".join([*_geometry(text, plan), *named])


def _geometry(text: KernelText, plan: Plan) -> Iterator[str]:
    """The launches that a plan's places are about, or all, and what their sizes come from.

    Without arguments, conditions and `pdl=`: sizes do not depend on them.
    """
    spans = {k.name: (line_of(k.node), k.node.end_point[0] + 1) for k in text.kernels}
    launches = list(text.plan.launches())
    about = [
        launch for launch in launches
        if any(_meet(p, launch.place.line, launch.place.line) for p in plan.places)
        or any(_meet(p, *spans.get(launch.kernel, (0, -1))) for p in plan.places)
    ]  # fmt: skip
    for launch in about or launches:
        sizes = (*launch.grid, *launch.block, *launch.cluster)
        for name, value in lets_of(sizes, text.plan).items():
            yield f"{name} = {print_expression(value)}"
        yield " ".join([launch.kernel, *map(print_expression, sizes)])


def _meet(place: CodePlace, first: int, last: int) -> bool:
    return place.first <= last and first <= place.last
