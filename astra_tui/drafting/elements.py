"""Which element types a draft's tensors have, and what its kernel's template parameters are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from astra_tui.cuda_source.functions import Variable
from astra_tui.cuda_source.syntax import text_of
from astra_tui.drafting.answers import Answers, Ask
from astra_tui.drafting.host_launches import HostLaunch
from astra_tui.drafting.reading import KernelFunction, SourceText
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

    def of(self, parameter: Variable) -> tuple[DType | None, int]:
        """The first element type behind a parameter and how many one item holds.

        None for a type that is no element.
        """
        if parameter.type in self.generic:
            return self.task[0], 1
        if parameter.type in self.fixed:
            return self.fixed[parameter.type], 1
        return vector_of(parameter.type, dict(self.aliases))

    def written(self, parameter: Variable) -> DType | None:
        """The dtype to write in the task: None for `T`, which is also the type of unknown ones."""
        dtype, _ = self.of(parameter)
        if parameter.type in self.generic or (not self.generic and dtype is self.task[0]):
            return None
        return dtype


def read_element_types(
    source: SourceText,
    kernel: KernelFunction,
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
    types = template_types(source, kernel, launch)
    if is_untyped and not names:
        # Its body casts `void*` to one; what the launch shows to be whole numbers are indices.
        names = [n for n in typenames if not types.get(n) or set(types[n]) & set(ELEMENTS)][:1]
    if not names:
        return _without_template(source, kernel, ask)
    answered = {name: dtype for name in names if (dtype := answers.dtype_of(name)) is not None}
    types |= {name: (dtype,) for name, dtype in answered.items()}
    floats = {name: tuple(d for d in types.get(name, ()) if d in ELEMENTS) for name in names}
    guesses = {n: _meant(source, kernel, n) for n in names if not types.get(n)}
    main = _main_of(names, floats, guesses, answers)
    launched = types.get(main or "")
    if main is not None and answers.dtypes:
        floats[main] = answers.dtypes
    elif main is not None and not floats[main]:
        floats[main] = assumed or _likely_types(source)
        said = " and ".join(d.value for d in floats[main])
        text = f"template parameter {main}: no launch shows its type; the draft says {said}"
        ask(text, "dtypes")
    generic, fixed = {main} if main is not None else set(), {}
    for name in names:
        given = types.get(name, ())
        if name == main:
            continue
        is_as_main = bool(given) and given in (launched, floats.get(main or ""))
        what = f"template parameter {name}"
        if name in answered:
            fixed[name] = answered[name]
            continue
        if (given and not floats[name]) or (len(given) == 1 and not is_as_main):
            fixed[name] = DType.INT32 if DType.INT32 in given else given[0]
            if len(given) > 1:
                said = f"launched with {', '.join(d.value for d in given)}"
                ask(f"{what}: {said}; the draft says {fixed[name].value}", f"template.{name}")
            continue
        if meant := guesses.get(name):
            fixed[name] = meant[0]
            also = f"; it may be {' or '.join(d.value for d in meant[1:])}" if meant[1:] else ""
            said = f"the draft says {meant[0].value}{also}"
            ask(f"{what}: no launch shows its type; {said}", f"template.{name}")
            continue
        generic.add(name)
        if not is_as_main and answers.template.get(name) != "T":
            ask(f"{what}: no launch shows its type; the draft says T", f"template.{name}")
    if is_untyped:
        generic.add("void")
    task = floats[main] if main is not None else _most_frequent(source, kernel, ask)
    return ElementTypes(task, frozenset(generic), fixed, source.aliases)


def _main_of(
    names: list[str],
    floats: Mapping[str, tuple[DType, ...]],
    guesses: Mapping[str, tuple[DType, ...] | None],
    answers: Answers,
) -> str | None:
    """The template parameter that the task's `T` stands for; None where all are other types."""
    answered = [n for n in names if answers.template.get(n) == "T"]
    shown = [n for n in names if floats[n] and answers.dtype_of(n) is None]
    unnamed = [n for n, meant in guesses.items() if meant is None]
    of_float = [n for n, meant in guesses.items() if meant and meant[0].is_float]
    return next(iter((*answered, *shown, *unnamed, *of_float)), None)


def _without_template(source: SourceText, kernel: KernelFunction, ask: Ask) -> ElementTypes:
    """The types of a kernel none of whose tensors is of a type that its template names."""
    task = _most_frequent(source, kernel, ask)
    return ElementTypes(task, frozenset(), {}, source.aliases)


def _most_frequent(source: SourceText, kernel: KernelFunction, ask: Ask) -> tuple[DType, ...]:
    """`T` where no template parameter is: the type of most of the floating-point tensors."""
    pointees = [vector_of(p.type, source.aliases)[0] for p in kernel.parameters if p.is_pointer]
    floats = [d for d in pointees if d in ELEMENTS]
    if not floats:
        text = (
            "no tensor is known to hold floating-point numbers; dtypes says float32 for want of T"
        )
        ask(text, "dtypes")
    return (max(floats, key=floats.count) if floats else DType.FLOAT32,)


def _meant(source: SourceText, kernel: KernelFunction, name: str) -> tuple[DType, ...] | None:
    """What a type parameter without evidence stands for, the likeliest first; None for any type.

    Traits of which only specialisations have a body say which types there are.
    """
    named = _meant_by_name(kernel, name)
    allowed: list[DType] | None = None
    for template in re.findall(rf"\b(\w+)\s*<\s*{name}\s*>", text_of(kernel.node)):
        given = source.specialisations.get(template, ())
        types = [d for text in given if (d := vector_of(text, source.aliases)[0]) is not None]
        if types:
            allowed = types if allowed is None else [d for d in allowed if d in types]
    if not allowed or any(d in ELEMENTS and d.bits > 8 for d in allowed):
        return None if named is None else (named,)
    return tuple(sorted(allowed, key=lambda d: d is not named))


def _meant_by_name(kernel: KernelFunction, name: str) -> DType | None:
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
