"""Drafts a kernel task from someone's CUDA source, and says what is left to decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import msgspec

from astra_tui.cuda_source.functions import function_name, parameters_of
from astra_tui.cuda_source.syntax import one_line
from astra_tui.cuda_source.translation import Declaration, Translation
from astra_tui.drafting.answers import NO_ANSWERS, Answers, Ask
from astra_tui.drafting.baseline import baseline_text, including_text, plan_text
from astra_tui.drafting.branches import Branch, Followed, branched, read_branches
from astra_tui.drafting.elements import ElementTypes, read_element_types
from astra_tui.drafting.expressions import free_name, plan_expression, printed
from astra_tui.drafting.geometry import (
    LaunchDraft,
    block_limit,
    guess_grid,
    plan_arguments,
    read_launch,
)
from astra_tui.drafting.host_launches import HostLaunch
from astra_tui.drafting.instances import Instances, Template
from astra_tui.drafting.launching import (
    Sizes,
    can_run,
    with_checked_types,
)
from astra_tui.drafting.open_points import OpenPoints, guesses_of
from astra_tui.drafting.operators.library import choose, reference_text
from astra_tui.drafting.operators.reading import kernel_facts, with_reference
from astra_tui.drafting.pieces import root_relative
from astra_tui.drafting.reading import (
    KernelFunction,
    SourceText,
    host_template_of,
    is_meant,
    live_code,
    read_source,
)
from astra_tui.drafting.scalars import read_scalars
from astra_tui.drafting.strides import recognise_strides
from astra_tui.drafting.task_file import (
    TaskDraft,
    answered,
    highest_value,
    reference_stub,
    task_toml,
    without_fixed_scalars,
    without_unused_dims,
)
from astra_tui.drafting.template_arguments import DEFAULT_BLOCK, ask_generator
from astra_tui.drafting.tensors import TensorReader, read_accesses
from astra_tui.drafting.types import is_size_type
from astra_tui.model.drafts import OpenPoint
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.launch.expression import Expression

_OFFSETS = (
    ' (an element is read with the one after it: where they never fall, { kind = "offsets", '
    'low = 0, high = "DIMENSION" })'
)


@dataclass(frozen=True)
class Draft:
    """The files of a task by name, and what its author has to confirm or decide."""

    name: str
    files: dict[str, str]
    open_points: tuple[OpenPoint, ...]
    upstream: dict[str, str] = field(default_factory=dict)
    """The project's headers that the kernel includes: paths by the name of their include."""
    unread: tuple[str, ...] = ()
    """What may be why the draft does not compile: headers not found, and text not understood."""
    instances: Instances | None = None
    """What depends on template arguments that no call shows, to ask a compiler for their sizes."""


