"""Launches of one host function of which a condition on the sizes chooses: branches of a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from astra_tui.cuda_source.syntax import text_of, without_wrapping
from astra_tui.drafting.answers import NO_ANSWERS, Answers
from astra_tui.drafting.baseline import plan_text
from astra_tui.drafting.elements import ElementTypes, read_element_types
from astra_tui.drafting.expressions import (
    Rewriter,
    free_name,
    known_truth,
    opposite,
    plan_expression,
    printed,
)
from astra_tui.drafting.geometry import LaunchDraft, block_limit, plan_arguments, read_launch
from astra_tui.drafting.host_launches import HostLaunch
from astra_tui.drafting.launching import HostCode, Sizes, tensors_of, with_checked_types
from astra_tui.drafting.reading import KernelFunction, SourceText, live_code, overloads
from astra_tui.drafting.template_arguments import element_names, element_types
from astra_tui.drafting.tensor_checks import checked_conditions
from astra_tui.drafting.tensors import TensorReader, read_accesses
from astra_tui.model.launch.expression import Binary, names_in
from astra_tui.model.launch.scope import ELEMENT_TYPE

_OF_ANOTHER = ("plan", "template", "dims")
"""Keys of what may not be open in a branch: no answer could be given to it alone."""


@dataclass(frozen=True)
class Branch:
    """A launch of another kernel, or of the same in another way, in the names of the draft."""

    launch: HostLaunch
    kernel: KernelFunction
    line: str
    """The launch in the plan's language."""
    conditions: tuple[str, ...]
    """Where it may be launched."""
    chosen: tuple[str, ...]
    """Those of them that the launcher chooses it by; where none holds the other is launched."""
    refused: tuple[str, ...]
    """What the launcher asks for where it launches the draft's kernel and not this one."""


class _Unclear(Exception):
    """A launch that is left out."""


@dataclass
class _Questions:
    """Asked in place of an engineer: a launch that leaves something open is no branch."""

    keys: list[str] = field(default_factory=list)

    def __call__(self, text: str, key: str = "", line: int = 0) -> None:  # noqa: ARG002
        self.keys.append(key)

    def require_none(self) -> None:
        if any(key.partition(".")[0] in _OF_ANOTHER for key in self.keys):
            raise _Unclear


@dataclass(frozen=True)
class Followed:
    """The launch that a draft follows, as it was read."""

    source: SourceText
    kernel: KernelFunction
    launch: HostLaunch
    elements: ElementTypes
    sizes: Sizes
    answers: Answers


def read_branches(followed: Followed) -> list[Branch]:
    """The other launches of the host function that can be drafted as they are, in order.

    One that an answer chose, or changed the launch of, stands alone.
    """
    answers, launch = followed.answers, followed.launch
    if answers.launch or answers.plan != NO_ANSWERS.plan:
        return []
    found: dict[tuple[str, ...], Branch] = {}
    for other in followed.source.launches:
        if other.function == launch.function and other.call != launch.call:
            try:
                branch = _read(followed, other)
            except _Unclear:
                continue
            # A dispatch over element types repeats a launch; what else is chosen alike is unclear.
            if found.setdefault(branch.chosen, branch).line != branch.line:
                return []
    return list(found.values())


def _read(followed: Followed, other: HostLaunch) -> Branch:
    source, sizes = followed.source, _copied(followed.sizes)
    same = overloads(source, other)
    if len(same) != 1:
        raise _Unclear  # Which of several is launched, only a compiler knows.
    here, there = _conditions(followed.launch), _conditions(other)
    only_here = [here[place] for place in here if place not in there]
    only_there = [there[place] for place in there if place not in here]
    if not only_here or not only_there:
        raise _Unclear  # A copy for another type, or launched as well.
    kernel = with_checked_types(source, same[0], other)
    host = _host(followed, kernel, other, sizes)
    chosen = tuple(_exact(host, only_there, sizes))
    refused = tuple(_exact(host, only_here, sizes))
    if not chosen or not refused:
        raise _Unclear
    ask = _Questions()
    answers = _for_all_launches(followed.answers)
    elements = read_element_types(source, kernel, other, (), answers, ask)
    if elements.task != followed.elements.task:
        raise _Unclear
    plan = read_launch(source, kernel, other, elements, sizes, answers, ask)
    kernel = replace(kernel, node=live_code(kernel.node, plan.numbers))
    accesses = read_accesses(source, kernel, plan, elements, sizes)
    tensors = TensorReader(kernel, elements, sizes, accesses, ask).read(plan)
    ask.require_none()
    if plan.grid is None or sizes.workload.keys() != followed.sizes.workload.keys():
        raise _Unclear
    names = _names(followed, kernel, other)
    conditions = (*plan.conditions, *block_limit(plan.block, sizes), *tensors.conditions)
    renamed = (_renamed(text, names) for text in conditions)
    return Branch(
        other,
        kernel,
        _line(kernel, plan, sizes, names),
        tuple(dict.fromkeys((*chosen, *renamed))),
        chosen,
        refused,
    )


def _for_all_launches(answers: Answers) -> Answers:
    """The answers that concern every launch alike: types and template arguments."""
    return Answers(dtypes=answers.dtypes, template=answers.template)


