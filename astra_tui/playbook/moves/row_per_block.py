"""Gives each row a block, where a flat index is divided into row and column again."""

from __future__ import annotations

from dataclasses import replace

from astra_tui.model.launch import Launch
from astra_tui.model.launch.expression import Expression
from astra_tui.model.plan import Counter, Plan, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import insert_before
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.flat_rows import (
    ColumnLoop,
    FlatRows,
    NotFlat,
    by_columns,
    find_flat_rows,
    rows_of,
)
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import map_launches


class RowPerBlock:
    """Launch geometry: a block a row, threads along the row, no division an element."""

    name = "row_per_block"
    summary = "a block a row in place of a flat index that is divided again"
    kind = MoveKind.GEOMETRY
    needs_gpu = ""
    priority = 15
    gain = (0.3, 1.0)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The first kernel whose flat loop divides by the length of a row."""
        if evidence.timed:
            return NotApplicable(self.name, "few rows would leave the GPU idle: see row_grid")
        reasons = []
        for kernel in source.kernels:
            try:
                flat = find_flat_rows(kernel)
                grids = {id(e): rows_of(flat, e) for e in source.launches_of(kernel)}
            except NotFlat as reason:
                reasons.append(f"{kernel.name}: {reason}")
                continue
            return self._proposal(source, evidence, flat, grids)
        return NotApplicable(self.name, "; ".join(reasons) or "no kernel")

    def _proposal(
        self,
        source: KernelText,
        evidence: Evidence,
        flat: FlatRows,
        grids: dict[int, Expression],
    ) -> Proposal:
        nodes = flat.divisions
        part = share(evidence.counters, Counter.WARP_INSTRUCTIONS, nodes)
        plan = Plan(
            title="Give each row a block",
            bottleneck="every element divides a flat index to learn its row and column; integer "
            "division takes dozens of instructions",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: the row is the block's index and the column the "
            "thread's, and the grid has as many blocks as there are rows, without a cap.",
            prediction=predicted(Counter.WARP_INSTRUCTIONS, part, 0.1, (1.2, 3.0), 0.5),
            risk=Risk.MEDIUM,
            places=places_of([flat.loop.node]),
            move=self.name,
        )

        def by_rows(launch: Launch) -> Launch:
            grid = grids.get(id(launch))
            return launch if grid is None else replace(launch, grid=(grid,))

        along_row = ColumnLoop("threadIdx.x", "blockDim.x")
        row, edits = by_columns(source, flat, along_row, source.names())
        declared = f"const {flat.loop.variable.type} {row} = blockIdx.x;"
        edits.append(insert_before(source.data, flat.loop.node, [declared]))
        return Proposal(plan, source.changed(edits, map_launches(source.plan, by_rows)))
