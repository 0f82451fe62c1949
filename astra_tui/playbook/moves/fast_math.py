"""CUDA's approximate functions and division where the tolerance has room for them."""

from __future__ import annotations

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.syntax import (
    arguments_of,
    bare,
    called_name,
    field,
    line_of,
    of_type,
    operator_of,
    text_of,
)
from astra_tui.cuda_source.types import is_float
from astra_tui.model.plan import Counter, Plan, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import Edit, outermost, replace
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.moves.reciprocal import is_one
from astra_tui.playbook.tolerance import tight_tolerance

_FAST = {"expf": "__expf", "logf": "__logf", "log2f": "__log2f", "log10f": "__log10f"}
_OVERLOADED = {"exp": "__expf", "log": "__logf", "log2": "__log2f", "log10": "__log10f"}


class FastMath:
    """__expf, __logf, __fdividef and rsqrtf; sines and powers keep their accuracy."""

    name = "fast_math"
    summary = "hardware approximations of exp, log, division and 1 / sqrt"
    kind = MoveKind.CODE
    needs_gpu = ""
    gain = (1.0, 1.2)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every float32 exponential, logarithm and division of the source."""
        tight = tight_tolerance(evidence.task)
        if tight:
            return NotApplicable(self.name, tight)
        slow = [
            (function, [n for n in _candidates(function) if _is_slow(n, function)])
            for function in source.functions
        ]
        if not any(found for _, found in slow):
            return NotApplicable(
                self.name, "no float32 exponential, logarithm or division with a fast form"
            )
        lines = evidence.lines(n for _, found in slow for n in found)
        edits: list[Edit] = []
        nodes: list[Node] = []
        for function, found in slow:
            changed = [n for n in found if line_of(n) in lines.chosen]
            nodes += changed
            edits += [replace(n, _fast(n, function, changed)) for n in outermost(changed)]
        part = share(evidence.counters, Counter.WARP_INSTRUCTIONS, nodes)
        plan = Plan(
            title="Use fast mathematics",
            bottleneck="accurate exponentials and divisions take many instructions an element",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: intrinsics with an error of a few units in the last "
            "place. __fdividef gives 0 for divisors above 2^126, where the quotient of an ordinary "
            "number is below 1e-37 anyway, and NaN where an infinity is divided by them.",
            prediction=predicted(Counter.WARP_INSTRUCTIONS, part, 0.6, (1.0, 1.3), 0.3),
            risk=Risk.MEDIUM,
            places=places_of(nodes),
            move=self.name,
            parameters=settable(lines),
        )
        return Proposal(plan, source.changed(edits))


def _candidates(function: Function) -> list[Node]:
    return list(of_type(function.body, "call_expression", "binary_expression"))


def _is_slow(node: Node, function: Function) -> bool:
    if node.type == "call_expression":
        return bool(_fast_name(node, function))
    sides = [field(node, s) for s in ("left", "right")]
    return operator_of(node) == "/" and all(is_float(s, function) for s in sides)


def _fast_name(call: Node, function: Function) -> str:
    name, values = called_name(call), arguments_of(call)
    if len(values) != 1:
        return ""
    if name in _OVERLOADED:
        return _OVERLOADED[name] if is_float(values[0], function) else ""
    return _FAST.get(name, "")


def _fast(node: Node, function: Function, slow: list[Node]) -> str:
    """The text of an expression with everything slow in it replaced."""
    if node.type == "call_expression" and node in slow:
        return f"{_fast_name(node, function)}({_fast(arguments_of(node)[0], function, slow)})"
    if node.type == "binary_expression" and node in slow:
        return _fast_division(node, function, slow)
    if not node.children:
        return text_of(node)
    text, position = "", node.start_byte
    whole = node.text or b""
    for child in node.children:
        gap = whole[position - node.start_byte : child.start_byte - node.start_byte]
        text += gap.decode() + _fast(child, function, slow)
        position = child.end_byte
    return text


def _fast_division(node: Node, function: Function, slow: list[Node]) -> str:
    left, right = bare(field(node, "left")), bare(field(node, "right"))
    is_root = right.type == "call_expression" and called_name(right) in ("sqrtf", "sqrt")
    if is_one(left) and is_root:
        return f"rsqrtf({_fast(arguments_of(right)[0], function, slow)})"
    return f"__fdividef({_fast(left, function, slow)}, {_fast(right, function, slow)})"
