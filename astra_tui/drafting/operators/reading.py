"""From a draft to the facts that recognisers look at, and back from an operator to the draft."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tree_sitter import Node

from astra_tui.cuda_source.syntax import called_name, descendants, text_of
from astra_tui.drafting.expressions import free_name
from astra_tui.drafting.host_launches import HostLaunch
from astra_tui.drafting.operators import KernelFacts, ScalarFacts, TensorFacts
from astra_tui.drafting.operators.matching import Reference
from astra_tui.drafting.reading import KernelFunction, SourceText
from astra_tui.drafting.task_file import TaskDraft


def kernel_facts(
    source: SourceText,
    kernel: KernelFunction,
    launch: HostLaunch | None,
    task: TaskDraft,
    passed: Sequence[str],
) -> KernelFacts:
    """What a draft shows of its kernel; `passed` are the template arguments of its launch plan."""
    types = {free_name(p.name): p.type for p in kernel.parameters}
    given = [text_of(node) for node in launch.template_args] if launch is not None else []
    template = {
        name: given[place] if place < len(given) else default
        for place, (_, name, default) in enumerate(kernel.template)
    }
    for (kind, name, _), text in zip(kernel.template, passed, strict=False):
        if kind == "bool" or text.startswith('"'):
            template[name] = text.strip('"')
    called = re.findall(r"\w+", " ".join(template.values()))
    roots = [kernel.node, *(source.functions[n] for n in called if n in source.functions)]
    return KernelFacts(
        kernel=kernel.name,
        tensors=tuple(
            TensorFacts(
                t.name, t.role if t.is_role_read else None, t.dtype, t.sizes, types.get(t.name, "")
            )
            for t in task.tensors
        ),
        scalars=tuple(ScalarFacts(s.name, s.dtype) for s in task.scalars),
        dims=tuple(task.dims),
        template=template,
        body="\n".join(map(_code, _reached(source, roots))),
        constants={name: text_of(node) for name, node in source.constants.items()},
    )


def _reached(source: SourceText, functions: list[Node]) -> list[Node]:
    """Functions and all of the file that they call, each once."""
    found: dict[int, Node] = {}
    while functions:
        function = functions.pop()
        if function.id in found:
            continue
        found[function.id] = function
        for node in descendants(function):
            if node.type == "call_expression" and called_name(node) in source.functions:
                functions.append(source.functions[called_name(node)])
    return list(found.values())


def _code(function: Node) -> str:
    """The body of a function without its comments."""
    body = function.child_by_field_name("body")
    return "".join(_pieces(body)) if body is not None else ""


def _pieces(body: Node) -> Iterator[str]:
    data, at = body.text or b"", 0
    for node in descendants(body):
        if node.type == "comment":
            yield data[at : node.start_byte - body.start_byte].decode(errors="replace")
            at = node.end_byte - body.start_byte
    yield data[at:].decode(errors="replace")


def with_reference(task: TaskDraft, reference: Reference) -> TaskDraft:
    """A draft with what an operator's reference says of values, tolerances and costs."""
    tensors = tuple(
        replace(
            t,
            values=reference.values.get(t.name, t.values),
            limit=reference.limits.get(t.name),
            role=reference.roles.get(t.name, t.role),
        )
        for t in task.tensors
    )
    scalars = tuple(
        replace(s, choices=reference.choices.get(s.name, s.choices)) for s in task.scalars
    )
    return replace(
        task,
        tensors=tensors,
        scalars=scalars,
        accepts=(*task.accepts, *(a for a in reference.accepts if a not in task.accepts)),
        summary=reference.summary,
        flops=reference.flops,
        tolerances=reference.tolerances,
        tolerance_source=reference.tolerance_source,
    )
