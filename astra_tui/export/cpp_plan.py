"""The launch plan as C++ host code without CUDA: one function for each element type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from astra_tui.export.artefact import Subject
from astra_tui.export.cpp_expression import (
    CppExpressions,
    bare,
    cpp_name,
    names_in_text,
    replace_names,
)
from astra_tui.export.header import plain
from astra_tui.model.c_layout import Extent
from astra_tui.model.dtypes import PLAN_TYPES, DType
from astra_tui.model.errors import UserError
from astra_tui.model.launch import (
    DEVICE_ATTRIBUTES,
    Dispatch,
    Launch,
    LaunchPlan,
    Layout,
    Let,
    PlanError,
    Refuse,
    Tune,
    Workspace,
)
from astra_tui.model.launch.evaluate import Evaluator, Value
from astra_tui.model.launch.expression import (
    Binary,
    Expression,
    Integer,
    Name,
    names_in,
    split_pointer,
)
from astra_tui.model.launch.plan import Branch, Step, Struct, TemplateArgument, Verbatim
from astra_tui.model.launch.resolve import WORKSPACE_ALIGNMENT, contiguous_strides
from astra_tui.model.launch.scope import ELEMENT_TYPE, NULL, Bindings
from astra_tui.model.task import Argument

_IN = "  "
_HARMLESS = re.compile(r"[\w :<>,*&()\[\]+\-/%=!|^~.?']+", re.ASCII)
_PAIRS = {"(": ")", "<": ">", "[": "]"}


@dataclass(frozen=True)
class MovedPointer:
    """A pointer so many bytes from a tensor or workspace; their number of the launch's Numbers."""

    name: str
    number: int


Source = str | MovedPointer | int | None
"""A tensor's or workspace's name, such a pointer, the number of a Number of the launch, or a null
pointer.
"""


@dataclass(frozen=True)
class StructCall:
    """A structure by value: offset and type of each member (None is a pointer), and its source."""

    extent: Extent
    members: tuple[tuple[int, DType | None, Source], ...]


CallArgument = Source | StructCall


