"""Loads and stores 16 bytes a thread where the source moves one element at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec.structs import replace as replace_struct

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function
from astra_tui.model.dtypes import PLAN_TYPES, DType
from astra_tui.model.launch import Launch, Let
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Expression,
    Integer,
    Name,
    map_expressions,
)
from astra_tui.model.launch.scope import NULL
from astra_tui.model.plan import Counter, Parameter, Plan, Risk
from astra_tui.model.task import KernelTask
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import Edit
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.grids import flat_loops, other_grid_use
from astra_tui.playbook.guards import guards_as_loops
from astra_tui.playbook.iterations import without_single_iterations
from astra_tui.playbook.kernel_text import KernelText, specialised
from astra_tui.playbook.lane_indices import NotWidenable
from astra_tui.playbook.launching import (
    aligned,
    all_of,
    divisible,
    for_workloads,
    is_fallback,
    only_for,
    plan_type,
    plan_value,
    with_branch,
)
from astra_tui.playbook.widening import (
    WideLoop,
    WideNames,
    widen_loops,
)

_BYTES = (16, 8, 4)
"""Sizes of a pack; 16 is the widest that one instruction moves."""

_PACK = """template <typename {value}, int {count}>
struct alignas(sizeof({value}) * {count} < 16 ? sizeof({value}) * {count} : 16) {pack} {{
  {value} value[{count}];
}};