def draft_task(
    name: str,
    translation: Translation,
    kernel_name: str | None = None,
    assumed: tuple[DType, ...] = (),
    answers: Answers = NO_ANSWERS,
    accepted: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
) -> Draft:
    """Drafts a task from a CUDA source that was read.

    `assumed` are the element types of `T` where no launch shows them, `accepted` the sizes of
    template arguments that none shows, as `instances` of an earlier draft tell.

    What cannot be read and is not answered becomes an open point. Raises UserError when the source
    holds no kernel, or several and neither its launches nor `kernel_name` say which, and when an
    answer does not fit the kernel.
    """
    file = Path(translation.main).name
    source = read_source(translation)
    kernel, declared = _choose(source, translation, kernel_name or answers.kernel or None)
    ask = OpenPoints(answers)
    for note in translation.notes:
        ask(note)
    ask_generator(source, ask)
    launch = _launch_of(source, kernel, answers.launch)
    _require_template(kernel, launch, answers)
    if launch is not None:
        kernel = with_checked_types(source, kernel, launch)
    whole = kernel
    elements = read_element_types(source, kernel, launch, assumed, answers, ask)
    sizes = Sizes(accepted=accepted, taken=_names_of_arguments(source, kernel))
    plan = read_launch(source, kernel, launch, elements, sizes, answers, ask)
    kernel = replace(kernel, node=live_code(kernel.node, plan.numbers))
    accesses = read_accesses(source, kernel, plan, elements, sizes)
    if recognise_strides(kernel, accesses, plan, sizes, ask):
        accesses = read_accesses(source, kernel, plan, elements, sizes)
    if plan.grid is None:
        grid = guess_grid(kernel.node, accesses, sizes)
        plan = replace(plan, grid=grid)
        if launch is None:
            ask(
                f"no <<<...>>> launch was found: grid={' x '.join(map(printed, grid))}, "
                f"block={DEFAULT_BLOCK} and the shared memory in baseline.cu are guesses",
                "plan.grid",
            )
    _require_pointers(kernel)
    found = TensorReader(kernel, elements, sizes, accesses, ask).read(plan)
    task = TaskDraft(
        name=name,
        origin=f"{file}, kernel {kernel.name}",
        dtypes=elements.task,
        dims=dict(sizes.workload),
        tensors=found.tensors,
        scalars=tuple(read_scalars(source, kernel, launch, elements, ask)),
        accepts=_unique(
            *_instantiated(sizes),
            *plan.conditions,
            *block_limit(plan.block, sizes),
            *found.conditions,
        ),
        fixed=dict(sizes.fixed),
    )
    task = answered(task, answers)
    facts = kernel_facts(source, kernel, launch, task, plan.template)
    choice = choose(facts, "" if answers.is_reference_text else answers.reference)
    if choice.reference is not None:
        # Answers come last: they may rule on what the operator suggests.
        task = answered(with_reference(task, choice.reference), answers)
    arguments = plan_arguments(kernel, plan, sizes, answers)
    branches: list[Branch] = []
    if launch is not None:
        branches = read_branches(Followed(source, whole, launch, elements, sizes, answers))
        _name_others(source, kernel, launch, branches, ask)
    if branches:
        line = plan_text(kernel, plan, arguments, ())
        for_all = (*_instantiated(sizes), *answers.contract.accepts)
        contract, plan_lines = branched(task.accepts, line, branches, for_all)
        task = replace(task, accepts=contract)
    else:
        plan_lines = plan_text(kernel, plan, arguments, task.accepts)
    if answers.whole:
        baseline = including_text(translation, elements.task, plan_lines, answers.definitions())
    else:
        baseline = baseline_text(
            translation,
            [declared, *(_declaration(translation, source, branch) for branch in branches)],
            elements.task,
            plan_lines,
            answers.definitions(),
            ask,
        )
    reference = answers.reference if answers.is_reference_text else ""
    if choice.offered and not reference:
        reference = reference_text(name, facts, choice)
    task = without_unused_dims(task, f"{plan_lines} {reference}", answers)
    task = without_fixed_scalars(task, f"{', '.join(arguments)} {reference}", answers)
    _ask_to_confirm(task, elements, ask)
    for point in choice.open_points:
        ask(point, "reference")
    files = {
        "task.toml": task_toml(task),
        "reference.py": reference or reference_stub(task),
        "baseline.cu": baseline.text,
    }
    instances = _instances(translation, kernel, plan, elements, sizes) if sizes.assumed else None
    lines = [x.line for x in source.launches if x.kernel == kernel.name]
    guesses = guesses_of(
        msgspec.toml.decode(files["task.toml"]),
        task.accepts,
        kernel,
        plan,
        arguments,
        (launch.line if launch is not None else 0, lines),
        [match.operator for match in choice.offered],
    )
    points = ask.shown(kernel, launch, guesses)
    return Draft(name, files, points, baseline.upstream, baseline.unread, instances)


def _instances(
    translation: Translation,
    kernel: KernelFunction,
    plan: LaunchDraft,
    elements: ElementTypes,
    sizes: Sizes,
) -> Instances:
    """The kernel and its launcher over the sizes that no call shows."""
    names = (name for _, name, _ in kernel.template)

    def include_name(path: str) -> str:
        return root_relative(path, translation)

    return Instances(
        {include_name(path): text for path, text in translation.files.items()},
        include_name(translation.main),
        tuple(sizes.assumed),
        Template(kernel.qualified, dict(zip(names, plan.template, strict=False))),
        plan.launcher,
        elements.task[0],
        sizes.offered,
    )


