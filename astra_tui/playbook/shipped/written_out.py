"""Kernels in a form that moves read: their accesses, threads and loops written out.

What ships loads and stores through functions of vector types, counts its threads in a block of two
dimensions, and takes a row in rounds that each ask whether the row has more. Here loads and stores
are plain ones of whole vectors, a block has one dimension, and a loop goes over the vectors of a
row. Nothing else changes, and each step is left out where the code does not say that it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name, is_pure
from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.indices import BLOCK_THREADS, THREAD, IndexReader, Polynomial
from astra_tui.cuda_source.polynomial import constant, of_atom
from astra_tui.cuda_source.syntax import (
    arguments_of,
    bare,
    called_name,
    cast_of,
    contains,
    field,
    named,
    of_type,
    operator_of,
    statements_of,
    text_of,
)
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import Launch, LaunchPlan, Let
from astra_tui.model.launch.expression import (
    Binary,
    Expression,
    Integer,
    Name,
    map_expressions,
)
from astra_tui.model.launch.plan import Verbatim
from astra_tui.playbook.accesses import pointer_in
from astra_tui.playbook.edits import (
    Edit,
    OverlappingEdits,
    dedented,
    indentation,
    indented,
    remove_statement,
    rewritten,
)
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.loops import Loop, loops_of
from astra_tui.playbook.shipped.called import with_calls_written_out
from astra_tui.playbook.shipped.folding import folded
from astra_tui.playbook.shipped.from_zero import from_zero
from astra_tui.playbook.shipped.staging import without_staging
from astra_tui.playbook.shipped.type_constants import with_type_constants
from astra_tui.playbook.shipped.vector_types import Way, vector_functions
from astra_tui.playbook.waiting import TRIGGER, WAIT

_WARP = 32
_LOAD = "__ldg"
_DEPENDENT = {"griddepcontrol.wait;": WAIT, "griddepcontrol.launch_dependents;": TRIGGER}
_ON_HOPPER = re.compile(
    r"\(*__CUDACC_VER_MAJOR__>=12&&defined\(__CUDA_ARCH__\)&&\(?__CUDA_ARCH__>=900\)*"
)


@dataclass(frozen=True)
class WrittenOut:
    """A source whose kernels moves can read, and what was done for that, as a sentence."""

    text: str
    said: str


def written_out(
    source: str,
    included: Mapping[str, str],
    *,
    dependent_launches: bool,
    element: DType | None = None,
) -> WrittenOut | None:
    """The source with its kernels written out; None where there is nothing to write out.

    `included` are the texts that it includes, in which the functions of vector types are read;
    `dependent_launches` says whether what it is compiled for has them, `element` what the plan's T
    is, None where it may be several types.
    """
    texts = {**included, "": source}
    steps: list[tuple[str, Callable[[KernelText], str]]] = [
        ("what its launches settle is folded in", folded),
        ("its block is of one dimension", _flat_blocks),
        (
            "numbers stand for those of types",
            lambda text: with_type_constants(text, texts, element),
        ),
        ("its calls are written out", lambda text: with_calls_written_out(text, texts)),
        (
            "rows that it loaded into shared memory are loaded again",
            lambda text: without_staging(text, texts),
        ),
        ("a loop over a row begins at its first element", from_zero),
        ("a loop goes over the vectors of a row", lambda text: _over_vectors(text, texts)),
        ("loads and stores are written out", lambda text: _plain_accesses(text, texts)),
        ("loads have no hints", lambda text: _without_hints(text, texts)),
    ]
    if dependent_launches:
        steps.insert(0, ("it waits and triggers by CUDA's functions", _dependent_calls))
    text = source
    done: list[str] = []
    for said, step in steps:
        try:
            new = step(KernelText.read(text))
        except OverlappingEdits:
            continue
        if new != text:
            text, done = new, [*done, said]
    if not done:
        return None
    after = KernelText.read(text)
    text = after.changed(_without_use(KernelText.read(source), after))
    return WrittenOut(text, f"Written out: {', '.join(done)}.")


def _without_use(before: KernelText, after: KernelText) -> Iterator[Edit]:
    """The edits that take away declarations which had uses before, and have none now."""
    had_uses = {(k.name, v.name) for k in before.kernels for v in k.locals if k.uses(v)}
    for kernel in after.kernels:
        for variable in kernel.locals:
            alone = [v for v in kernel.locals if v.declaration == variable.declaration]
            harmless = variable.value is None or is_pure(variable.value)
            if (kernel.name, variable.name) not in had_uses or kernel.uses(variable):
                continue
            if alone == [variable] and harmless and not variable.is_array:
                yield remove_statement(after.data, variable.declaration)


# -- dependent launches ----------------------------------------------------------------------------


def _dependent_calls(source: KernelText) -> str:
    """CUDA's functions for the instructions that wait and trigger, without the `#if` around one."""
    edits = []
    for kernel in source.kernels:
        for asm in of_type(kernel.body, "gnu_asm_expression"):
            texts = [text_of(n) for n in of_type(asm, "string_content")]
            statement = asm.parent
            if statement is None or not texts or texts[0].strip() not in _DEPENDENT:
                continue
            call = f"{_DEPENDENT[texts[0].strip()]}();"
            around = statement.parent
            if around is not None and around.type == "preproc_if":
                condition = "".join(text_of(around.child_by_field_name("condition")).split())
                if named(around)[1:] != [statement] or not _ON_HOPPER.fullmatch(condition):
                    continue
                statement = around
                call = f"{indentation(source.data, asm)}{call}\n"
            edits.append(put(statement, call))
    return source.changed(edits)


