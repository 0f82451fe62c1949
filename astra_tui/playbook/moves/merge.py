"""Merges the source with a winner of another branch, where a search asks for that."""

from __future__ import annotations

from astra_tui.model.digest import short
from astra_tui.model.hunks import hunks_of, merge_texts
from astra_tui.model.launch import print_expression
from astra_tui.model.plan import MERGE_MOVE, CodePlace, Counter, Plan, Prediction, Risk
from astra_tui.model.team_protocol import SecondParent
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.portfolio import CannotJoin, Part, joined


class Merge:
    """One source of two: the changes of both, or each for the sizes on which it is the better."""

    name = MERGE_MOVE
    summary = "the changes of a winner of another branch"
    kind = MoveKind.CODE
    needs_gpu = ""
    gain = (1.0, 1.2)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """By a branch of the launch plan where one is better on some sizes and the other on
        others, else line by line.
        """
        second = evidence.second
        if second is None:
            return NotApplicable(self.name, "no second source is to be merged with this one")
        if second.condition is None:
            text = merge_texts(second.ancestor, source.text, second.source)
            if text is None:
                return NotApplicable(self.name, "both changed the same lines, in different ways")
            how = "the lines that it changed, beyond what this source has"
        else:
            condition = print_expression(second.condition)
            try:
                part = Part(second.condition, second.source, "; ".join(second.gains))
                text = joined(evidence.task, source.text, [part])
            except CannotJoin as error:
                return NotApplicable(self.name, error.describe())
            how = f"its kernels where {condition}, those of this source elsewhere"
        return Proposal(self._plan(source.text, text, second, how), text)

    def _plan(self, source: str, text: str, second: SecondParent, how: str) -> Plan:
        done = "; ".join(second.done) or "another branch"
        hunks = ((h.old_start + 1, h.old_end) for h in hunks_of(source, text))
        places = tuple(CodePlace(first, max(first, last)) for first, last in hunks)
        ratios = {c: second.ratios[c.value] for c in Counter if c.value in second.ratios}
        counter = min(ratios, key=lambda c: ratios[c], default=Counter.WARP_INSTRUCTIONS)
        return Plan(
            title=f"Merge with {short(second.candidate)}",
            bottleneck=f"this source lacks what another branch has gained by: {done}",
            evidence=tuple(f"{short(second.candidate)} has, of {gain}" for gain in second.gains),
            change=f"Take over from {short(second.candidate)} {how}.",
            prediction=Prediction(None, None, counter, ratios.get(counter, 1.0)),
            risk=Risk.MEDIUM,
            places=places,
            move=self.name,
        )
