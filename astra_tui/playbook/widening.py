"""Rewrites a loop over elements into a loop over packs of neighbouring elements.

Statements that change by element go into an inner loop over the lanes of a pack; what is the same
for the whole pack stays outside of it. Loads move before the inner loop and stores after it, so
that each is a single wide access.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name, is_pure, reads_memory, written_names
from astra_tui.cuda_source.functions import Function, Variable, variables_of
from astra_tui.cuda_source.indices import (
    THREAD,
    IndexReader,
    Polynomial,
    canonical,
)
from astra_tui.cuda_source.syntax import (
    LOOPS,
    called_name,
    cast_of,
    contains,
    descendants,
    identifiers_in,
    is_barrier,
    line_of,
    named,
    of_type,
    statements_of,
    text_of,
)
from astra_tui.cuda_source.syntax import field as child
from astra_tui.cuda_source.types import INTEGER_TYPES, is_float
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import Launch
from astra_tui.playbook.accesses import (
    Access,
    accesses_in,
    is_conditional,
    may_alias,
    offset_of,
    unknown_accesses,
)
from astra_tui.playbook.edits import (
    Edit,
    dedented,
    indentation,
    indented,
    indented_lines,
    remove_statement,
    replace,
    rewritten,
)
from astra_tui.playbook.grids import over_grid, over_row
from astra_tui.playbook.invariance import assignment_to, plain_locals
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.lane_indices import LaneIndices, NotWidenable, refusal
from astra_tui.playbook.launching import factors, plan_value
from astra_tui.playbook.loops import Loop, loops_of, read_loop

_PAIRS = {t.cuda: t.cuda.replace("8_", "8x2_") for t in DType if t.is_float and t.bits == 8}
"""Types of which one instruction converts two, and what CUDA calls two of them."""

_IN_FLIGHT = 8
"""Iterations of a loop over packs that are unrolled: so many loads are on the way at once."""


@dataclass(frozen=True)
class WideNames:
    """The names that the rewrite introduces."""

    pack: str
    width: str
    lane: str
    taken: set[str]


@dataclass
class WideLoop:
    """One loop over packs: its edits, and under which conditions it is right."""

    edits: list[Edit] = field(default_factory=list)
    accesses: list[Node] = field(default_factory=list)
    """Those that can become wide."""
    wide: list[Node] = field(default_factory=list)
    """Those that do."""
    elements: set[str] = field(default_factory=set)
    roots: dict[str, None] = field(default_factory=dict)
    """Pointer parameters that have to be aligned."""
    divisible: dict[str, None] = field(default_factory=dict)
    """Integer parameters that have to be whole packs."""
    has_tail: bool = False
    """Whether a loop over single elements follows, which needs threads where no pack does."""


@dataclass(frozen=True)
class _Run:
    """Statements that change by lane."""

    statements: tuple[Node, ...]

    def contains(self, node: Node) -> bool:
        """Whether a node lies in one of them."""
        return any(contains(s, node) for s in self.statements)


@dataclass(frozen=True)
class _Branch:
    """A condition that holds for all lanes or for none."""

    condition: str
    parts: tuple[_Part, ...]
    others: tuple[_Part, ...]


@dataclass(frozen=True)
class _Repeated:
    """A loop that all lanes go through alike."""

    loop: Loop
    pragma: Node | None
    parts: tuple[_Part, ...]


_Part = str | _Run | _Branch | _Repeated
"""What an iteration is made of; text is what a pack does once."""


def _runs(parts: Sequence[_Part]) -> Iterator[_Run]:
    for part in parts:
        match part:
            case _Run():
                yield part
            case _Branch(parts=then, others=others):
                yield from _runs((*then, *others))
            case _Repeated(parts=repeated):
                yield from _runs(repeated)


def widen_loops(
    source: KernelText,
    function: Function,
    launch: Launch,
    names: WideNames,
    lines: frozenset[int] | None = None,
) -> list[WideLoop]:
    """The wide form of every loop that walks over memory. Raises NotWidenable.

    Accesses on other `lines` than these, if any are given, stay single: a thread takes the elements
    of a pack one by one there, so that all loops still share out elements alike.
    """
    found = [loop for loop in loops_of(function) if walks_over_elements(loop, function, launch)]
    if not found:
        raise NotWidenable("no loop in which threads take neighbouring elements in turns")
    wide = [_Widener(source, function, loop, launch, names, lines).widen() for loop in found]
    wide = [w for w in wide if w.accesses]
    if not wide:
        raise NotWidenable("its loops access no global memory element by element")
    return wide


def walks_over_elements(loop: Loop, function: Function, launch: Launch) -> bool:
    """Whether the threads of a block, or of the grid, share out 0 to bound between them."""
    return over_row(loop, function, [launch]) or over_grid(loop, function)


class _Widener:
    """The rewrite of one loop."""

    def __init__(
        self,
        source: KernelText,
        function: Function,
        loop: Loop,
        launch: Launch,
        names: WideNames,
        lines: frozenset[int] | None,
    ):
        self.lines = lines
        self.source = source
        self.function = function
        self.loop = loop
        self.launch = launch
        self.names = names
        self.reader = IndexReader(function)
        self.wide = WideLoop()
        self._single_stores: list[Access] = []
        """Stores of a run that stay single; no load that follows them may move before the run."""
        self.varying = self._varying()
        self.indices = LaneIndices(function, loop.name, self.reader, self.varying)
        self.carried: dict[Node, Variable] = {}
        self.stores = [a for s in loop.body for a in accesses_in(s, function) if a.is_store]

    def widen(self) -> WideLoop:
        """The edits that put the wide loop in place of the loop."""
        self._check_body()
        parts = self._parts(self._opened(list(self.loop.body)))
        self.carried = self._carried(parts)
        lines = self._lines(parts)
        if not self.wide.accesses:
            return self.wide
        tail = self._tail()
        self.wide.has_tail = bool(tail)
        self.wide.divisible = self.indices.divisible
        indent = indentation(self.source.data, self.loop.node)
        text = "\n".join([*self._head(), indented_lines(lines), "}", *tail])
        self.wide.edits.append(replace(self.loop.node, indented(text, indent).lstrip()))
        if self.loop.declaration is not None:
            self.wide.edits.append(remove_statement(self.source.data, self.loop.declaration))
        return self.wide

    def _check_body(self) -> None:
        if self.loop.has_jump():
            raise refusal(self.loop.node, "an iteration of the loop can end early")
        for statement in self.loop.body:
            unknown = unknown_accesses(statement, self.function)
            if unknown:
                raise refusal(unknown[0], "an access whose buffer cannot be followed")
            for part in descendants(statement):
                if part.type == "call_expression" and called_name(part).startswith("__sh"):
                    raise refusal(part, "threads of a warp meet inside of the loop")
                if part.type == "expression_statement" and is_barrier(part):
                    raise refusal(part, "a barrier inside of the loop")
        self._check_accumulators()

    def _opened(self, statements: list[Node]) -> list[Node]:
        """The statements with those of plain blocks in their place, as names allow it."""
        opened: list[Node] = []
        for statement in statements:
            is_block = statement.type == "compound_statement"
            opened += self._opened(named(statement)) if is_block else [statement]
        names = [v.name for s in opened if s.type == "declaration" for v in variables_of(s)]
        if opened != statements and len(set(names)) < len(names):
            raise refusal(statements[0], "blocks of the loop declare the same names")
        return opened

    def _check_accumulators(self) -> None:
        """A sum of one thread's own elements may not be what the thread writes to memory."""
        own = [a for a in self.stores if a.root.is_array and not a.root.is_shared]
        written = written_names(self.loop.node) | {array.root.name for array in own}
        outer = {n for n in written if not self._is_inside(n)}
        for name in outer - {self.loop.name}:
            for use in of_type(self.function.body, "identifier"):
                if text_of(use) == name and use.start_byte > self.loop.node.end_byte:
                    self._check_use(use)
        for array in own:
            if self.reader.read(array.index).number is None:
                raise refusal(array.node, "each thread keeps its own elements in an array")

    def _check_use(self, use: Node) -> None:
        statement = use
        while statement.parent is not None and not statement.type.endswith("_statement"):
            statement = statement.parent
        for access in accesses_in(statement, self.function):
            thread = self.reader.depends_on(self.reader.read(access.index), "threadIdx")
            if access.is_store and not access.root.is_array and thread:
                raise refusal(use, "each thread writes what it made of its own elements")

    def _is_inside(self, name: str) -> bool:
        declared = (v for v in self.function.locals if v.name == name)
        return any(contains(self.loop.node, v.declaration) for v in declared)

    def _varying(self) -> set[str]:
        """Names whose value changes from element to element."""
        counted = {loop.name for s in self.loop.body for loop in _loops_in(s, self.function)}
        varying = {self.loop.name}
        for change in (c for s in self.loop.body for c in of_type(s, "update_expression")):
            varying |= identifiers_in(child(change, "argument")) - counted
        while True:
            before = len(varying)
            for statement in self.loop.body:
                for part in of_type(statement, "init_declarator", "assignment_expression"):
                    target = part.child_by_field_name("declarator") or child(part, "left")
                    value = part.child_by_field_name("value") or child(part, "right")
                    if identifiers_in(value) & varying and target.type != "subscript_expression":
                        varying |= identifiers_in(target) - {"threadIdx"}
                for part in of_type(statement, "if_statement", *LOOPS):
                    if identifiers_in(child(part, "condition")) & varying:
                        varying |= written_names(part) - counted
            if len(varying) == before:
                return varying

    # What belongs to the pack, and what to its lanes

    def _parts(self, statements: list[Node]) -> list[_Part]:
        parts: list[_Part] = []
        run: list[Node] = []

        def ended(part: _Part) -> None:
            nonlocal run
            parts.extend([_Run(tuple(run)), part] if run else [part])
            run = []

        for statement in statements:
            repeated = self._uniform_loop(statement)
            if self._is_index(statement) or self._is_uniform(statement, run):
                parts.append(dedented(self.source.data, statement, text_of(statement)))
            elif self._is_uniform_branch(statement):
                ended(self._branch(statement))
            elif repeated is not None:
                pragma = run.pop() if run and run[-1].type == "preproc_call" else None
                ended(_Repeated(repeated, pragma, tuple(self._parts(list(repeated.body)))))
            else:
                run.append(statement)
        return [*parts, _Run(tuple(run))] if run else parts

    def _lines(self, parts: Sequence[_Part]) -> list[str]:
        lines: list[str] = []
        for part in parts:
            match part:
                case str():
                    lines.append(part)
                case _Run(statements=statements):
                    lines += self._run(list(statements))
                case _Branch():
                    lines += [f"if {part.condition} {{", indented_lines(self._lines(part.parts))]
                    if part.others:
                        lines += ["} else {", indented_lines(self._lines(part.others))]
                    lines.append("}")
                case _Repeated(loop=loop, pragma=pragma):
                    body = child(loop.node, "body")
                    head = self.source.data[loop.node.start_byte : body.start_byte].decode()
                    unroll = f"#pragma unroll {_IN_FLIGHT}" if pragma is None else text_of(pragma)
                    inner = indented_lines(self._lines(part.parts))
                    lines += [unroll.rstrip(), f"{head.rstrip()} {{", inner, "}"]
        return lines

    def _is_index(self, statement: Node) -> bool:
        """Whether a statement declares integers that follow from the loop's variable."""
        declared = plain_locals(statement)
        if declared is None or any(v.type not in INTEGER_TYPES for v in declared):
            return False
        values = [v.value for v in declared if v.value is not None]
        if any(not is_pure(v) or reads_memory(v) for v in values):
            return False
        for variable, value in zip(declared, values, strict=True):
            index = self.reader.read(value)
            slope = self.indices.slope(index)
            if slope is None or not self.function.is_constant(variable):
                return False
            if not self.indices.stays_in_row(index, value):
                return False
            self.indices.slopes[variable.name] = slope
        return True

    def _is_uniform(self, statement: Node, pending: list[Node]) -> bool:
        """Whether a statement does the same for every lane, and may run before pending ones."""
        if identifiers_in(statement) & self.varying:
            return False
        declared = plain_locals(statement)
        if declared is not None:
            values = [v.value for v in declared if v.value is not None]
        else:
            assigned = assignment_to(statement)
            if assigned is None or not self._is_inside(assigned[0]):
                return False
            if any(assigned[0] in identifiers_in(p) for p in pending):
                return False
            values = assigned[1]
        return all(is_pure(v) and not self._is_stored_to(v) for v in values)

    def _is_stored_to(self, value: Node) -> bool:
        """Whether the loop stores to a buffer that an expression loads from."""
        return any(
            may_alias(self.source, self.function, load.root, store.root)
            for load in accesses_in(value, self.function)
            for store in self.stores
        )

    def _is_uniform_branch(self, statement: Node) -> bool:
        if statement.type != "if_statement":
            return False
        condition = child(statement, "condition")
        if identifiers_in(condition) & self.varying or not is_pure(condition):
            return False
        return any(self._is_wide(a) for a in accesses_in(statement, self.function))

    def _branch(self, statement: Node) -> _Branch:
        other = statement.child_by_field_name("alternative")
        others: list[_Part] = []
        then = self._parts(statements_of(child(statement, "consequence")))
        if other is not None:
            inner = other.named_children[-1] if other.type == "else_clause" else other
            others = self._parts(statements_of(inner))
        return _Branch(text_of(child(statement, "condition")), tuple(then), tuple(others))

    def _uniform_loop(self, statement: Node) -> Loop | None:
        """A loop that all lanes of a pack go through alike, and in which they take neighbours."""
        loop = read_loop(statement, self.function) if statement.type == "for_statement" else None
        if loop is None or loop.declaration is not None:
            return None
        head = [n for n in (loop.start, loop.bound, loop.step) if n is not None]
        names = set().union(*map(identifiers_in, head))
        if names & (self.varying | written_names(self.loop.node)) or not all(map(is_pure, head)):
            return None
        if any(map(self._is_stored_to, head)):
            return None
        accesses = (a for s in loop.body for a in accesses_in(s, self.function))
        return loop if any(self._is_wide(a) for a in accesses) else None

    # One run of statements that change by lane

    def _run(self, run: list[Node]) -> list[str]:
        if not run:
            return []
        loads: dict[str, tuple[Access, str]] = {}
        stores: dict[str, tuple[Access, str]] = {}
        edits: list[Edit] = []
        self._single_stores = []
        for statement in run:
            for access in accesses_in(statement, self.function):
                if self._is_wide(access):
                    edits += self._use(access, statement, loads, stores)
        body = [line for s in run for line in self._lane_lines(s, edits)]
        lane, width = self.names.lane, self.names.width
        carried = dict.fromkeys(v for s in run for v in self._carried_by(s))
        before = [f"{v.type} {v.name}[{width}];" for v in carried]
        before += [self._declared(*a, stored=False) for a in loads.values()]
        before += [self._declared(*a, stored=True) for a in stores.values()]
        after = [line for a in stores.values() for line in self._stored(*a)]
        head = ["#pragma unroll", f"for (int {lane} = 0; {lane} < {width}; ++{lane}) {{"]
        return [*before, *head, indented_lines(body), "}", *after]

    def _carried(self, parts: Sequence[_Part]) -> dict[Node, Variable]:
        """Values of lanes that several runs need, by their uses: a pack has one for each lane."""
        runs = list(_runs(parts))
        found: dict[Node, Variable] = {}
        for run in runs:
            for declaration in (s for s in run.statements if s.type == "declaration"):
                declared = [v for v in self.function.locals if v.declaration == declaration]
                uses = {use: v for v in declared for use in self.function.uses(v)}
                outside = [u for u in uses if not run.contains(u)]
                for use in outside:
                    known = all(v.is_scalar and v.type != "auto" for v in declared)
                    is_plain = plain_locals(declaration) is not None and known
                    if not is_plain or not any(other.contains(use) for other in runs):
                        name = text_of(use)
                        raise refusal(use, f"{name} is used on both sides of a condition")
                found |= uses if outside else {}
        return found

    def _is_wide(self, access: Access) -> bool:
        """Whether an access takes the next element in the next lane. Raises NotWidenable."""
        if access.root.is_array:
            return False
        if access.node.type != "subscript_expression":
            raise refusal(access.node, "its accesses are wide or hinted already")
        index = self._index_of(access)
        slope = self.indices.slope(index)
        if slope is None:
            raise refusal(access.node, f"{text_of(access.node)} does not take neighbours")
        if slope not in (0, 1):
            raise refusal(access.node, f"{text_of(access.node)} takes every {slope}th element")
        return slope == 1

    def _index_of(self, access: Access) -> Polynomial:
        variable = self.function.lookup(text_of(access.pointer), access.pointer)
        offset = offset_of(variable, self.function, self.reader) if variable is not None else None
        if offset is None:
            raise refusal(access.node, f"where {text_of(access.pointer)} points is not known")
        return offset + self.reader.read(access.index)

    def _use(
        self,
        access: Access,
        statement: Node,
        loads: dict[str, tuple[Access, str]],
        stores: dict[str, tuple[Access, str]],
    ) -> list[Edit]:
        """What an access becomes in the loop over lanes; nothing where it stays single."""
        if is_conditional(access.node, statement):
            raise refusal(access.node, f"{text_of(access.node)} is under a condition")
        stays = self.lines is not None and line_of(access.node) not in self.lines
        if not access.is_store or (stays and access.is_load):
            self._check_order(access, stores)
        self.wide.accesses.append(access.node)
        if stays:
            self._single_stores += [access] if access.is_store else []
            return []
        self._require_aligned(access)
        key = canonical(access.node)
        kept = stores if access.is_store else loads
        if key not in kept:
            name = fresh_name(f"{text_of(access.pointer)}_pack", self.names.taken)
            kept[key] = (access, name)
        elif access.is_load and access.is_store:
            raise refusal(access.node, "the same element is changed twice")
        self.wide.wide.append(access.node)
        self.wide.elements.add(access.element)
        edits = [replace(access.node, f"{kept[key][1]}.value[{self.names.lane}]")]
        for cast, number in self._conversion(access):
            edits += [Edit(cast.start_byte, number.start_byte, "")]
            edits += [Edit(number.end_byte, cast.end_byte, "")]
        return edits

    def _conversion(self, access: Access) -> list[tuple[Node, Node]]:
        """The cast of what is stored and its float, where two of them are converted at once."""
        change = access.node.parent
        value = change.child_by_field_name("right") if change is not None else None
        if access.is_load or access.element not in _PAIRS or value is None:
            return []
        cast = cast_of(value)
        if cast is None or cast[0] != access.element or not is_float(cast[1], self.function):
            return []
        return [(value, cast[1])]

    def _check_order(self, access: Access, stores: dict[str, tuple[Access, str]]) -> None:
        for store in (*(store for store, _ in stores.values()), *self._single_stores):
            if may_alias(self.source, self.function, access.root, store.root):
                raise refusal(access.node, "a load after a store to the same buffer")

    def _declared(self, access: Access, name: str, stored: bool) -> str:
        element = "float" if self._conversion(access) else access.element
        kind = f"{self.names.pack}<{element}, {self.names.width}>"
        if stored and not access.is_load:
            return f"{kind} {name};"
        const = "" if stored else "const "
        return f"{const}{kind} {name} = *reinterpret_cast<const {kind}*>(&{text_of(access.node)});"

    def _stored(self, access: Access, name: str) -> list[str]:
        width, lane = self.names.width, self.names.lane
        kind, lines = f"{self.names.pack}<{access.element}, {width}>", []
        if self._conversion(access):
            pair = _PAIRS[access.element]
            kind = f"{self.names.pack}<{pair}, {width} / 2>"
            numbers, name = name, fresh_name(f"{text_of(access.pointer)}_pairs", self.names.taken)
            two = f"float2{{{numbers}.value[{lane}], {numbers}.value[{lane} + 1]}}"
            lines = [
                f"{kind} {name};",
                "#pragma unroll",
                f"for (int {lane} = 0; {lane} < {width}; {lane} += 2) {{",
                indented_lines([f"{name}.value[{lane} / 2] = static_cast<{pair}>({two});"]),
                "}",
            ]
        return [*lines, f"*reinterpret_cast<{kind}*>(&{text_of(access.node)}) = {name};"]

    def _lane_text(self, statement: Node, edits: list[Edit]) -> str:
        """A statement for one lane: packs for accesses, `i + lane` for indices."""
        mine = [e for e in edits if statement.start_byte <= e.start < statement.end_byte]
        for use in of_type(statement, "identifier"):
            slope = self.indices.slopes.get(text_of(use), 0)
            inside = any(e.start <= use.start_byte < e.end for e in mine)
            if use in self.carried and not inside:
                mine.append(replace(use, f"{text_of(use)}[{self.names.lane}]"))
            if slope == 0 or inside or self._is_shadowed(use):
                continue
            mine.append(replace(use, f"({text_of(use)} + {self.names.lane})"))
        return dedented(self.source.data, statement, rewritten(self.source.data, statement, mine))

    def _carried_by(self, statement: Node) -> list[Variable]:
        """The values that a declaration begins and other runs need."""
        return [
            v
            for v in self.function.locals
            if v.declaration == statement and v in self.carried.values()
        ]

    def _lane_lines(self, statement: Node, edits: list[Edit]) -> list[str]:
        carried = self._carried_by(statement)
        if not carried:
            return [self._lane_text(statement, edits)]
        values = [(v, v.value) for v in carried if v.value is not None]
        lane = self.names.lane
        return [f"{v.name}[{lane}] = {self._lane_text(value, edits)};" for v, value in values]

    def _is_shadowed(self, use: Node) -> bool:
        variable = self.function.lookup(text_of(use), use)
        if variable == self.loop.variable:
            return False
        return variable is None or not contains(self.loop.node, variable.declaration)

    def _require_aligned(self, access: Access) -> None:
        self.wide.roots[access.root.name] = None
        self.indices.require_divisible(self._index_of(access), access.node)

    # The loop around it

    def _head(self) -> list[str]:
        loop, taken = self.loop, self.names.taken
        counter = fresh_name(f"{loop.name}_pack", taken)
        kind = loop.variable.type
        step = f"++{counter}" if loop.step is None else f"{counter} += {text_of(loop.step)}"
        return [
            f"for ({kind} {counter} = {text_of(loop.start)}; "
            f"{counter} < {_operand(loop.bound)} / {self.names.width}; {step}) {{",
            f"  const {kind} {loop.name} = {counter} * {self.names.width};",
        ]

    def _tail(self) -> list[str]:
        """The loop for the elements after the last pack, where there can be any."""
        bound = self.reader.read(self.loop.bound)
        start = self.reader.read(self.loop.start)
        if self._is_divisible_bound():
            return []
        if start == THREAD:
            self.indices.require_divisible(bound, self.loop.bound)
            return []
        loop, width = self.loop, self.names.width
        count = f"{_operand(loop.bound)} / {width} * {width}"
        step = f"++{loop.name}" if loop.step is None else f"{loop.name} += {text_of(loop.step)}"
        body = [dedented(self.source.data, s, text_of(s)) for s in loop.body]
        return [
            f"for ({loop.variable.type} {loop.name} = {count} + {text_of(loop.start)}; "
            f"{loop.name} < {text_of(loop.bound)}; {step}) {{",
            indented_lines(body),
            "}",
        ]

    def _is_divisible_bound(self) -> bool:
        """Whether the bound is a product with a size that is whole packs already."""
        value = plan_value(self.loop.bound, self.function, self.launch)
        names = [p.name for p in self.function.parameters]
        whole = {self.launch.value_at(names.index(d)) for d in self.indices.divisible}
        return value is not None and bool(set(factors(value)) & whole)


def _loops_in(statement: Node, function: Function) -> Iterator[Loop]:
    found = (read_loop(node, function) for node in of_type(statement, *LOOPS))
    return (loop for loop in found if loop is not None)


def _operand(node: Node) -> str:
    simple = node.type in ("identifier", "number_literal", "call_expression")
    return text_of(node) if simple else f"({text_of(node)})"