# -- blocks of one dimension -----------------------------------------------------------------------


def _flat_blocks(source: KernelText) -> str:
    """Blocks of 32 threads by some warps, in one dimension: thread and warp follow from it. Kernels
    with functions of the source that read their place in a block keep theirs.
    """
    know = (f for f in source.functions if not f.is_kernel and _reads_place(f))
    kept = {kernel.name for function in know for kernel in source.callers(function)}
    for kernel in source.kernels:
        launches = list(source.launches_of(kernel))
        if kernel.name not in kept and all(_is_of_warps(launch) for launch in launches):
            return _flat_blocks(KernelText.read(_flat_block(source, kernel, launches)))
    return source.text


def _reads_place(function: Function) -> bool:
    return any(
        text_of(use).startswith(("threadIdx", "blockDim"))
        for use in of_type(function.body, "field_expression")
    )


def _is_of_warps(launch: Launch) -> bool:
    return len(launch.block) == 2 and launch.block[0] == Integer(_WARP) and not launch.cluster


def _flat_block(source: KernelText, kernel: Function, launches: list[Launch]) -> str:
    edits = _flat_threads(kernel)
    taken = source.names()
    plan = source.plan
    for launch in launches:
        plan = _with_flat_block(plan, launch, kernel, taken)
    return source.changed(edits, plan)


def _with_flat_block(
    plan: LaunchPlan, launch: Launch, kernel: Function, taken: set[str]
) -> LaunchPlan:
    """One launch in blocks of one dimension; warps and constants of its kernel get names."""
    names: dict[Expression, Name] = {}
    lets: list[Let] = []

    def worded(part: Expression) -> Expression:
        return map_expressions(part, lambda e: names.get(e, e))

    def name(value: Expression, wanted: str) -> Expression:
        if isinstance(value, (Integer, Name)) or value in names:
            return names.get(value, value)
        lets.append(Let(fresh_name(wanted, taken), worded(value)))
        names[lets[-1].value] = names[value] = Name(lets[-1].name)
        return names[value]

    for parameter, given in zip(kernel.template, launch.template_args, strict=False):
        if not isinstance(given, Verbatim):
            name(given, parameter.name.lower())
    warps = name(launch.block[1], "warps")
    flat = replace(
        launch,
        block=(Binary("*", Integer(_WARP), warps),),
        grid=tuple(map(worded, launch.grid)),
        shared_bytes=launch.shared_bytes and worded(launch.shared_bytes),
        template_args=tuple(
            e if isinstance(e, Verbatim) else worded(e) for e in launch.template_args
        ),
    )
    changed = plan.with_launches(lambda one: flat if one is launch else one)
    return replace(changed, declarations=(*changed.declarations, *lets))