"""


@dataclass(frozen=True)
class _Widened:
    """One kernel with its wide loops, for one launch."""

    kernel: Function
    launch: Launch
    loops: tuple[WideLoop, ...]
    names: WideNames
    width: Let
    """Elements of a pack, by the widest type that is accessed."""
    condition: Expression
    size: Parameter
    """Bytes of a pack."""
    lines: Parameter
    element: int
    """Bytes of the widest element that is accessed."""


class WideAccesses:
    """128-bit accesses, behind a condition of the launch plan that makes them legal."""

    name = "wide_accesses"
    summary = "16 bytes a thread instead of one element, where sizes and addresses allow it"
    kind = MoveKind.CODE
    needs_gpu = ""
    gain = (1.1, 3.0)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """A second kernel with packed accesses; the first stays for what packs cannot reach."""
        source = guards_as_loops(source, evidence.included)
        reasons: list[str] = []
        suited: dict[str, tuple[Function, Launch]] = {}
        for kernel in source.kernels:
            for launch in source.launches_of(kernel):
                try:
                    _widen(source, kernel, launch, replace_struct(evidence, settings={}))
                    suited.setdefault(kernel.name, (kernel, launch))
                except NotWidenable as reason:
                    reasons.append(f"{kernel.name}: {reason}")
        if not suited:
            why = "; ".join(dict.fromkeys(reasons)) or "no kernel to widen"
            return NotApplicable(self.name, why)
        which = evidence.one("kernel", "the kernel that changes", tuple(suited))
        try:
            found = _widen(source, *suited[str(which.value)], evidence)
        except NotWidenable as reason:
            return NotApplicable(self.name, f"{which.value}: {reason}")
        return self._proposal(source, evidence, found, which)

    def _proposal(
        self, source: KernelText, evidence: Evidence, found: _Widened, which: Parameter
    ) -> Proposal:
        nodes = [access for loop in found.loops for access in loop.wide]
        part = share(evidence.counters, Counter.REQUESTS, nodes)
        size, workloads = found.size, evidence.workloads()
        plan = Plan(
            title=f"Access {size.value} bytes a thread",
            bottleneck="every load and store moves a single element, so that the kernel needs "
            "many requests and many instructions for its bytes",
            evidence=evidence_of(evidence.counters, nodes, Counter.REQUESTS, Counter.SECTORS),
            change=f"{lines_text(nodes)}: neighbouring elements become one pack. The launch plan "
            "takes the wide kernel where sizes are whole packs and addresses are multiples of "
            f"{size.value} bytes; everything else goes to the kernel as it is"
            f"{for_workloads(workloads)}.",
            prediction=predicted(
                Counter.REQUESTS, part, found.element / int(size.chosen[0]), (1.1, 2.5), 0.9
            ),
            risk=Risk.MEDIUM,
            places=places_of(nodes),
            move=self.name,
            parameters=settable(size, found.lines, workloads, which),
        )
        return Proposal(plan, _rewrite(source, found, evidence))


def _widen(source: KernelText, kernel: Function, launch: Launch, evidence: Evidence) -> _Widened:
    if is_fallback(source.plan, launch):
        raise NotWidenable("this is the scalar fallback of the vectorised kernel")
    names = _names(source)
    loops = widen_loops(source, kernel, launch, names)
    lines = evidence.lines(access for loop in loops for access in loop.accesses)
    if lines.chosen != lines.choices:
        names = _names(source)
        loops = widen_loops(source, kernel, launch, names, frozenset(map(int, lines.chosen)))
    elements = {a for loop in loops for a in loop.elements}
    sizes = [_element(evidence.task, kernel, launch, e) for e in sorted(elements)]
    element = _widest(sizes, evidence.task)
    size = evidence.one(
        "pack_bytes", "bytes that a thread moves at once", [b for b in _BYTES if b > element]
    )
    width = Let(fresh_name("width", names.taken), _width_of(sizes, int(size.chosen[0])))
    conditions = _conditions(kernel, launch, loops, Name(width.name), int(size.chosen[0]))
    condition = all_of([*conditions, *only_for(evidence.task, evidence.workloads())])
    return _Widened(kernel, launch, tuple(loops), names, width, condition, size, lines, element)


def _names(source: KernelText) -> WideNames:
    taken = source.names()
    return WideNames(
        pack=fresh_name("Pack", taken),
        width=fresh_name("WIDTH", taken),
        lane=fresh_name("lane", taken),
        taken=taken,
    )


def _widest(elements: list[Expression], task: KernelTask) -> int:
    """Bytes of the widest element; those of a template's type are a tensor's of the task."""
    types = [DType(e.id) for e in elements if isinstance(e, Name) and e.id in PLAN_TYPES]
    if len(types) < len(elements):
        tensors = (a for a in task.args.values() if a.is_tensor)
        types += [dtype for a in tensors for dtype in task.dtypes_of(a)]
    return max(int(dtype.size) for dtype in types)


def _element(task: KernelTask, kernel: Function, launch: Launch, element: str) -> Expression:
    found = plan_type(element, kernel, launch, task)
    if found is None:
        raise NotWidenable(f"it accesses elements of type {element}, whose size is not known")
    return found


def _width_of(elements: list[Expression], bytes_: int) -> Expression:
    """Elements of a pack: `bytes_` of the widest type, so that no access needs two packs."""
    sizes: list[Expression] = []
    for element in dict.fromkeys(elements):
        fixed = isinstance(element, Name) and element.id in PLAN_TYPES
        size = DType(element.id).size if fixed and isinstance(element, Name) else 0
        sizes.append(Integer(size) if size else Call("sizeof", (element,)))
    if all(isinstance(s, Integer) for s in sizes):
        return Integer(bytes_ // max(s.value for s in sizes if isinstance(s, Integer)))
    widest = sizes[0] if len(sizes) == 1 else Call("max", tuple(sizes))
    return Binary("//", Integer(bytes_), widest)


def _rewrite(source: KernelText, found: _Widened, evidence: Evidence) -> str:
    taken = found.names.taken
    kernel, launch = found.kernel, found.launch
    wide_name = fresh_name(f"{kernel.name}_wide", taken)
    loop_edits = [e for loop in found.loops for e in loop.edits]
    text = specialised(source, kernel, wide_name, found.names.width, loop_edits)
    pack = _PACK.format(
        pack=found.names.pack, value=fresh_name("E", taken), count=fresh_name("N", taken)
    )
    wide = replace(
        launch, kernel=wide_name, template_args=(*launch.template_args, Name(found.width.name))
    )
    if evidence.timed:
        least = int(any(loop.has_tail for loop in found.loops))
        wide = replace(wide, grid=_grid_of_packs(kernel, launch, Name(found.width.name), least))
    plan = with_branch(source.plan, launch, wide, found.condition, (found.width,))
    first = min(source.functions, key=lambda f: f.outer.start_byte).outer
    edits = [
        Edit(first.start_byte, first.start_byte, pack),
        Edit(kernel.outer.end_byte, kernel.outer.end_byte, f"\n\n{text}"),
    ]
    changed = source.changed(edits, plan)
    # A pack is a long iteration: the loop around it made small sizes slower than single elements.
    return without_single_iterations(changed, (wide_name,)) if evidence.timed else changed


def _grid_of_packs(
    kernel: Function, launch: Launch, width: Name, least: int
) -> tuple[Expression, ...]:
    """The grid, with a thread for each pack in place of each element; `least` blocks at least."""
    loops = flat_loops(kernel)
    if not loops or other_grid_use(kernel, loops, "x") is not None:
        return launch.grid
    bounds = [plan_value(loop.bound, kernel, launch) for loop in loops]

    def of_packs(part: Expression) -> Expression:
        if isinstance(part, Call) and part.function == "ceil_div" and part.args[0] in bounds:
            packs: Expression = Binary("//", part.args[0], width)
            if least:
                packs = Call("max", (packs, Integer(1)))
            return Call("ceil_div", (packs, part.args[1]))
        return part

    first, *others = launch.grid
    return (map_expressions(first, of_packs), *others)


def _conditions(
    kernel: Function, launch: Launch, loops: list[WideLoop], width: Name, bytes_: int
) -> list[Expression]:
    """When every wide access begins at a multiple of its bytes and ends within its row."""
    names = [p.name for p in kernel.parameters]
    conditions: list[Expression] = []
    for size in (name for w in loops for name in w.divisible):
        value = launch.value_at(names.index(size))
        if value is None:
            raise NotWidenable(f"{size} is no plain argument of the launch")
        conditions.append(divisible(value, width))
    for root in (r for w in loops for r in w.roots):
        argument = launch.value_at(names.index(root))
        if not isinstance(argument, Name) or argument.id == NULL:
            raise NotWidenable(f"{root} is no plain argument of the launch")
        conditions.append(aligned(argument, bytes_))
    return conditions
