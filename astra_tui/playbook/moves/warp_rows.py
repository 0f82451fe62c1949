"""A warp or a part of one for each short row, where a block of many warps reduces one row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce

from tree_sitter import Node

from astra_tui.cuda_source.effects import PURE_FUNCTIONS, fresh_name
from astra_tui.cuda_source.functions import Function, Variable, function_declarator
from astra_tui.cuda_source.syntax import (
    ancestors,
    bare,
    called_name,
    cast_of,
    contains,
    descendants,
    field,
    integer_of,
    line_of,
    of_type,
    text_of,
)
from astra_tui.model.dtypes import OF_SPELLING
from astra_tui.model.launch import Branch, Dispatch, Launch, LaunchPlan
from astra_tui.model.launch.expression import (
    Call,
    Compare,
    Expression,
    Integer,
    names_in,
)
from astra_tui.model.launch.plan import Step, Verbatim
from astra_tui.model.launch.scope import ELEMENT_TYPE
from astra_tui.model.plan import CodePlace, Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import Edit, rewritten
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.evidence import lines_text
from astra_tui.playbook.grids import over_row
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import (
    Unsuitable,
    all_of,
    first_suitable,
    lets_of,
    plan_value,
    values_on_workloads,
)
from astra_tui.playbook.loops import halves, loops_of
from astra_tui.playbook.moves.pack_rows import along_y
from astra_tui.playbook.thread_count import launch_bound
from astra_tui.playbook.waiting import TRIGGER, WAIT, macros_of

WARP = 32
THREADS = (WARP, 16, 8)
ROWS = (4, 2, 8, 16)
ITERATIONS = (8, 2, 4, 16)
_SHARED_BYTES = 48 << 10
_WIDEST = 16
"""Bytes of an element of a shared array whose type says no size, at most."""

_MEETS = re.compile(r"__syncthreads|__syncwarp|__(?:shfl|ballot|any|all|reduce|match)\w*_sync")
_KNOWN = PURE_FUNCTIONS | {WAIT, TRIGGER}
_IN_PARTS = ("__shfl_xor_sync", "__syncthreads", "__syncwarp")
"""How threads meet that do the same with those of a part of a warp."""
_THREADS_OF_BLOCK = 128
_HIDES = ("gnu_asm_expression", "lambda_expression", "goto_statement")


@dataclass(frozen=True)
class _Rows:
    """A kernel with a block a row, how long rows are, and the functions in which threads meet."""

    kernel: Function
    launch: Launch
    longest: Expression
    helpers: tuple[Function, ...]
    shared: int
    """Bytes of shared memory of one row, at most."""


@dataclass(frozen=True)
class _Shape:
    """How many threads take a row, how many rows a block has, and elements or packs a thread."""

    threads: int
    rows: int
    turns: int


class WarpRows:
    """Launch geometry: rows that a warp takes in a few turns get a warp each."""

    name = "warp_rows"
    summary = "a warp a row and several rows a block, where short rows leave a block idle"
    kind = MoveKind.GEOMETRY
    needs_gpu = "needs a GPU: counters see neither idle warps nor waiting at barriers"
    gain = (1.0, 2.0)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The first kernel whose block reduces a row; longer rows keep it."""
        found = first_suitable(source, self.name, partial(_read, source), of_fallbacks=True)
        if isinstance(found, NotApplicable):
            return found
        fitting = [n for n in ROWS if n * found.shared <= _SHARED_BYTES]
        widths = THREADS if _splits(found) else THREADS[:1]
        lengths = values_on_workloads(found.longest, source, evidence.task)
        fit = [n for n in widths if n >= max(lengths, default=0)]
        threads = evidence.one("threads", "threads of a row", widths, min(fit, default=WARP))
        width = int(threads.chosen[0])
        own = max((n for n in fitting if n * width <= _THREADS_OF_BLOCK), default=min(fitting))
        rows = evidence.one("rows", "rows of a block", fitting, own)
        turns = evidence.one("iterations", "most elements or packs of a row a thread", ITERATIONS)
        barriers = [c for f in (found.kernel, *found.helpers) for c in _barriers(f)]
        where = f"{lines_text(barriers)}: " if barriers else ""
        plan = Plan(
            title="Give short rows a warp each" if width == WARP else "Give a warp several rows",
            bottleneck="on a short row most warps of a block find nothing to do, and all of them "
            "wait at its barriers",
            evidence=(f"line {found.launch.place.line}: a block of many warps for each row",),
            change=f"{where}a copy of the kernel for rows of at most {width} x {turns.value} takes "
            f"{rows.value} rows a block, {width} threads each, and meets within the warp alone; "
            "shared arrays get a part for each row. Longer rows keep the kernel.",
            prediction=Prediction(1.0, 2.0, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.MEDIUM,
            places=tuple(CodePlace(n, n) for n in sorted({line_of(b) for b in barriers}))
            or (CodePlace(line_of(found.kernel.node), line_of(found.kernel.node)),),
            move=self.name,
            parameters=settable(threads, rows, turns),
        )
        shape = _Shape(width, int(rows.chosen[0]), int(turns.chosen[0]))
        return Proposal(plan, _rewrite(source, found, shape))


def _read(source: KernelText, kernel: Function, launch: Launch) -> _Rows:
    if len(launch.grid) != 1 or len(launch.block) != 1 or launch.cluster:
        raise Unsuitable(f"line {launch.place.line}: it has not one block a row and one size each")
    if launch.shared_bytes is not None:
        raise Unsuitable(f"line {launch.place.line}: the plan gives shared memory")
    widths = [Integer(n) for n in THREADS]
    if any(e.block[0] in widths and len(e.block) == 2 for e in source.plan.launches()):
        raise Unsuitable(f"line {launch.place.line}: short rows have a warp each already")
    _check_numbers(source, kernel, launch)
    loops = [loop for loop in loops_of(kernel) if over_row(loop, kernel, [launch])]
    bounds = [plan_value(loop.bound, kernel, launch) for loop in loops]
    known = [bound for bound in bounds if bound is not None]
    if not bounds or len(known) < len(bounds):
        raise Unsuitable("the plan cannot say how long a row is")
    helpers = tuple(_helpers(source, kernel))
    if not any(_barriers(f) for f in (kernel, *helpers)):
        raise Unsuitable("the threads of a block never meet")
    for function in (kernel, *helpers):
        _check_function(source, function, function == kernel)
    longest = reduce(lambda a, b: Call("max", (a, b)), dict.fromkeys(known))
    shared = sum(_bytes_of(v) for f in (kernel, *helpers) for v in _shared(f))
    if shared * min(ROWS) > _SHARED_BYTES:
        raise Unsuitable(f"{kernel.line_text()} has no shared memory for several rows")
    return _Rows(kernel, launch, longest, helpers, shared)


def _barriers(function: Function) -> list[Node]:
    calls = of_type(function.body, "call_expression")
    return [c for c in calls if called_name(c) == "__syncthreads"]


def _check_numbers(source: KernelText, kernel: Function, launch: Launch) -> None:
    """The code and its template arguments may not count on the block that the plan has."""
    bound = launch_bound(kernel)
    if bound is None:
        raise Unsuitable("its launch bounds are no number")
    size = launch.block[0]
    for argument in launch.template_args:
        if isinstance(argument, Verbatim):
            continue
        values = (argument, *lets_of((argument,), source.plan).values())
        names = {n for value in values for n in names_in(value)} - {ELEMENT_TYPE}
        declared = {d.name for d in source.plan.declarations}
        if names - declared or argument == size:
            raise Unsuitable(f"line {launch.place.line}: a template argument follows from sizes")
    counts = {size.value, size.value // WARP} if isinstance(size, Integer) else set()
    for node in of_type(kernel.body, "number_literal"):
        if integer_of(node) in counts - {0, 1} and not _is_free(node):
            raise Unsuitable(f"line {line_of(node)}: the code may count on the block's threads")


def _is_free(number: Node) -> bool:
    """Whether a number is the size of an array, or of a step between lanes."""
    for above, _ in ancestors(number):
        if above.type in ("array_declarator", "for_statement"):
            return True
        if above.type == "call_expression" and called_name(above).startswith("__shfl"):
            return True
        if above.type.endswith("_statement"):
            return False
    return False


def _helpers(source: KernelText, kernel: Function) -> Iterator[Function]:
    """The functions of the source in which the kernel's threads meet, directly or not."""
    waiting, seen = [kernel], {kernel.name}
    while waiting:
        for call in of_type(waiting.pop().body, "call_expression"):
            name = called_name(call)
            if name in seen or name not in source.together:
                continue
            found = [f for f in source.functions if f.name == name]
            if len(found) != 1:
                raise Unsuitable(f"line {line_of(call)}: {name} is a macro, or several functions")
            seen.add(name)
            waiting.append(found[0])
            yield found[0]


def _check_function(source: KernelText, function: Function, is_kernel: bool) -> None:
    """Threads may know their place and meet in ways that a warp has too. Raises Unsuitable."""
    macros, own = set(macros_of(source.root)), {f.name for f in source.functions}
    for node in descendants(function.body):
        where = f"line {line_of(node)}"
        if node.type in _HIDES:
            raise Unsuitable(f"{where}: what cannot be followed")
        if node.type == "identifier" and text_of(node) in macros:
            raise Unsuitable(f"{where}: a macro that is no number")
        if node.type == "field_expression":
            _check_place(node, is_kernel)
        if node.type == "call_expression" and cast_of(node) is None:
            name = called_name(node)
            known = name in own | _KNOWN or _MEETS.fullmatch(name)
            if not known:
                raise Unsuitable(f"{where}: what {name or 'this'} does is not known")


def _check_place(node: Node, is_kernel: bool) -> None:
    what, axis = text_of(field(node, "argument")), text_of(field(node, "field"))
    if what in ("blockIdx", "gridDim", "threadIdx", "blockDim") and axis != "x":
        raise Unsuitable(f"line {line_of(node)}: the grid or the block has more than one size")
    if what in ("blockIdx", "gridDim") and not is_kernel:
        raise Unsuitable(f"line {line_of(node)}: a function asks for its place in the grid")


def _shared(function: Function) -> list[Variable]:
    return [v for v in function.locals if v.is_shared]


def _bytes_of(variable: Variable) -> int:
    """At most; raises Unsuitable where nothing says it."""
    if "extern" in text_of(variable.declaration):
        raise Unsuitable(f"line {line_of(variable.declaration)}: shared memory of the plan's size")
    known = OF_SPELLING.get(variable.type)
    size = int(known.size) if known is not None else _WIDEST
    if not variable.is_array:
        return size
    written = re.findall(r"\[([^\]]*)\]", text_of(variable.declarator))
    sizes = [int(size) if size.strip().isdigit() else None for size in written]
    if None in sizes or not sizes:
        raise Unsuitable(f"line {line_of(variable.declaration)}: a shared array of unknown size")
    return reduce(lambda a, b: a * b, (n for n in sizes if n is not None), size)


def _splits(rows: _Rows) -> bool:
    """Whether a part of a warp could take a row: threads ask their neighbours by shuffles whose
    steps a loop halves, and no other number stands for a warp.
    """
    for function in (rows.kernel, *rows.helpers):
        known = {n.start_byte for n, _ in _of_warp(function)}
        for node in of_type(function.body, "number_literal"):
            if integer_of(node) in (5, 16, 31, WARP) and node.start_byte not in known:
                return False
        for call in of_type(function.body, "call_expression"):
            name = called_name(call)
            if _MEETS.fullmatch(name) and name not in _IN_PARTS:
                return False
    return True


def _of_warp(function: Function) -> Iterator[tuple[Node, Callable[[int], str] | None]]:
    """The numbers that stand for a warp, with what they or what they are part of become for a row
    of so many threads, None where the number holds for fewer threads too.
    """
    arrays = [v.declaration for v in function.locals if v.is_array]
    for node in of_type(function.body, "number_literal"):
        above = node.parent
        if any(contains(a, node) for a in arrays):
            yield node, None
        elif integer_of(node) == WARP and above is not None and above.type == "binary_expression":
            what = "".join(text_of(above).split())
            if what in ("threadIdx.x%32", "threadIdx.x/32", "threadIdx.x<32"):
                yield node, None
            elif what == "blockDim.x/32":
                yield node, lambda _: "1"
    for loop in loops_of(function):
        if halves(loop) and integer_of(bare(loop.start)) == WARP // 2:
            yield bare(loop.start), lambda threads: str(threads // 2)


def _in_parts(function: Function, threads: int) -> Iterator[Edit]:
    """The edits by which a function for a warp's threads is one for fewer."""
    for node, become in _of_warp(function):
        if become is not None and threads < WARP:
            above = node.parent
            whole = above if above is not None and above.type == "binary_expression" else node
            yield put(whole, become(threads))


def _rewrite(source: KernelText, rows: _Rows, shape: _Shape) -> str:
    taken = source.names()
    names = {f.name: fresh_name(f"{f.name}_warp", taken) for f in (rows.kernel, *rows.helpers)}
    row, count = fresh_name("row", taken), fresh_name("rows", taken)
    copies = [_copied(source, f, names, shape, []) for f in reversed(rows.helpers)]
    copies.append(_copied(source, rows.kernel, names, shape, along_y(rows.kernel, row, count)))
    (total,) = rows.launch.grid
    launch = replace(
        rows.launch,
        kernel=names[rows.kernel.name],
        grid=(Call("ceil_div", (total, Integer(shape.rows))),),
        block=(Integer(shape.threads), Integer(shape.rows)),
        args=(*rows.launch.args, total),
    )
    short = Compare(rows.longest, (("<=", Integer(shape.threads * shape.turns)),))
    plan = _first_of_all(source.plan, rows.launch, launch, short)
    end = rows.kernel.outer.end_byte
    text = "".join(f"\n\n{copy}" for copy in copies)
    return source.changed([Edit(end, end, text)], plan)


def _copied(
    source: KernelText, function: Function, names: dict[str, str], shape: _Shape, more: list[Edit]
) -> str:
    """A function again, for warps: its names, their barriers, and a part of what they share."""
    declarator = function_declarator(function.node)
    assert declarator is not None
    edits = [*more, put(field(declarator, "declarator"), names[function.name])]
    edits += _in_parts(function, shape.threads)
    for call in of_type(function.body, "call_expression"):
        called = field(call, "function")
        if called_name(call) == "__syncthreads":
            edits.append(put(called, "__syncwarp"))
        elif called_name(call) in names:
            (name,) = [n for n in of_type(called, "identifier") if text_of(n) == called_name(call)]
            edits.append(put(name, names[called_name(call)]))
    for variable in _shared(function):
        named_so = of_type(variable.declaration, "identifier")
        name = next(n for n in named_so if text_of(n) == variable.name)
        edits.append(Edit(name.end_byte, name.end_byte, f"[{shape.rows}]"))
        edits += [
            Edit(use.end_byte, use.end_byte, "[threadIdx.y]") for use in function.uses(variable)
        ]
    bounds = next(of_type(function.node, "launch_bounds"), None)
    if bounds is not None:
        edits.append(put(bounds, f"__launch_bounds__({shape.threads * shape.rows})"))
    return rewritten(source.data, function.outer, edits)


def _first_of_all(plan: LaunchPlan, old: Launch, new: Launch, condition: Expression) -> LaunchPlan:
    """The plan that launches `new` under a condition, before any other branch of that step."""
    steps: list[Step] = []
    for step in plan.steps:
        if step is old:
            steps.append(Dispatch((Branch(condition, (new,)), Branch(None, (old,)))))
            continue
        if isinstance(step, Dispatch):
            own = next((b for b in step.branches if any(i is old for i in b.body)), None)
            if own is not None:
                asked = [own.condition] if own.condition is not None else []
                body = tuple(new if item is old else item for item in own.body)
                first = Branch(all_of([*asked, condition]), body)
                step = replace(step, branches=(first, *step.branches))
        steps.append(step)
    return replace(plan, steps=tuple(steps))