def _flat_threads(kernel: Function) -> list[Edit]:
    """The edits that give a kernel its place in a block of one dimension."""
    reader = IndexReader(kernel)
    warp = constant(_WARP)
    whole = {
        of_atom("threadIdx.x") + of_atom("threadIdx.y") * warp: "threadIdx.x",
        of_atom("blockDim.y") * warp: "blockDim.x",
    }
    edits = []
    for variable in kernel.locals:
        value = variable.value
        if value is not None and not variable.is_array and reader.read(value) in whole:
            edits.append(put(value, whole[reader.read(value)]))
    words = {
        "threadIdx.x": f"threadIdx.x % {_WARP}",
        "threadIdx.y": f"threadIdx.x / {_WARP}",
        "blockDim.x": str(_WARP),
        "blockDim.y": f"blockDim.x / {_WARP}",
    }
    for use in of_type(kernel.body, "field_expression"):
        text = "".join(text_of(use).split())
        if text in words and not any(e.start <= use.start_byte < e.end for e in edits):
            alone = use.parent is not None and use.parent.type == "init_declarator"
            edits.append(put(use, words[text] if alone else f"({words[text]})"))
    return edits


# -- loops over the vectors of a row ---------------------------------------------------------------


class _NotRounds(Exception):
    """A loop is not of rounds in which each thread takes a vector of a row, or might be no such."""


@dataclass(frozen=True)
class _Rounds:
    """`for (i = 0; i < rounds; i++)` with guards `vector * (i * threads + thread) < length`."""

    loop: Loop
    guards: tuple[Node, ...]
    vector: str
    length: Node


def _over_vectors(source: KernelText, texts: Mapping[str, str]) -> str:
    """Loops of threads over the vectors of a row, where they were of rounds with guards."""
    edits = []
    for kernel in source.kernels:
        bounds: list[Node] = []
        for loop in loops_of(kernel):
            try:
                edits += _strided(source.data, kernel, _rounds(kernel, loop, texts))
            except _NotRounds:
                continue
            bounds.append(loop.bound)
        edits += _unused(source.data, kernel, bounds)
    return source.changed(edits)


def _unused(data: bytes, kernel: Function, gone: list[Node]) -> list[Edit]:
    """The edits that take away what only nodes that are gone had use for."""
    names = {text_of(node) for node in gone}
    return [
        remove_statement(data, v.declaration)
        for v in kernel.locals
        if v.name in names and all(use in gone for use in kernel.uses(v))
        and len([other for other in kernel.locals if other.declaration == v.declaration]) == 1
    ]  # fmt: skip


def _rounds(kernel: Function, loop: Loop, texts: Mapping[str, str]) -> _Rounds:
    reader = IndexReader(kernel)
    counts = loop.counts_up() and loop.step is None and reader.read(loop.start).number == 0
    guards = tuple(s for s in loop.body if s.type == "if_statement")
    if not counts or not guards or loop.has_jump():
        raise _NotRounds
    found = {_guarded(guard, loop, reader) for guard in guards}
    if len(found) != 1:
        raise _NotRounds
    ((vector, length),) = found
    each = of_atom(vector) if not vector.isdigit() else constant(int(vector))
    if not _covers(loop.bound, kernel, reader, length, each * BLOCK_THREADS, texts):
        raise _NotRounds
    _check_idle(kernel, loop, guards)
    condition = bare(field(guards[0], "condition"))
    return _Rounds(loop, guards, vector, field(condition, "right"))


