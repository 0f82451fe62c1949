"""The launch plan and the contract as a Python module: the language of plans is nearly Python.

A plan's canonical text is valid Python with the same meaning, operator by operator, so that
expressions go over as they are, but for `true` and `false`; only 64-bit overflow, which Python does
not have, is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from astra_tui.export.cpp_expression import python_expression
from astra_tui.model.dtypes import PLAN_TYPES
from astra_tui.model.launch import (
    DEVICE_ATTRIBUTES,
    Dispatch,
    Launch,
    LaunchPlan,
    Let,
    Refuse,
    Tune,
    Workspace,
)
from astra_tui.model.launch.expression import (
    Expression,
    Name,
    names_in,
    split_pointer,
)
from astra_tui.model.launch.plan import (
    KernelArgument,
    Member,
    Step,
    Struct,
    TemplateArgument,
    Verbatim,
)
from astra_tui.model.launch.scope import ELEMENT_TYPE, NULL
from astra_tui.model.task import KernelTask
from astra_tui.model.task.dims import dim_sources

_IN = "    "
_NAME = re.compile(r"[A-Za-z_]\w*")


def contract_words(task: KernelTask) -> dict[str, Any]:
    """What the template of a module with the task's shapes and conditions says."""
    given = dim_sources(task, (a for a in task.tensors if a.is_read))
    whole = dim_sources(task, task.tensors)
    used = set().union(
        *map(names_in, task.accepts), *(names_in(s) for a in task.tensors for s in a.shape)
    )
    tensors = {a.name for a in task.tensors}
    conditions = [
        (condition, repr(text), bool(names_in(condition) & tensors))
        for condition, text in zip(task.accepts, task.accepts_text, strict=True)
    ]
    return {
        "task": task,
        "name": task.name,
        "types": _types(used),
        "dtypes": tuple(d.value for d in task.dtypes),
        "passed": tuple(d for d in task.dims if d not in given),
        "scalars": tuple(a.name for a in task.scalars),
        "readers": [
            ("dims_of_inputs", given, tuple(task.dims)),
            ("dims_of_tensors", whole, tuple(d for d in task.dims if d in whole)),
        ],
        "of_dims": [(c, text) for c, text, of_layouts in conditions if not of_layouts],
        "of_layouts": [(c, text) for c, text, of_layouts in conditions if of_layouts],
    }


def python_plan(task: KernelTask, plan: LaunchPlan) -> str:
    """A module with a function `plan` that says what a call launches."""
    types = {a.name: a.dtype.value if a.dtype else ELEMENT_TYPE for a in task.tensors}
    types |= {w.name: w.dtype for w in plan.workspaces}
    declared = {d.name for d in plan.declarations if not isinstance(d, Workspace)}
    writer = _PlanWriter(types, {ELEMENT_TYPE, *declared, *task.dims})
    scalars = [a.name for a in task.scalars]
    used = plan.names()
    lines = [
        f'"""The launch plan of {task.name}, as a function of one call."""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Mapping",
        "",
        "from . import _host",
        "from ._host import aligned, ceil_div, rsqrt, sizeof, sqrt, stride",
        "",
        *(f"{name} = {name!r}" for name in _types(used)),
        "",
        "",
        "def plan(",
        f"{_IN}T: str,",
        *(f"{_IN}{dim}: int," for dim in task.dims),
        f"{_IN}_tensors: Mapping[str, _host.Layout],",
        *(f"{_IN}{name}: float," for name in scalars),
        f"{_IN}_device: Mapping[str, int],",
        ") -> _host.Plan:",
        f'{_IN}"""What to launch; raises _host.Refused and _host.PlanFault."""',
        *(f"{_IN}{a.name} = _tensors[{a.name!r}]" for a in task.tensors),
        *(f"{_IN}{n} = _device[{n!r}]" for n in DEVICE_ATTRIBUTES if n in used),
        f"{_IN}_workspaces: list[_host.Workspace] = []",
        f"{_IN}_launches: list[_host.Launch] = []",
        *writer.body(plan),
        f"{_IN}return _host.Plan(tuple(_workspaces), tuple(_launches))",
    ]
    return "\n".join(lines) + "\n"