def _require_pointers(kernel: KernelFunction) -> None:
    """Raises UserError for a kernel none of whose parameters is a tensor of a task."""
    if any(p.is_pointer for p in kernel.parameters):
        return
    taken = ", ".join(f"{p.type} {p.name}" for p in kernel.parameters) or "nothing"
    raise UserError(
        f"{kernel.name} takes no pointer to elements, but {one_line(taken, 300)}",
        hint="a launch plan passes pointers and numbers: write them in place of classes such as "
        "PyTorch's packed accessors, and draft that file",
    )


def _require_template(kernel: KernelFunction, launch: HostLaunch | None, answers: Answers) -> None:
    """Raises UserError for an answered template parameter that neither kernel nor launcher has."""
    known = [name for _, name, _ in kernel.template]
    if launch is not None:
        known += [name for _, name, _ in host_template_of(launch.function)]
        known += [p.name for p in parameters_of(launch.function)]
    for name in answers.template:
        if name not in known:
            raise UserError(
                f"neither the kernel nor its launcher has template.{name}",
                hint=nearest(name, known),
            )


def _choose(
    source: SourceText, translation: Translation, name: str | None
) -> tuple[KernelFunction, Declaration]:
    """The kernel to draft, as it is read and as it is declared.

    `name` may be `NAME:LINE`, with any line of one of several with the same name.
    """
    declared = {f"{d.name}:{d.line}": d for d in translation.kernels()}
    if not declared:
        raise UserError(
            "no __global__ function with a body was found in this source",
            file=translation.main,
            hint="name the file that defines the kernel, not one that only declares or calls it",
        )
    names = dict.fromkeys(d.name for d in declared.values())
    if name is None:
        launched = {launch.kernel for launch in source.launches if launch.kernel in names}
        if len(names) > 1 and len(launched) != 1:
            raise UserError(
                f"this source has {len(names)} kernels, and a draft takes one",
                file=translation.main,
                hint="say which with --kernel: " + ", ".join(names),
            )
        name = launched.pop() if launched else next(iter(names))
    plain, _, line = name.partition(":")
    chosen = next((d for d in declared.values() if d.name == plain and _has_line(d, line)), None)
    if chosen is None:
        raise UserError(
            f"there is no kernel '{name}'",
            file=translation.main,
            hint=nearest(name, [*names, *declared]),
        )
    same = [k for k in source.kernels if k.name == chosen.name]
    place = [d for d in declared.values() if d.name == chosen.name].index(chosen)
    if not same:
        raise UserError(f"the kernel '{name}' could not be read", file=translation.main)
    return same[min(place, len(same) - 1)], chosen


def _declaration(translation: Translation, source: SourceText, branch: Branch) -> Declaration:
    name, line = branch.kernel.name, branch.kernel.line
    place = [k.line for k in source.kernels if k.name == name].index(line)
    declared = [d for d in translation.kernels() if d.name == name]
    return declared[min(place, len(declared) - 1)]


def _has_line(declaration: Declaration, line: str) -> bool:
    """Whether a declaration covers a line of its file; any does where none is given."""
    return not line or (line.isdecimal() and declaration.line <= int(line) <= declaration.last_line)


def _launch_of(source: SourceText, kernel: KernelFunction, line: int) -> HostLaunch | None:
    """The launch that the draft follows, None for none.

    Raises UserError where `line` is given and no launch of the kernel begins there.
    """
    launches = [x for x in source.launches if x.kernel == kernel.name]
    lines = list(dict.fromkeys(x.line for x in launches))
    if line and line not in lines:
        raise UserError(
            f"no launch of {kernel.name} is at line {line}",
            hint=f"there are launches at line {', '.join(map(str, lines))}" if lines else "",
        )
    if not launches:
        return None
    meant = {x.call.id: is_meant(kernel, x) for x in launches}
    launches.sort(key=lambda x: (True, None, False).index(meant[x.call.id]))
    # One with more arguments passes what a parameter pack takes, and a draft has none.
    fitting = [x for x in launches if len(x.arguments) <= len(kernel.parameters)] or launches
    return next(
        (
            x for x in (launches if line else fitting)
            if (x.line == line if line else can_run(source, kernel, x))
        ),
        fitting[0],
    )  # fmt: skip