def _guarded(guard: Node, loop: Loop, reader: IndexReader) -> tuple[str, Polynomial]:
    """The elements of a vector and the length of the row that a guard asks about."""
    condition = bare(field(guard, "condition"))
    is_plain = guard.child_by_field_name("alternative") is None
    if not is_plain or condition.type != "binary_expression" or operator_of(condition) != "<":
        raise _NotRounds
    first = reader.read(field(condition, "left"))
    place = of_atom(loop.name) * BLOCK_THREADS + THREAD
    terms = [m for m in first.terms if "threadIdx.x" in m]
    if len(terms) != 1 or len(terms[0]) != 2 - (terms[0] == ("threadIdx.x",)):
        raise _NotRounds
    factor = first.terms[terms[0]]
    rest = [atom for atom in terms[0] if atom != "threadIdx.x"]
    if rest and factor != 1:
        raise _NotRounds
    each = of_atom(rest[0]) if rest else constant(factor)
    if first != each * place:
        raise _NotRounds
    return rest[0] if rest else str(factor), reader.read(field(condition, "right"))


def _covers(
    bound: Node,
    kernel: Function,
    reader: IndexReader,
    length: Polynomial,
    of_round: Polynomial,
    texts: Mapping[str, str],
) -> bool:
    """Whether a number of rounds is `ceil_div(length, of_round)`, by a function that says so."""
    variable = kernel.lookup(text_of(bound), bound) if bound.type == "identifier" else None
    if variable is not None and variable.value is not None and kernel.is_constant(variable):
        bound = bare(variable.value)
    if bound.type != "call_expression" or len(arguments_of(bound)) != 2:
        return False
    rounds_up = re.compile(
        rf"\b{re.escape(called_name(bound))}\s*\([^(){{}}]*?(?P<a>\w+),[^(){{}}]*?(?P<b>\w+)\)"
        r"[\w\s]*{\s*return\s+\((?P=a) \+ (?P=b) - 1\) / (?P=b);\s*}"
    )
    parts = tuple(reader.read(argument) for argument in arguments_of(bound))
    return parts == (length, of_round) and any(map(rounds_up.search, texts.values()))


def _check_idle(kernel: Function, loop: Loop, guards: tuple[Node, ...]) -> None:
    """Whether a thread for which the row has no more changes nothing that outlives its round:
    it writes variables of the round, and adds zeros to others.
    """
    zeros: set[str] = set()
    for statement in loop.body:
        if statement not in guards:
            _idle(kernel, loop, statement, zeros)


def _idle(kernel: Function, loop: Loop, statement: Node, zeros: set[str]) -> None:
    match statement.type:
        case "comment":
            return
        case "declaration":
            for variable in (v for v in kernel.locals if v.declaration == statement):
                if variable.value is not None and _is_zero(variable.value, zeros):
                    zeros.add(variable.name)
                elif variable.value is not None and _has_effects(variable.value):
                    raise _NotRounds
            return
        case "compound_statement" | "for_statement":
            inner = statement
            if statement.type == "for_statement":
                inner = field(statement, "body")
            for each in statements_of(inner):
                _idle(kernel, loop, each, zeros)
            return
        case "expression_statement":
            (expression,) = named(statement)
            if expression.type == "call_expression":
                owner = _owner(expression)
                if called_name(expression).rpartition(".")[2] != "fill" or owner is None:
                    raise _NotRounds
                if not _is_own(kernel, loop, owner) or not _all_zero(expression, zeros):
                    raise _NotRounds
                zeros.add(text_of(owner))
                return
            if expression.type != "assignment_expression":
                raise _NotRounds
            _idle_assignment(kernel, loop, expression, zeros)
            return
    if statement.type not in ("preproc_call",):
        raise _NotRounds