def _copied(sizes: Sizes) -> Sizes:
    """The sizes without what a launch passes of them."""
    return Sizes(
        workload=dict(sizes.workload),
        leaves={text: name for text, name in sizes.leaves.items() if name in sizes.workload},
        fixed=dict(sizes.fixed),
        accepted=sizes.accepted,
        taken=sizes.taken,
    )


def _host(followed: Followed, kernel: KernelFunction, other: HostLaunch, sizes: Sizes) -> HostCode:
    """The host code at the other launch, with the draft's names of its tensors."""
    host = HostCode(followed.source, kernel, other, sizes)
    host.tensors = tensors_of(followed.kernel, followed.launch, host.values)
    host.types.update(element_names(kernel, other, followed.elements, followed.source.aliases))
    host.read_properties(dict(element_types(followed.kernel, followed.elements)))
    list(host.read_modes())
    return host


def _conditions(launch: HostLaunch) -> dict[tuple[int, bool], tuple[Node, bool]]:
    """What holds where a launch is, by place in the text."""
    found = checked_conditions(launch.call, launch.function)
    return {(node.start_byte, holds): (node, holds) for node, holds in found}


def _exact(host: HostCode, conditions: Sequence[tuple[Node, bool]], sizes: Sizes) -> Iterator[str]:
    """Conditions in the plan's language, each in full; one that is known to hold says nothing."""
    rewriter = Rewriter(host.symbols())
    known = {*sizes.workload, ELEMENT_TYPE, *host.tensors.values()}
    for node, holds in conditions:
        truth = rewriter.truth(node)
        decided = known_truth(truth) if truth is not None else None
        if decided is not None and decided == holds:
            continue
        parts = list(rewriter.conditions(node, holds)) if decided is None else []
        if truth is None or not parts or not all(names_in(part) <= known for part in parts):
            raise _Unclear
        for part in parts:
            if known_truth(part):
                continue
            text = printed(part)
            if not text:
                raise _Unclear
            yield f"({text})" if isinstance(part, Binary) else text


def _names(followed: Followed, kernel: KernelFunction, other: HostLaunch) -> dict[str, str]:
    """The draft's names of what the other launch passes, by the names of its kernel's parameters.

    Both launches have to pass the same tensors and numbers.
    """
    first = dict(_passed(followed.kernel, followed.launch, followed))
    second = dict(_passed(kernel, other, followed))
    if first.keys() != second.keys():
        raise _Unclear
    names = {second[host]: first[host] for host in first}
    clash = {new for old, new in names.items() if old != new} & set(followed.sizes.workload)
    if clash or {old for old, new in names.items() if old != new} & set(followed.sizes.workload):
        raise _Unclear
    return names


def _passed(
    kernel: KernelFunction, launch: HostLaunch, followed: Followed
) -> Iterator[tuple[str, str]]:
    """What a launch passes but sizes: the text in host code, and the parameter's name."""
    host = HostCode(followed.source, kernel, launch, Sizes())
    pointers = {name: owner for owner, name in host.tensors.items()}
    for parameter, argument in zip(kernel.parameters, launch.arguments, strict=False):
        name = free_name(parameter.name)
        if parameter.is_pointer:
            yield pointers.get(name, text_of(argument)), name
        elif name in followed.sizes.taken:
            yield text_of(without_wrapping(argument)), name


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda word: names.get(word[0], word[0]), text)


def _line(kernel: KernelFunction, plan: LaunchDraft, sizes: Sizes, names: Mapping[str, str]) -> str:
    text = plan_text(kernel, plan, plan_arguments(kernel, plan, sizes, NO_ANSWERS), ())
    head, mark, rest = text.partition(" grid=")
    return head + mark + _renamed(rest, names)


def branched(
    accepts: Sequence[str], line: str, branches: Sequence[Branch], for_all: Sequence[str]
) -> tuple[tuple[str, ...], str]:
    """The contract and the plan of the draft's own launch and others: what all ask for first.

    `accepts` are the conditions of the draft's own launch; those `for_all` are of the others too.
    """
    own = tuple(dict.fromkeys((*accepts, *(text for b in branches for text in b.refused))))
    ways = [(own, line), *(((*b.conditions, *for_all), b.line) for b in branches)]
    common = [text for text in own if all(text in conditions for conditions, _ in ways)]
    rests = [[t for t in conditions if t not in common] for conditions, _ in ways]
    if len(rests) == 2 and _are_opposites(*rests):
        rests[1] = []  # Steps are tried in order.
    one_of = " or ".join(f"({' and '.join(rest)})" for rest in rests)
    contract = (*common, f"({one_of})") if all(rests) else tuple(common)
    steps = []
    for rest, (_, launch) in zip(rests, ways, strict=True):
        inner = launch.replace("\n", "\n    ")
        conditions = [*common, *rest]
        head = f"when {' and '.join(conditions)}:" if conditions else "otherwise:"
        steps.append(f"{head}\n    {inner}")
    return contract, "\n".join(steps)


def _are_opposites(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether of two conjunctions exactly one holds."""
    one, other = (plan_expression(" and ".join(each)) for each in (first, second))
    return one is not None and other is not None and other == opposite(one)
