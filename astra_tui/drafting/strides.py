"""Tells the distance between a tensor's rows from the sizes of the operator."""

from __future__ import annotations

import re
from collections.abc import Sequence

from astra_tui.drafting.accesses import Access
from astra_tui.drafting.answers import Ask
from astra_tui.drafting.expressions import free_name, plan_expression
from astra_tui.drafting.geometry import LaunchDraft
from astra_tui.drafting.launching import Sizes
from astra_tui.drafting.reading import KernelFunction
from astra_tui.model.launch.expression import Call, Integer, Name, names_in

_STRIDE = re.compile(r"(?i)stride|pitch|^ld[a-z]?\d?$")


def recognise_strides(
    kernel: KernelFunction, accesses: Sequence[Access], launch: LaunchDraft, sizes: Sizes, ask: Ask
) -> bool:
    """Replaces sizes that are named like a stride, and used as one, by `stride(tensor, axis)`.

    A stride as a dimension would let the cases choose one that is shorter than the row. Of several
    for one tensor that of the outer axis comes first. Returns whether anything was replaced.
    """
    fixed = _names_of_launch(launch)
    named = [p.name for p in kernel.parameters if _STRIDE.search(p.name)]
    tensors = {name: _tensor_of(name, accesses, sizes, fixed) for name in named}
    found = False
    for name, tensor in tensors.items():
        value = sizes.arguments.get(name)
        if not isinstance(value, Name) or tensor is None:
            continue
        prefix = _prefix(name)
        if prefix and any(_prefix(n) == prefix and tensors[n] is None for n in named):
            said = "the draft cannot tell its axis, so that it is a dimension"
            ask(f"{name} is named like a stride: {said}", f"plan.args.{name}")
            continue
        shown = free_name(tensor)
        axis = [n for n in named if tensors[n] in (tensor, shown)].index(name)
        sizes.arguments[name] = Call("stride", (Name(shown), Integer(axis)))
        del sizes.workload[value.id]
        ask(f"{name} is passed as stride({shown}, {axis}), as its name and use say")
        found = True
    return found


def _prefix(name: str) -> str:
    """What names of one tensor's strides have before the axis: `key_stride_` of `key_stride_n`."""
    return name.rpartition("stride_")[0]


def _tensor_of(name: str, accesses: Sequence[Access], sizes: Sizes, fixed: set[str]) -> str | None:
    """The tensor whose stride a parameter is by its use."""
    value = sizes.arguments.get(name)
    match value:
        case Call(function="stride", args=(Name(id=tensor), _)):
            return tensor
    others = [v for n, v in sizes.arguments.items() if n != name]
    if not isinstance(value, Name) or value.id in fixed:
        return None
    if any(value.id in names_in(other) for other in others):
        return None
    return _only_tensor(value.id, accesses)


def _only_tensor(size: str, accesses: Sequence[Access]) -> str | None:
    """The one tensor whose rows lie `size` elements apart, None when it is used otherwise."""
    found: set[str] = set()
    for access in accesses:
        for monomial in access.index.terms:
            if any(atom.kind == "size" and atom.text == size for atom in monomial):
                steps = [atom for atom in monomial if not atom.is_size]
                found.add(access.tensor if len(steps) <= 1 else "")
        if any(size == atom.text for _, limit in access.bounds for atom in limit.atoms()):
            found.add("")
    return found.pop() if len(found) == 1 and "" not in found else None


def _names_of_launch(launch: LaunchDraft) -> set[str]:
    parts = [*(launch.grid or ()), *launch.block]
    texts = [launch.shared, *launch.template]
    parts += [e for text in texts if (e := plan_expression(text)) is not None]
    return set().union(*map(names_in, parts))