def _idle_assignment(kernel: Function, loop: Loop, change: Node, zeros: set[str]) -> None:
    target, value = field(change, "left"), field(change, "right")
    if _has_effects(value):
        raise _NotRounds
    root = field(target, "argument") if target.type == "subscript_expression" else target
    name, zero = text_of(root), _is_zero(value, zeros)
    if root.type != "identifier":
        raise _NotRounds
    if not _is_own(kernel, loop, root):
        if operator_of(change) not in ("+=", "-=") or not zero:
            raise _NotRounds
        return
    stays = zero and (operator_of(change) in ("+=", "-=") or target == root)
    if not stays and not (zero and name in zeros):
        zeros.discard(name)
    elif zero and operator_of(change) == "=":
        zeros.add(name)


def _is_own(kernel: Function, loop: Loop, name: Node) -> bool:
    """Whether a name is an object that is declared in the loop: no pointer, no reference."""
    variable = kernel.lookup(text_of(name), name)
    is_object = variable is not None and not variable.pointers and not variable.is_reference
    return is_object and variable is not None and contains(loop.node, variable.declaration)


def _has_effects(value: Node) -> bool:
    return next(of_type(value, "assignment_expression", "update_expression"), None) is not None


def _all_zero(call: Node, zeros: set[str]) -> bool:
    return all(_is_zero(argument, zeros) for argument in arguments_of(call))


def _is_zero(value: Node, zeros: set[str]) -> bool:
    """Whether a value is zero where the names in `zeros` are, a product where both factors are."""
    value = bare(value)
    cast = cast_of(value)
    if cast is not None:
        return _is_zero(cast[1], zeros)
    match value.type:
        case "number_literal":
            return re.fullmatch(r"0*\.?0*[fF]?", text_of(value)) is not None
        case "identifier":
            return text_of(value) in zeros
        case "subscript_expression":
            return text_of(field(value, "argument")) in zeros
        case "binary_expression" if operator_of(value) in ("+", "-", "*"):
            return all(_is_zero(field(value, side), zeros) for side in ("left", "right"))
    return False


def _owner(call: Node) -> Node | None:
    """The object whose function is called, where a name says it."""
    function = call.child_by_field_name("function")
    if function is None or function.type != "field_expression" or operator_of(function) != ".":
        return None
    owner = field(function, "argument")
    return owner if owner.type == "identifier" else None


def _strided(data: bytes, kernel: Function, rounds: _Rounds) -> list[Edit]:
    loop, reader = rounds.loop, IndexReader(kernel)
    first, last = loop.node.child_by_field_name("initializer"), field(loop.node, "body")
    if first is None or loop.declaration is not None or last.type != "compound_statement":
        raise _NotRounds
    heads = [loop.bound, *(field(guard, "condition") for guard in rounds.guards)]
    sums = [
        _largest_sum(use) for use in kernel.uses(loop.variable)
        if not any(contains(head, use) for head in heads)
        and not contains(field(loop.node, "update"), use)
        and not contains(field(loop.node, "condition"), use)
    ]  # fmt: skip
    moved = [put(each, _by_vector(each, rounds, reader)) for each in dict.fromkeys(sums)]
    length, name = text_of(rounds.length), loop.name
    bound = f"({length} + {rounds.vector} - 1) / {rounds.vector}"
    step = f"{name} < {bound}; {name} += blockDim.x"
    head = f"for ({loop.variable.type} {name} = threadIdx.x; {step}) "
    edits = [Edit(loop.node.start_byte, last.start_byte, head)]
    inside: list[Edit] = []
    for guard in rounds.guards:
        body = field(guard, "consequence")
        lines = [dedented(data, s, rewritten(data, s, moved)) for s in statements_of(body)]
        text = indented("\n".join(lines), indentation(data, guard)).lstrip()
        inside.append(put(guard, text))
    filled = {
        text_of(owner) for guard in rounds.guards for call in of_type(guard, "call_expression")
        if (owner := _owner(call)) is not None
    }  # fmt: skip
    for statement in loop.body:
        call = named(statement)[0] if statement.type == "expression_statement" else None
        owner = _owner(call) if call is not None and call.type == "call_expression" else None
        if owner is not None and text_of(owner) in filled:
            inside.append(remove_statement(data, statement))
    left = [e for e in moved if not any(o.start <= e.start < o.end for o in inside)]
    return [*edits, *inside, *left]