@dataclass(frozen=True)
class KernelCall:
    """One way in which a kernel is launched: its C++ name, and where each argument comes from."""

    kernel: str
    args: tuple[CallArgument, ...]
    workspaces: tuple[str, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Each argument in C++: of arguments `a`, launch `l` and workspaces `scratch`."""
        return tuple(map(self._argument, self.args))

    def _argument(self, argument: CallArgument) -> str:
        if not isinstance(argument, StructCall):
            return self._value(argument)
        text = f"astra::Struct<{argument.extent.size}, {argument.extent.alignment}>()"
        for offset, dtype, source in argument.members:
            type_ = dtype.cuda if dtype is not None else "void*"
            text += f".put<{type_}>({offset}, {self._value(source)})"
        return text

    def _value(self, source: Source) -> str:
        match source:
            case None:
                return "static_cast<void*>(nullptr)"
            case int():
                return f"l.numbers[{source}]"
            case MovedPointer(name=name, number=number):
                return f"astra::moved({self._value(name)}, l.numbers[{number}])"
            case _ if source in self.workspaces:
                return f"scratch[{self.workspaces.index(source)}]"
            case _:
                return f"const_cast<void*>(a.{cpp_name(source)})"


@dataclass(frozen=True)
class CppPlan:
    """Functions by element type, the launches they choose among, and the reasons to refuse."""

    functions: Mapping[DType, str]
    calls: tuple[KernelCall, ...]
    refusals: tuple[str, ...]


def cpp_plan(subject: Subject) -> CppPlan:
    """The plan of every element type. Raises UserError for what C++ cannot choose at run time."""
    calls: list[KernelCall] = []
    refusals: list[str] = []
    functions = {}
    for element in subject.task.dtypes:
        writer = _Writer(subject, element, calls, refusals)
        functions[element] = "\n".join(writer.lines()) + "\n"
    return CppPlan(functions, tuple(calls), tuple(refusals))


class _Writer:
    def __init__(
        self, subject: Subject, element: DType, calls: list[KernelCall], refusals: list[str]
    ):
        self.task = subject.task
        self.plan = subject.plan
        self.samples = [s for s in subject.samples if s.element is element]
        self.element = element
        self.calls = calls
        self.refusals = refusals
        self.cpp = CppExpressions(element)
        self.buffers = {a.name: self.task.dtype_of(a, element) for a in self.task.tensors}

    def lines(self) -> Iterator[str]:
        name = self.task.name
        yield f"inline void plan_{self.element.value}("
        yield f"    const {name}_arguments& arguments_, const astra::Device& device_,"
        yield "    astra::Plan& plan_) {"
        for dim in self.task.dims:
            yield _constant(dim, f"astra::Int(arguments_.{cpp_name(dim)})")
            yield f"{_IN}astra::require({cpp_name(dim)} >= 0, astra::kOutsideContract);"
        for scalar in self.task.scalars:
            assert scalar.dtype is not None
            type_ = "astra::Real" if scalar.dtype.is_float else "astra::Int"
            if scalar.dtype.is_float:
                self.cpp.reals.add(scalar.name)
            yield _constant(scalar.name, f"{type_}(arguments_.{cpp_name(scalar.name)})")
        yield from self._contract(of_layouts=False)
        for argument in self.task.tensors:
            yield from self._tensor(argument)
        yield from self._contract(of_layouts=True)
        used = self.plan.names()
        for attribute in DEVICE_ATTRIBUTES:
            if attribute in used:
                yield _constant(attribute, f"astra::Int(device_.{attribute})")
        yield from self._declarations()
        for step in self.plan.steps:
            yield from self._step(step)
        yield "}"

    def _contract(self, *, of_layouts: bool) -> Iterator[str]:
        """The conditions on dimensions, or those on addresses and strides."""
        for number, condition in enumerate(self.task.accepts):
            if bool(names_in(condition) & self.buffers.keys()) == of_layouts:
                text = bare(self.cpp.write(condition))
                yield f"{_IN}astra::require({text}, astra::kContract + {number});"

    def _tensor(self, argument: Argument) -> Iterator[str]:
        name = cpp_name(argument.name)
        size = self.task.dtype_of(argument, self.element).size
        shape = self._shape(argument.shape)
        if argument.strided and len(argument.shape) > 1:
            call = f"astra::strided(arguments_.{name}, {size}, {shape}, arguments_.{name}_strides)"
        else:
            call = f"astra::tensor(arguments_.{name}, {size}, {shape})"
        yield _constant(argument.name, call)

    def _declarations(self) -> Iterator[str]:
        for declaration in self.plan.declarations:
            match declaration:
                case Workspace(name=name, dtype=dtype, shape=shape):
                    self.buffers[name] = self.element if dtype == ELEMENT_TYPE else DType(dtype)
                    size = self.buffers[name].size
                    call = f"astra::workspace(plan_, {size}, {self._shape(shape)})"
                    yield _constant(name, call)
                case Tune(name=name, value=value):
                    self.cpp.constants[name] = value
                case Let(name=name, value=expression):
                    constant = self.cpp.constant(expression)
                    if constant is None:
                        if self.cpp.is_real(expression):
                            self.cpp.reals.add(name)
                        yield _constant(name, bare(self.cpp.write(expression)))
                    else:
                        self.cpp.constants[name] = constant

    def _shape(self, sizes: Iterable[Expression]) -> str:
        return "{" + self._list(tuple(sizes)) + "}"

    def _step(self, step: Step) -> Iterator[str]:
        if not isinstance(step, Dispatch):
            yield from self._item(step, _IN)
            return
        branches = [b for b in step.branches if not self._is_never(b)]
        word = "if"
        for branch in branches:
            if branch.condition is None:
                yield f"{_IN}{{" if word == "if" else f"{_IN}}} else {{"
            else:
                close = "" if word == "if" else "} else "
                condition = bare(self.cpp.write(branch.condition)).replace(
                    " && ", f" &&\n{3 * _IN}"
                )
                yield f"{_IN}{close}if ({condition}) {{"
            word = "else"
            for item in branch.body:
                yield from self._item(item, 2 * _IN)
        if not branches:
            yield f"{_IN}throw astra::Fault{{astra::kNoBranch}};"
            return
        if branches[-1].condition is not None:
            yield f"{_IN}}} else {{"
            yield f"{2 * _IN}throw astra::Fault{{astra::kNoBranch}};"
        yield f"{_IN}}}"

    def _is_never(self, branch: Branch) -> bool:
        return branch.condition is not None and self.cpp.never(branch.condition)

    def _item(self, item: Launch | Refuse, indent: str) -> Iterator[str]:
        if isinstance(item, Refuse):
            if item.reason not in self.refusals:
                self.refusals.append(item.reason)
            number = self.refusals.index(item.reason)
            yield f"{indent}throw astra::Fault{{astra::kRefused + {number}}};"
            return
        deep = indent + _IN
        grid = f"const auto grid_ = astra::grid({self._list(item.grid)})"
        yield f"{indent}if ({grid}; !astra::is_empty(grid_)) {{"
        yield f"{deep}const auto block_ = astra::block(device_, {self._list(item.block)});"
        shared = "0" if item.shared_bytes is None else self._list((item.shared_bytes,))
        yield f"{deep}const auto shared_ = astra::shared(device_, {shared});"
        if item.pdl is not None:
            yield f"{deep}const bool pdl_ = {bare(self.cpp.write(item.pdl))};"
        if item.cluster:
            sizes = self._list(item.cluster)
            yield f"{deep}const auto cluster_ = astra::cluster(grid_, {sizes});"
        yield from self._choice(item, deep)
        yield f"{indent}}}"

    def _choice(self, launch: Launch, indent: str) -> Iterator[str]:
        """Adds the launch; where its kernel depends on the call, one of those that were seen."""
        variable = self._variable(launch)
        numbers, args = self._numbers(launch)
        if not variable:
            yield self._add(launch, self._kernel(launch, {}), args, numbers, indent)
            return
        word = "if"
        for values in self._seen(launch, variable):
            tests = " && ".join(
                f"{self.cpp.write(e)} == {self._test(values[i], e)}" for i, e in enumerate(variable)
            )
            yield f"{indent}{word} ({tests}) {{"
            named = dict(zip(variable, values, strict=True))
            yield self._add(launch, self._kernel(launch, named), args, numbers, indent + _IN)
            word = "} else if"
        if word == "if":
            yield f"{indent}throw astra::Fault{{astra::kNotCompiled}};"
            return
        yield f"{indent}}} else {{"
        yield f"{indent}{_IN}throw astra::Fault{{astra::kNotCompiled}};"
        yield f"{indent}}}"

    def _add(
        self,
        launch: Launch,
        kernel: str,
        args: tuple[CallArgument, ...],
        numbers: str,
        indent: str,
    ) -> str:
        call = KernelCall(kernel, args, tuple(w.name for w in self.plan.workspaces))
        if call not in self.calls:
            self.calls.append(call)
        number = self.calls.index(call)
        pdl = "pdl_" if launch.pdl is not None else "false"
        attributes = f", {pdl}" if launch.pdl is not None or launch.cluster else ""
        attributes += ", cluster_" if launch.cluster else ""
        return (
            f"{indent}// {plain(kernel)}\n{indent}plan_.launches.push_back(\n"
            f"{indent}    {{{number}, grid_, block_, shared_, {{{numbers}}}{attributes}}});"
        )

    def _numbers(self, launch: Launch) -> tuple[str, tuple[CallArgument, ...]]:
        """The numbers that a launch passes, and where each argument of the kernel comes from."""
        numbers: list[str] = []
        args: list[CallArgument] = []
        for argument in launch.args:
            if isinstance(argument, Struct):
                layout = argument.layout(self.element)
                members = (
                    (x.offset, x.dtype, self._source(x.value, numbers)) for x in layout.leaves
                )
                args.append(StructCall(layout.extent, tuple(members)))
            else:
                args.append(self._source(argument, numbers))
        return ", ".join(numbers), tuple(args)

    def _source(self, expression: Expression, numbers: list[str]) -> Source:
        """Where a value comes from; a number is added to those of the launch."""
        pointer = split_pointer(expression)
        if pointer is not None and pointer[0].id in self.buffers:
            name, elements = pointer[0].id, pointer[1]
            if elements == Integer(0):
                return name
            item = Integer(self.buffers[name].size)
            numbers.append(self.cpp.number(Binary("*", elements, item, expression.place)))
            return MovedPointer(name, len(numbers) - 1)
        if isinstance(expression, Name) and expression.id == NULL:
            return None
        numbers.append(self.cpp.number(expression))
        return len(numbers) - 1

    # -- kernels that depend on the call -------------------------------------------------------

    def _variable(self, launch: Launch) -> list[Expression]:
        """The parts of the template arguments that do not follow from the element type."""
        found: list[Expression] = []
        for argument in launch.template_args:
            for part in self._parts(argument):
                if self.cpp.constant(part) is None and part not in found:
                    found.append(part)
        return found

    def _parts(self, argument: TemplateArgument) -> list[Expression]:
        if not isinstance(argument, Verbatim):
            return [argument]
        known = {*self.task.dims, *DEVICE_ATTRIBUTES, *(a.name for a in self.task.scalars)}
        known |= {d.name for d in self.plan.declarations if isinstance(d, Let)}
        return [Name(n, argument.place) for n in names_in_text(argument.text) if n in known]

    def _seen(self, launch: Launch, variable: list[Expression]) -> list[tuple[Value, ...]]:
        """The values of the variable parts on the samples that come to this launch."""
        found: dict[tuple[Value, ...], None] = {}
        for sample in self.samples:
            try:
                evaluator = _evaluator(self.plan, sample)
                if any(launch in taken for taken in _taken(self.plan, evaluator)):
                    found[tuple(map(evaluator.value, variable))] = None
            except PlanError:
                continue
        return list(found)

    def _kernel(self, launch: Launch, named: Mapping[Expression, Value]) -> str:
        if not launch.template_args:
            return launch.kernel
        parts: list[str] = []
        for argument in launch.template_args:
            if isinstance(argument, Verbatim):
                parts.append(self._verbatim(argument, named))
            else:
                value = self.cpp.constant(argument)
                parts.append(_template_argument(named[argument] if value is None else value))
        for part, argument in zip(parts, launch.template_args, strict=True):
            if not _is_template_argument(part):
                raise UserError(
                    f"'{plain(part)}' is more than a template argument: it cannot become host code",
                    place=argument.place,
                )
        return f"{launch.kernel}<{', '.join(parts)}>"

    def _verbatim(self, argument: Verbatim, named: Mapping[Expression, Value]) -> str:
        known: dict[str, Value] = {
            **PLAN_TYPES,
            ELEMENT_TYPE: self.element,
            **self.cpp.constants,
            **{e.id: v for e, v in named.items() if isinstance(e, Name)},
        }
        return replace_names(argument.text, {n: _template_argument(v) for n, v in known.items()})

    def _test(self, value: Value, expression: Expression) -> str:
        if isinstance(value, DType):
            raise UserError(
                "a kernel whose type argument depends on the dimensions cannot be exported",
                place=expression.place,
                hint="write one launch for each type, chosen by 'when'",
            )
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _list(self, expressions: tuple[Expression, ...]) -> str:
        return ", ".join(bare(self.cpp.write(e)) for e in expressions)


def _constant(name: str, value: str) -> str:
    return f"{_IN}[[maybe_unused]] const auto {cpp_name(name)} = {value};"


def _evaluator(plan: LaunchPlan, sample: Bindings) -> Evaluator:
    """An evaluator of a call, in which the plan's own constants are known."""
    layouts = dict(sample.layouts)
    evaluator = Evaluator(
        Bindings(sample.element, sample.dims, layouts, sample.scalars, sample.device)
    )
    for declaration in plan.declarations:
        match declaration:
            case Workspace(name=name, shape=shape):
                sizes = tuple(map(evaluator.integer, shape))
                layouts[name] = Layout(WORKSPACE_ALIGNMENT, contiguous_strides(sizes))
            case Tune(name=name, value=value):
                evaluator.define(name, value)
            case Let(name=name, value=expression):
                evaluator.define(name, evaluator.value(expression))
    return evaluator


def _taken(plan: LaunchPlan, evaluator: Evaluator) -> Iterator[tuple[Launch | Refuse, ...]]:
    """What each step of a plan does for a call."""
    for step in plan.steps:
        if not isinstance(step, Dispatch):
            yield (step,)
            continue
        for branch in step.branches:
            if branch.condition is None or evaluator.truth(branch.condition):
                yield branch.body
                break


def _is_template_argument(text: str) -> bool:
    """Whether text from a plan can only be one template argument, and no other code."""
    if not _HARMLESS.fullmatch(text):
        return False
    depth: list[str] = []
    for character in text.replace("->", ""):
        if character in "<>" and "(" in depth:
            continue  # A comparison, or brackets that cannot end what is around them.
        if character in "(<[":
            depth.append(character)
        elif character in ")>]" and (not depth or _PAIRS[depth.pop()] != character):
            return False
    return not depth


def _template_argument(value: Value) -> str:
    if isinstance(value, DType):
        return value.cuda
    return str(value).lower() if isinstance(value, bool) else str(value)
