"""Which element types a draft's tensors have, and what its kernel's template parameters are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from astra_tui.drafting.answers import Answers, Ask
from astra_tui.drafting.host_launches import HostLaunch
from astra_tui.drafting.reading import KernelParameter, KernelText, SourceText
from astra_tui.drafting.types import ELEMENTS, template_types, vector_of
from astra_tui.model.dtypes import OF_SPELLING, DType


@dataclass(frozen=True)
class ElementTypes:
    """`task` is what `T` goes through, `generic` the template parameters that stand for it.

    `fixed` holds the template parameters that are always one other element type.
    """

    task: tuple[DType, ...]
    generic: frozenset[str]
    fixed: Mapping[str, DType]
    aliases: Mapping[str, str]

    def of(self, parameter: KernelParameter) -> tuple[DType | None, int]:
        """The first element type behind a parameter and how many one item holds.

        None for a type that is no element.
        """
        if parameter.type in self.generic:
            return self.task[0], 1
        if parameter.type in self.fixed:
            return self.fixed[parameter.type], 1
        return vector_of(parameter.type, dict(self.aliases))

    def written(self, parameter: KernelParameter) -> DType | None:
        """The dtype to write in the task: None for `T`, which is also the type of unknown ones."""
        dtype, _ = self.of(parameter)
        if parameter.type in self.generic or (not self.generic and dtype is self.task[0]):
            return None
        return dtype


def read_element_types(
    source: SourceText,
    kernel: KernelText,
    launch: HostLaunch | None,
    assumed: tuple[DType, ...],
    answers: Answers,
    ask: Ask,
) -> ElementTypes:
    """Finds the element types of a kernel's template parameters and of the task.

    `assumed` is what `T` goes through where no launch shows it; by default what the source has the
    headers of. `answers` come before what the launch shows.
    """
    used = {p.type for p in kernel.parameters}
    typenames = [name for kind, name, _ in kernel.template if kind == "typename"]
    names = [name for name in typenames if name in used]
    is_untyped = any(p.is_pointer and p.type == "void" for p in kernel.parameters)
    if is_untyped and typenames and not names:
        names = typenames[:1]  # Its body casts `void*` to it.
    if not names:
        return _without_template(source, kernel, ask)
    types = template_types(source, kernel, launch)
    answered = {name: dtype for name in names if (dtype := answers.dtype_of(name)) is not None}
    types |= {name: (dtype,) for name, dtype in answered.items()}
    floats = {name: tuple(d for d in types.get(name, ()) if d in ELEMENTS) for name in names}
    main = _main_of(kernel, names, floats, answers)
    if answers.dtypes:
        floats[main] = answers.dtypes
    elif not floats[main]:
        floats[main] = assumed or _likely_types(source)
        said = " and ".join(d.value for d in floats[main])
        text = f"template parameter {main}: no launch shows its type; the draft says {said}"
        ask(text, "dtypes")
    generic, fixed = {main}, {}
    for name in names:
        given = types.get(name, ())
        if name == main:
            continue
        if name in answered or (len(given) == 1 and given != floats[main]):
            fixed[name] = given[0]
            continue
        if not given and (meant := _meant_by_name(kernel, name)) is not None:
            fixed[name] = meant
            text = f"template parameter {name}: no launch shows its type; the draft says {meant}"
            ask(text, f"template.{name}")
            continue
        generic.add(name)
        if given != floats[main] and answers.template.get(name) != "T":
            text = f"template parameter {name}: no launch shows its type; the draft says T"
            ask(text, f"template.{name}")
    if is_untyped:
        generic.add("void")
    return ElementTypes(floats[main], frozenset(generic), fixed, source.aliases)


def _main_of(
    kernel: KernelText,
    names: list[str],
    floats: Mapping[str, tuple[DType, ...]],
    answers: Answers,
) -> str:
    """The template parameter that the task's `T` stands for."""
    answered = [n for n in names if answers.template.get(n) == "T"]
    shown = [n for n in names if floats[n] and answers.dtype_of(n) is None]
    unnamed = [n for n in names if _meant_by_name(kernel, n) is None]
    return next(iter((*answered, *shown, *unnamed, *names)))


def _without_template(source: SourceText, kernel: KernelText, ask: Ask) -> ElementTypes:
    """`T` of a kernel that is no template: the type of most of its floating-point tensors."""
    pointees = [vector_of(p.type, source.aliases)[0] for p in kernel.parameters if p.is_pointer]
    floats = [d for d in pointees if d in ELEMENTS]
    if not floats:
        text = (
            "no tensor is known to hold floating-point numbers; dtypes says float32 for want of T"
        )
        ask(text, "dtypes")
    task = max(floats, key=floats.count) if floats else DType.FLOAT32
    return ElementTypes((task,), frozenset(), {}, source.aliases)


def _meant_by_name(kernel: KernelText, name: str) -> DType | None:
    """What a type parameter without evidence is called after: indices, quantised outputs."""
    if re.search(r"(?i)id(?:x|s)?_?(?:type|t)?$|ind(?:ex|ices)|^int|loc", name):
        return DType.INT32
    written = any(p.type == name and p.is_pointer and not p.is_const for p in kernel.parameters)
    is_quantising = re.search(r"(?i)quant|fp8", kernel.name) is not None
    return OF_SPELLING["__nv_fp8_e4m3"] if is_quantising and written else None


def _likely_types(source: SourceText) -> tuple[DType, ...]:
    """The element types that a source has the headers of, float32 where there are none."""
    found = tuple(d for d in ELEMENTS if d.bits == 16 and d.header in source.headers)
    return found or (DType.FLOAT32,)
