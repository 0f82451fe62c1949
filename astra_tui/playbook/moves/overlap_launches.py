"""Lets launches begin while those before them still run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.syntax import line_of
from astra_tui.model.launch import Launch
from astra_tui.model.launch.expression import Name
from astra_tui.model.plan import CodePlace, Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import Edit, append_to, insert_above
from astra_tui.playbook.evidence import lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.waiting import (
    TRIGGER,
    WAIT,
    Waiting,
    calls_of,
    keep_loads_below,
    plain_loads,
    stable_arguments,
)


class _Unsuitable(Exception):
    """Why launches stay one after another."""


class OverlapLaunches:
    """Programmatic dependent launch: every kernel waits where it first needs what others wrote."""

    name = "overlap_launches"
    summary = "launches that begin while those before them still run (`pdl=true`)"
    kind = MoveKind.GEOMETRY
    needs_gpu = "needs a GPU: counters do not show what overlaps the launch before"
    gain = (1.0, 1.16)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """All launches of the plan at once: each that does not wait would hide those before it."""
        try:
            if not evidence.overlaps_launches:
                raise _Unsuitable(f"{evidence.arch} runs launches one after another")
            stable = stable_arguments(evidence.task)
            first = {k.name: _first(source, k, stable) for k in _kernels(source)}
        except _Unsuitable as reason:
            return NotApplicable(self.name, str(reason))

        def early(launch: Launch) -> Launch:
            return replace(launch, pdl=Name("true"))

        edits = [e for k in source.kernels for e in _edits(source, k, first[k.name], stable)]
        return Proposal(
            self._plan(source, list(first.values())),
            source.changed(edits, source.plan.with_launches(early)),
        )

    def _plan(self, source: KernelText, first: list[Node]) -> Plan:
        lines = sorted({launch.place.line for launch in source.plan.launches()})
        return Plan(
            title="Begin before the launch before has ended",
            bottleneck="a launch waits until the one before it has ended and the GPU is empty, and "
            "only then are its blocks placed and their indices computed",
            evidence=tuple(f"line {n}: begins when all before it has ended" for n in lines),
            change=f"Every launch gets pdl=true. Its threads wait at {lines_text(first)}, above "
            "the first access to memory that launches before may write or use, and trigger at the "
            "end of the kernel. What they may write is read without __restrict__, with which the "
            "compiler may load it before the wait. About a microsecond a launch is saved: much of "
            "a short kernel, nothing of a long one.",
            prediction=Prediction(1.0, 1.15, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.MEDIUM,
            places=(*(CodePlace(n, n) for n in lines), *places_of(first)),
            move=self.name,
        )


def _kernels(source: KernelText) -> Iterator[Function]:
    """The kernels of all launches. Raises _Unsuitable where one is early already, or unknown."""
    for launch in source.plan.launches():
        if launch.pdl is not None:
            raise _Unsuitable(f"line {launch.place.line}: the plan says already what begins early")
        if sum(f.is_kernel and f.name == launch.kernel for f in source.functions) != 1:
            raise _Unsuitable(f"line {launch.place.line}: the source has not one such kernel")
    said = [c for name in (WAIT, TRIGGER) for c in calls_of(source.root, name)]
    if said or "griddepcontrol" in source.text:
        where = f"line {line_of(said[0])}: " if said else ""
        raise _Unsuitable(f"{where}the code says already when to wait")
    yield from source.kernels


def _first(source: KernelText, kernel: Function, stable: frozenset[str]) -> Node:
    """What the kernel has to have waited for: the statement above which the wait goes."""
    first = Waiting(source, kernel, stable).place()
    if first is None:
        raise _Unsuitable(f"{kernel.line_text()} uses no memory that could be waited for")
    return first


def _edits(source: KernelText, kernel: Function, first: Node, stable: frozenset[str]) -> list[Edit]:
    return [
        insert_above(source.data, first, f"{WAIT}();"),
        append_to(source.data, kernel.body, f"{TRIGGER}();"),
        *keep_loads_below(source, kernel, stable),
        *plain_loads(source, kernel, stable),
    ]