def _largest_sum(use: Node) -> Node:
    """The largest sum that a name is part of."""
    top, node = use, use
    while node.parent is not None and node.parent.type in (
        "binary_expression",
        "parenthesized_expression",
    ):
        node = node.parent
        if node.type == "binary_expression" and operator_of(node) not in ("+", "*"):
            break
        if node.type == "binary_expression" and operator_of(node) == "+":
            top = node
    return top


def _by_vector(sum_: Node, rounds: _Rounds, reader: IndexReader) -> str:
    """A sum in which `vector * i` stands for `vector * (i * threads + thread)`."""
    name, vector = rounds.loop.name, rounds.vector
    each = of_atom(vector) if not vector.isdigit() else constant(int(vector))
    place = each * (of_atom(name) * BLOCK_THREADS + THREAD)
    kept, moving = [], constant(0)
    for term in _terms(sum_):
        form = reader.read(term)
        if reader.depends_on(form, name) or reader.depends_on(form, "threadIdx"):
            moving = moving + form
        else:
            kept.append(text_of(term))
    if moving != place:
        raise _NotRounds
    return " + ".join([*kept, f"{name} * {vector}"])


def _terms(sum_: Node) -> Iterator[Node]:
    node = bare(sum_)
    if node.type == "binary_expression" and operator_of(node) == "+":
        yield from _terms(field(node, "left"))
        yield from _terms(field(node, "right"))
    else:
        yield node


# -- plain loads and stores ------------------------------------------------------------------------


@dataclass(frozen=True)
class _VectorCall:
    """`vector.load(pointer + index)` and the like, as a statement of its own."""

    statement: Node
    vector: Variable
    way: Way
    pointer: Variable
    index: str

    @property
    def other(self) -> str:
        """The vector's type with the elements of what it points at."""
        name, element, count = _parts_of(self.vector.type)
        return f"{name}<{self.pointer.type or element}, {count}>"

    @property
    def converts(self) -> bool:
        """Whether memory has other elements than the vector."""
        cast = self.way in (Way.CONVERTING_LOAD, Way.CONVERTING_STORE)
        return cast and self.pointer.type != _parts_of(self.vector.type)[1]

    @property
    def loads(self) -> bool:
        """Whether it loads."""
        return self.way in (Way.LOAD, Way.CONVERTING_LOAD)

    def place(self, kind: str) -> str:
        """The memory as an object of a type."""
        const = "const " if self.loads else ""
        return f"*reinterpret_cast<{const}{kind}*>(&{self.pointer.name}[{self.index}])"


def _plain_accesses(source: KernelText, texts: Mapping[str, str]) -> str:
    """Whole vectors loaded and stored by plain accesses, where functions of their types do that."""
    edits: list[Edit] = []
    taken = source.names()
    for kernel in source.kernels:
        calls = list(_vector_calls(kernel, texts))
        for call in calls:
            edits += _plain(source.data, kernel, call, taken)
    return source.changed(edits)


def _vector_calls(kernel: Function, texts: Mapping[str, str]) -> Iterator[_VectorCall]:
    ways: dict[str, dict[str, Way]] = {}
    for call in of_type(kernel.body, "call_expression"):
        owner, statement = _owner(call), call.parent
        if owner is None or statement is None or statement.type != "expression_statement":
            continue
        vector = kernel.lookup(text_of(owner), owner)
        if vector is None or vector.is_array or len(arguments_of(call)) != 1:
            continue
        name, _, count = _parts_of(vector.type)
        if not count:
            continue
        if name not in ways:
            ways[name] = vector_functions(name, texts)
        way = ways[name].get(text_of(field(field(call, "function"), "field")))
        address = _address(arguments_of(call)[0], kernel)
        if way is not None and address is not None:
            yield _VectorCall(statement, vector, way, *address)


