"""Numbers that a kernel asks of a type: `Traits<float>::value`, which a specialisation says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.syntax import of_type, text_of
from astra_tui.model.dtypes import PLAN_TYPES, DType
from astra_tui.model.launch import Launch
from astra_tui.model.launch.expression import Name
from astra_tui.model.launch.plan import Verbatim
from astra_tui.model.launch.scope import TRUTH_VALUES
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.kernel_text import KernelText

_ASKED = re.compile(r"(?P<type>\w+)<(?P<of>\w+)>::(?P<name>\w+)")


def with_type_constants(source: KernelText, texts: Mapping[str, str], element: DType | None) -> str:
    """The source with the numbers in place of such questions; `element` is what the plan's T is,
    None where it may be several.
    """
    edits = []
    for kernel in source.kernels:
        for node in of_type(kernel.body, "qualified_identifier"):
            number = _number(node, kernel, source, texts, element)
            if number is not None:
                edits.append(put(node, number))
    return source.changed(edits)


def _number(
    node: Node,
    kernel: Function,
    source: KernelText,
    texts: Mapping[str, str],
    element: DType | None,
) -> str | None:
    asked = _ASKED.fullmatch("".join(text_of(node).split()))
    if asked is None:
        return None
    launches = source.launches_of(kernel)
    meant = {_spellings(asked["of"], kernel, each, element) for each in launches}
    spellings = meant.pop() if len(meant) == 1 else ()
    specialised = re.compile(rf"struct\s+{asked['type']}\s*<\s*([\w:]+)\s*>\s*{{([^{{}}]*)}}")
    constant = re.compile(rf"static\s+constexpr\s+int\s+{asked['name']}\s*=\s*(\d+)\s*;")
    found = {
        said[1] if (said := constant.search(match[2])) is not None else ""
        for text in texts.values() for match in specialised.finditer(text)
        if match[1] in spellings
    }  # fmt: skip
    return found.pop() or None if len(found) == 1 else None


def _spellings(
    name: str, kernel: Function, launch: Launch, element: DType | None
) -> tuple[str, ...]:
    """What a template parameter stands for, in C++; another name is its own."""
    given = {p.name: each for p, each in zip(kernel.template, launch.template_args, strict=False)}
    match given.get(name):
        case Name(id="T"):
            return element.spellings if element is not None else ()
        case Name(id=plain) if plain in PLAN_TYPES:
            return DType(plain).spellings
        case Name(id=plain) if plain in TRUTH_VALUES:
            return (plain,)
        case Verbatim(text=text):
            return (text,)
    return () if any(p.name == name for p in kernel.template) else (name,)