class _PlanWriter:
    def __init__(self, tensors: Mapping[str, str], values: set[str]):
        self.tensors = tensors
        self.values = values | set(PLAN_TYPES) | set(DEVICE_ATTRIBUTES)

    def body(self, plan: LaunchPlan) -> Iterator[str]:
        for declaration in plan.declarations:
            match declaration:
                case Workspace(name=name, dtype=dtype, shape=shape):
                    element = dtype if dtype == ELEMENT_TYPE else repr(dtype)
                    sizes = _tuple(map(python_expression, shape))
                    given = f"_workspaces, {name!r}, {element}, {sizes}"
                    yield f"{_IN}_new, {name} = _host.workspace({given})"
                    yield f"{_IN}_workspaces.append(_new)"
                case Tune(name=name, value=value):
                    yield f"{_IN}{name} = {value}"
                case Let(name=name, value=expression):
                    yield f"{_IN}{name} = {python_expression(expression)}"
        for step in plan.steps:
            yield from self._step(step)

    def _step(self, step: Step) -> Iterator[str]:
        if not isinstance(step, Dispatch):
            yield from self._item(step, _IN)
            return
        word, closed = "if", False
        for branch in step.branches:
            if branch.condition is None:
                yield f"{_IN}else:" if word == "elif" else f"{_IN}if True:"
                closed = True
            else:
                yield f"{_IN}{word} {python_expression(branch.condition)}:"
            word = "elif"
            for item in branch.body:
                yield from self._item(item, 2 * _IN)
        if not closed:
            yield f"{_IN}else:"
            yield f'{2 * _IN}raise _host.Refused("no branch of the launch plan covers this case")'

    def _item(self, item: Launch | Refuse, indent: str) -> Iterator[str]:
        if isinstance(item, Refuse):
            yield f"{indent}raise _host.Refused({item.reason!r})"
            return
        shared = "0" if item.shared_bytes is None else python_expression(item.shared_bytes)
        yield f"{indent}_grid = _host.grid({_list(item.grid)})"
        yield f"{indent}if 0 not in _grid:"
        yield f"{indent}{_IN}_launches.append("
        yield f"{indent}{2 * _IN}_host.Launch("
        deep = indent + 3 * _IN
        yield f"{deep}{self._kernel(item)},"
        yield f"{deep}_grid,"
        yield f"{deep}_host.block(_device, {_list(item.block)}),"
        yield f"{deep}_host.shared(_device, {shared}),"
        yield f"{deep}{_tuple(map(self._argument, item.args))},"
        if item.pdl is not None:
            yield f"{deep}pdl={python_expression(item.pdl)},"
        if item.cluster:
            yield f"{deep}cluster=_host.cluster(_grid, {_list(item.cluster)}),"
        yield f"{indent}{2 * _IN})"
        yield f"{indent}{_IN})"

    def _kernel(self, launch: Launch) -> str:
        if not launch.template_args:
            return repr(launch.kernel)
        parts = " + ', ' + ".join(map(self._template_argument, launch.template_args))
        return f"{launch.kernel + '<'!r} + {parts} + '>'"

    def _template_argument(self, argument: TemplateArgument) -> str:
        if not isinstance(argument, Verbatim):
            return f"_host.cpp({python_expression(argument)})"
        pieces: list[str] = []
        end = 0
        for match in _NAME.finditer(argument.text):
            if match[0] in self.values:
                pieces += [repr(argument.text[end : match.start()]), f"_host.cpp({match[0]})"]
                end = match.end()
        pieces.append(repr(argument.text[end:]))
        return " + ".join(p for p in pieces if p != "''") or "''"

    def _argument(self, argument: KernelArgument) -> str:
        if not isinstance(argument, Struct):
            return self._value(argument)
        members = map(self._member, argument.members)
        return f"_host.struct({', '.join((str(argument.alignment), *members))})"

    def _member(self, member: Member | KernelArgument) -> str:
        if not isinstance(member, Member):
            return self._argument(member)
        dtype = member.dtype if member.dtype == ELEMENT_TYPE else repr(member.dtype)
        return f"({dtype}, {python_expression(member.value)})"

    def _value(self, expression: Expression) -> str:
        pointer = split_pointer(expression)
        if pointer is not None and (type_ := self.tensors.get(pointer[0].id)):
            name, elements = pointer[0].id, python_expression(pointer[1])
            element = type_ if type_ == ELEMENT_TYPE else repr(type_)
            distance = "" if elements == "0" else f", ({elements}) * sizeof({element})"
            return f"_host.Buffer({name!r}{distance})"
        if isinstance(expression, Name) and expression.id == NULL:
            return "None"
        return python_expression(expression)


def _types(names: set[str]) -> list[str]:
    return sorted(name for name in PLAN_TYPES if name in names)


def _list(expressions: Iterable[Expression]) -> str:
    return ", ".join(map(python_expression, expressions))


def _tuple(parts: Iterable[str]) -> str:
    inner = ", ".join(parts)
    return f"({inner},)" if inner else "()"