def _parts_of(type_: str) -> tuple[str, str, str]:
    """Name, element and count of `name<element, count>`; no count of anything else."""
    match = re.fullmatch(r"(\w+)\s*<\s*([\w:]+)\s*,\s*([\w:]+)\s*>", type_)
    return (match[1], match[2], match[3]) if match is not None else (type_, "", "")


def _address(argument: Node, kernel: Function) -> tuple[Variable, str] | None:
    """A pointer and the text of the index after it, of `pointer + index`."""
    terms = list(_terms(argument))
    found = [(term, pointer_in(term, kernel)) for term in terms]
    pointers = [(term, variable) for term, variable in found if variable is not None]
    if len(pointers) != 1 or pointers[0][0].type != "identifier":
        return None
    ((term, variable),) = pointers
    return variable, " + ".join(text_of(t) for t in terms if t != term) or "0"


def _plain(data: bytes, kernel: Function, call: _VectorCall, taken: set[str]) -> list[Edit]:
    name, indent = call.vector.name, indentation(data, call.statement)
    if not call.converts:
        if call.loads:
            return _loaded(data, kernel, call)
        return [put(call.statement, f"{call.place(call.vector.type)} = {name};")]
    new = fresh_name(f"{name}_{'loaded' if call.loads else 'stored'}", taken)
    if call.loads:
        lines = [
            f"const {call.other} {new} = {call.place(call.other)};",
            f"{name}.cast_from({new});",
        ]
    else:
        lines = [
            f"{call.other} {new};",
            f"{new}.cast_from({name});",
            f"{call.place(call.other)} = {new};",
        ]
    return [put(call.statement, f"\n{indent}".join(lines))]


def _loaded(data: bytes, kernel: Function, call: _VectorCall) -> list[Edit]:
    """A load; it becomes the vector's initial value where it stands in the block that declares it
    and nothing uses the vector before.
    """
    vector, statement = call.vector, call.statement
    declaration = vector.declaration
    before = [u for u in kernel.uses(vector) if u.start_byte < statement.start_byte]
    alone = [v for v in kernel.locals if v.declaration == declaration] == [vector]
    place = call.place(vector.type)
    if before or not alone or vector.value is not None or statement.parent != declaration.parent:
        return [put(statement, f"{vector.name} = {place};")]
    declared = f"{vector.type} {vector.name} = {place};"
    return [remove_statement(data, declaration), put(statement, declared)]


# -- loads with hints ------------------------------------------------------------------------------


def _without_hints(source: KernelText, texts: Mapping[str, str]) -> str:
    """`p[i]` for `__ldg(&p[i])`, and for a macro that stands for it. Compilers see by themselves
    what a kernel only reads.
    """
    edits = []
    for kernel in source.kernels:
        for call in of_type(kernel.body, "call_expression"):
            arguments = arguments_of(call)
            if len(arguments) != 1 or not _loads_alone(called_name(call), texts):
                continue
            address = bare(arguments[0])
            if address.type == "pointer_expression" and operator_of(address) == "&":
                edits.append(put(call, text_of(field(address, "argument"))))
    return source.changed(edits)


def _loads_alone(name: str, texts: Mapping[str, str]) -> bool:
    """Whether a function of an address is a load of it, also where a macro has its name."""
    defined = re.compile(rf"#[ \t]*define[ \t]+{re.escape(name)}\((\w+)\)[ \t]+(.*)")
    found = [match for text in texts.values() for match in defined.finditer(text)]
    if not found:
        return name == _LOAD
    return all(m[2].strip() in (f"{_LOAD}({m[1]})", f"*({m[1]})") for m in found)
