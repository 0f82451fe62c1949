"""Turns loops of which every thread takes one iteration into conditions."""

from __future__ import annotations

from astra_tui.model.plan import Counter, Plan, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.iterations import single_iterations, without_single_iterations
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.moves.wide_accesses import WideAccesses


class SingleTurn:
    """Launch geometry: where the grid has a thread for each iteration, no thread comes back."""

    name = "single_turn"
    summary = "a condition in place of a loop of which each thread takes one iteration"
    kind = MoveKind.GEOMETRY
    needs_gpu = "needs a GPU: counters do not show what a grid leaves idle"
    gain = (1.0, 1.1)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Loops whose iterations the grid covers; after accesses are wide, which needs loops."""
        turns = [t for kernel in source.kernels for t in single_iterations(source, kernel)]
        if not turns:
            return NotApplicable(self.name, "no loop of which the grid covers all iterations")
        if isinstance(WideAccesses().propose(source, evidence), Proposal):
            return NotApplicable(self.name, "the accesses of its loops can become wide first")
        nodes = [turn.loop.node for turn in turns]
        part = share(evidence.counters, Counter.WARP_INSTRUCTIONS, nodes)
        plan = Plan(
            title="One iteration a thread",
            bottleneck="each thread computes where its next iteration would be, and finds none",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: the grid has a thread for every iteration, so that a "
            "condition takes the place of the loop.",
            prediction=predicted(Counter.WARP_INSTRUCTIONS, part, 0.9, (1.0, 1.1), 0.9),
            risk=Risk.LOW,
            places=places_of(nodes),
            move=self.name,
        )
        return Proposal(
            plan, without_single_iterations(source.text, tuple(k.name for k in source.kernels))
        )