def _name_others(
    source: SourceText,
    kernel: KernelFunction,
    launch: HostLaunch,
    branches: Sequence[Branch],
    ask: Ask,
) -> None:
    """Adds the launches that the draft leaves out: of this kernel, and with it of others."""
    drafted = {launch.line, *(branch.launch.line for branch in branches)}
    lines = dict.fromkeys(x.line for x in source.launches if x.kernel == kernel.name)
    others = ", ".join(str(n) for n in lines if n not in drafted)
    if others:
        said = f"the draft follows the launch at line {', '.join(map(str, sorted(drafted)))}"
        ask(f"{said}; there are others at line {others}", "launch")
    kernels = {kernel.name, *(branch.launch.kernel for branch in branches)}
    left_out = dict.fromkeys(
        x.kernel
        for x in source.launches
        if x.function == launch.function and x.kernel not in kernels
    )
    if left_out:
        names = ", ".join(left_out)
        ask(f"{function_name(launch.function)}() also launches {names}: the draft leaves that out")


def _names_of_arguments(source: SourceText, kernel: KernelFunction) -> set[str]:
    return {free_name(p.name) for p in kernel.parameters if not is_size_type(p, source.aliases)}


def _unique(*conditions: str) -> tuple[str, ...]:
    """Conditions without those that say the same, in an order in which none divides by zero."""
    found: dict[Expression | None, str] = {}
    for text in conditions:
        found.setdefault(plan_expression(text), text)
    return tuple(found.values())


def _instantiated(sizes: Sizes) -> list[str]:
    """A condition for each size that is a template argument: it has one of the values to try."""
    return [
        f"({' or '.join(f'{name} == {value}' for value in values)})"
        for name, values in sizes.fixed.items()
        if name in sizes.workload
    ]


def _ask_to_confirm(task: TaskDraft, elements: ElementTypes, ask: OpenPoints) -> None:
    """Adds the points that every draft has."""
    for s in task.scalars:
        if s.name not in ask.answers.plan.args:
            tried = ", ".join(map(repr, s.choices))
            ask(f"{s.name}: the draft tries {tried}; say which values are used", f"args.{s.name}")
    for t in task.tensors:
        if t.dtype is not None and not t.dtype.is_float and t.is_input:
            held = f"indices into {t.choices}" if t.choices else t.dtype.value
            drawn = t.values or f"0 to {highest_value(t)}"
            ask(
                f"{t.name} holds {held}: the draft draws {drawn}; say which values are valid"
                + (_OFFSETS if t.has_neighbours else ""),
                f"args.{t.name}.values",
            )
    for t in task.tensors:
        if t.limit is not None:
            key = f"args.{t.name}.limit"
            ask(f"limit of {t.name}: {t.limit}, common for this operator; confirm", key)
        elif t.is_input and (t.dtype is None or t.dtype.is_float):
            ask(
                f"limit of {t.name}: the largest magnitude that has to work; without one nothing "
                'near the end of the type is tried (and special = ["nan", "inf"] for those)',
                f"args.{t.name}.limit",
            )
    if task.rows:
        text = f"rows = {task.rows}: confirm that no row depends on another, or delete it"
        ask(text, "rows")
    if task.accepts:
        ask(f"contract: the source suggests {', '.join(task.accepts)}; confirm", "contract")
    if len(elements.task) > 1:
        names = ", ".join(d.value for d in elements.task)
        ask(f"dtypes: {names} are all checked; delete those that you do not use", "dtypes")
    ask("tolerances, bytes and flops in task.toml are common choices: confirm them", "tolerance")
    ask("workloads in task.toml: the sizes that matter to you", "workloads")
