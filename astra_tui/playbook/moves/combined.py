"""Takes a slow kernel to the form in which kernels ship, in one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from msgspec.structs import replace

from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, Move, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.kernel_text import KernelText

STEPS = (
    *("row_grid", "full_grid", "reciprocal", "fast_math", "group_factors", "one_path"),
    *("wide_accesses", "flat_grid", "cheap_division"),
    *("pack_rows", "shuffle_reduction", "fit_block", "keep_row"),
    "row_in_registers",
    *("overlap_launches", "loads_first", "flush_exp"),
)
"""Moves of which the sum is what others ship: a grid that fills the GPU, cheap arithmetic, 16-byte
accesses, blocks that fit the row, a row that is read once, launches that overlap, and loads that
leave first."""

LESS_EXACT = frozenset(("reciprocal", "fast_math", "group_factors", "flush_exp"))
"""Those of which a result that is wrong by little may come."""

Ask = Callable[[Move, KernelText, Evidence], Proposal | NotApplicable]


class Combined:
    """Several moves, each on the result of those before, with one check and one timing for all."""

    name = "combined"
    summary = "the moves of which the sum is what others ship"
    kind = MoveKind.CODE
    needs_gpu = "counters judge each move alone in seconds"
    gain = None

    def __init__(self, moves: Mapping[str, Move], ask: Ask):
        """With the moves that may be steps, by name and in their order, and who asks them."""
        self._moves = {name: moves[name] for name in moves if name in STEPS}
        self._ask = ask

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """All of them that apply one after the other, where that is more than one."""
        alone = replace(evidence, settings={})
        found = self._steps(source, alone, tuple(self._moves))
        if len(found) < 2:
            return NotApplicable(self.name, f"{len(found)} of its moves applies; it joins several")
        wanted = evidence.several(
            "moves", "moves that are made, in this order", (p.plan.move for p in found)
        )
        chosen = tuple(map(str, wanted.chosen))
        if wanted.value != wanted.choices:
            found = self._steps(source, alone, chosen)
            made = [p.plan.move for p in found]
            lost = ", ".join(name for name in chosen if name not in made)
            if lost:
                return NotApplicable(self.name, f"{lost}: not without the moves that are left out")
        plan = replace(self._plan(source, alone, found), parameters=settable(wanted))
        return Proposal(plan, found[-1].source)

    def _steps(
        self, source: KernelText, evidence: Evidence, names: Sequence[str]
    ) -> list[Proposal]:
        """Those that change what a workload launches."""
        found: list[Proposal] = []
        for name in names:
            answer = self._ask(self._moves[name], source, evidence)
            if isinstance(answer, Proposal) and answer.reach:
                evidence = replace(evidence, counters=None)  # They are of the lines before.
                # What a move leaves it may take up a second time, as a quotient within a root.
                again = self._ask(self._moves[name], KernelText.read(answer.source), evidence)
                if isinstance(again, Proposal) and again.reach:
                    answer = replace(answer, source=again.source)
                found.append(answer)
                source = KernelText.read(answer.source)
        return found

    def _plan(self, source: KernelText, evidence: Evidence, steps: Sequence[Proposal]) -> Plan:
        asked = {s.plan.move: self._ask(self._moves[s.plan.move], source, evidence) for s in steps}
        own = {name: a.plan for name, a in asked.items() if isinstance(a, Proposal)}
        bounds = [s.plan.prediction.speedup or (1.0, 1.0) for s in steps]
        low, high = (min(prod(b), max(evidence.room, 1.0)) for b in zip(*bounds, strict=True))
        titles = [s.plan.title[0].lower() + s.plan.title[1:] for s in steps]
        return Plan(
            title=f"Do {len(steps)} moves at once: {'; '.join(titles)}",
            bottleneck="the kernel lacks several things that every shipped one of its kind has, "
            "and a round for each would only tell which of them gained how much",
            evidence=tuple(dict.fromkeys(said for plan in own.values() for said in plan.evidence)),
            change="\n".join(f"{s.plan.move}: {_change(s.plan, own)}" for s in steps),
            prediction=Prediction(
                min(low, high), high, Counter.WARP_INSTRUCTIONS,
                prod(
                    s.plan.prediction.counter_ratio for s in steps
                    if s.plan.prediction.counter is Counter.WARP_INSTRUCTIONS
                ),
            ),
            risk=max((s.plan.risk for s in steps), key=lambda risk: risk.rank, default=Risk.LOW),
            places=tuple(dict.fromkeys(place for plan in own.values() for place in plan.places)),
            move=self.name,
        )  # fmt: skip


def _change(plan: Plan, own: Mapping[str, Plan]) -> str:
    """What a step does, with the lines of the source that the round starts from."""
    found = own.get(plan.move)
    return found.change if found else f"{plan.title}, which the moves before it make possible."
