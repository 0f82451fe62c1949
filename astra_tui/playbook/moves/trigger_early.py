"""Lets the launch after begin as soon as the launch before has ended."""

from __future__ import annotations

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.syntax import line_of, statements_of
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import Edit, insert_after, remove_statement
from astra_tui.playbook.evidence import lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.waiting import TRIGGER, WAIT, calls_of, guarded_by


class _Unsuitable(Exception):
    """Why a kernel triggers where it does."""


class TriggerEarly:
    """Programmatic dependent launch: the next launch is placed while this one has all its work."""

    name = "trigger_early"
    summary = "the trigger right after the wait, where it stood at the end of the kernel"
    kind = MoveKind.GEOMETRY
    needs_gpu = "needs a GPU: counters do not show what overlaps the launch before"
    gain = (0.9, 1.05)

    def propose(
        self,
        source: KernelText,
        evidence: Evidence,  # noqa: ARG002
    ) -> Proposal | NotApplicable:
        """All kernels that wait in one place and trigger later, or never."""
        reasons: list[str] = []
        found: list[tuple[Node, list[Node]]] = []
        for kernel in source.kernels:
            try:
                found.append(_wait_and_triggers(source, kernel))
            except _Unsuitable as reason:
                reasons.append(f"{kernel.name}: {reason}")
        if not found:
            return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or "no kernel")
        edits = [e for wait, triggers in found for e in _edits(source.data, wait, triggers)]
        return Proposal(self._plan(found), source.changed(edits))

    def _plan(self, found: list[tuple[Node, list[Node]]]) -> Plan:
        waits = [wait for wait, _ in found]
        late = [trigger for _, triggers in found for trigger in triggers]
        return Plan(
            title="Trigger right after the wait",
            bottleneck="the launch after may begin only when the blocks here have come to their "
            "end, so that its start is hidden behind nothing but their last stores",
            evidence=tuple(f"line {line_of(n)}: the trigger comes at the end" for n in late)
            or ("no thread triggers before it ends",),
            change=f"The trigger moves after the wait at {lines_text(waits)}. What comes after "
            "waits itself for all that is written here. Its blocks take room from the blocks of "
            "this launch that have not begun: with many of them it may cost more than it saves.",
            prediction=Prediction(0.9, 1.05, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.MEDIUM,
            places=places_of([*waits, *late]),
            move=self.name,
        )


def _wait_and_triggers(source: KernelText, kernel: Function) -> tuple[Node, list[Node]]:
    """The one wait of a kernel, and the triggers that stand after it."""
    if all(launch.pdl is None for launch in source.launches_of(kernel)):
        raise _Unsuitable("its launches have no pdl=")
    statements = statements_of(kernel.body)
    bodies = [statements, *(statements_of(b) for b in map(guarded_by, statements) if b is not None)]
    waits = [(s, body) for body in bodies for s in body if _is_call(s, WAIT)]
    if len(waits) != 1 or len(calls_of(kernel.body, WAIT)) != 1:
        raise _Unsuitable("it does not wait in one place")
    wait, body = waits[0]
    triggers = calls_of(kernel.body, TRIGGER)
    late = [s for s in statements if _is_call(s, TRIGGER)]
    if len(late) != len(triggers):
        raise _Unsuitable(f"line {line_of(triggers[0])}: not all threads trigger there")
    if any(s.start_byte < wait.start_byte or s in body[body.index(wait) + 1 :][:1] for s in late):
        raise _Unsuitable(f"line {line_of(late[0])}: it triggers early already")
    return wait, late


def _is_call(statement: Node, name: str) -> bool:
    """Whether a statement is a call of a function and nothing else."""
    calls = calls_of(statement, name)
    return statement.type == "expression_statement" and calls == statement.named_children


def _edits(data: bytes, wait: Node, late: list[Node]) -> list[Edit]:
    moved = [remove_statement(data, statement) for statement in late]
    return [*moved, insert_after(data, wait, [f"{TRIGGER}();"])]
