"""Exponentials as compilers make them with -use_fast_math: results that are subnormal become 0."""

from __future__ import annotations

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.syntax import arguments_of, called_name, field, line_of, of_type
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import insert_above, replace
from astra_tui.playbook.evidence import lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.tolerance import tight_tolerance

_FUNCTION = """\
// e^x by the hardware's 2^x; a result below 2^-126 becomes 0.
__device__ __forceinline__ float {name}(float x) {{
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.44269504f));
  return result;
}}
"""


class FlushExp:
    """`ex2.approx.ftz` in place of `__expf`, which keeps subnormal results by three more steps."""

    name = "flush_exp"
    summary = "exponentials that flush subnormal results to 0"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: PTX does not show the machine code that an exponential becomes"
    gain = (1.0, 1.03)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every `__expf` of the source."""
        tight = tight_tolerance(evidence.task)
        if tight:
            return NotApplicable(self.name, tight)
        calls = [call for f in source.functions for call in of_type(f.body, "call_expression")]
        lines = evidence.lines(call for call in calls if _is_exp(call))
        chosen = [call for call in calls if _is_exp(call) and line_of(call) in lines.chosen]
        if not chosen:
            return NotApplicable(self.name, "no __expf")
        name = fresh_name("exp_flushed", source.names())
        first = min((f.outer for f in source.functions), key=lambda node: node.start_byte)
        edits = [replace(field(call, "function"), name) for call in chosen]
        edits.append(insert_above(source.data, first, _FUNCTION.format(name=name)))
        plan = Plan(
            title="Flush subnormal exponentials",
            bottleneck="__expf scales its operand and its result to keep results below 2^-126: "
            "five instructions of machine code, where kernels that are compiled with "
            "-use_fast_math have two",
            evidence=(f"{lines_text(chosen)}: __expf, compiled without -use_fast_math",),
            change=f"{lines_text(chosen)}: 2^x by ex2.approx.ftz, with the same error; what would "
            "be below 1.2e-38 becomes 0.",
            prediction=Prediction(*self.gain, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.LOW,
            places=places_of(chosen),
            move=self.name,
            parameters=settable(lines),
        )
        return Proposal(plan, source.changed(edits))


def _is_exp(call: Node) -> bool:
    return called_name(call) == "__expf" and len(arguments_of(call)) == 1
