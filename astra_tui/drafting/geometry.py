"""The launch of a draft: template arguments, grid, block, shared memory and kernel arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    arguments_of,
    called_name,
    declared_name,
    descendants,
    integer_value,
    one_line,
    parse_expression,
    text_of,
)
from astra_tui.drafting.accesses import Access
from astra_tui.drafting.answers import Answers, Ask, defined_function
from astra_tui.drafting.elements import ElementTypes
from astra_tui.drafting.expressions import (
    Rewriter,
    SymbolTable,
    free_name,
    plan_expression,
    printed,
)
from astra_tui.drafting.host_launches import HostLaunch
from astra_tui.drafting.instances import Template
from astra_tui.drafting.launching import HostCode, Sizes
from astra_tui.drafting.polynomial import Atom, Polynomial, from_expression
from astra_tui.drafting.reading import (
    KernelText,
    SourceText,
    class_around,
    function_declarator,
    function_name,
    host_template_of,
    parameters_of,
    specifiers,
    template_of,
)
from astra_tui.drafting.structures import Member
from astra_tui.drafting.types import dtype_of, is_size_type, template_types, torch_types
from astra_tui.model.dtypes import PLAN_TYPES
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.launch.expression import Call, Expression, Integer, Name, names_in
from astra_tui.model.launch.scope import ELEMENT_TYPE, RESERVED_NAMES

DEFAULT_BLOCK = 256
PLENTY_OF_SHARED = 48 * 1024
"""Bytes of shared memory that every kernel may ask for."""

_THREAD_COUNT = re.compile(r"(?i)block|thread|tpb|n?threads?_?per|cta")
_DIMENSION = re.compile(
    r"(?i)^(?!.*vec).*?(?:dim|hidden|heads?(?:_num)?$|width|size$|columns|topk|experts|bytes$)"
)
_PDL = re.compile(r"PDL|(?i:pdl)")
TEMPLATE_SIZES = (64, 128, 256)
"""Values of a dimension that is a template argument: each is compiled."""
TORCH_TYPE = "torch_type"
"""The draft's alias template for PyTorch's C++ type of an element type."""
_NULLS = ("nullptr", "NULL")
_AXES = "xyz"
_CUB_DEFAULTS = {
    "Scan": "BLOCK_SCAN_RAKING", "Reduce": "BLOCK_REDUCE_WARP_REDUCTIONS",
    "Load": "BLOCK_LOAD_DIRECT", "Store": "BLOCK_STORE_DIRECT",
}  # fmt: skip
"""CUB's own defaults."""


@dataclass(frozen=True)
class LaunchDraft:
    """One launch. `grid` is None where there is no host code to read it from."""

    template: tuple[str, ...]
    grid: tuple[Expression, ...] | None
    block: tuple[Expression, ...]
    shared: str
    numbers: Mapping[str, int]
    """Values of the kernel's template parameters that are whole numbers."""
    pdl: bool = False
    nulls: frozenset[str] = frozenset()
    """Parameters of the kernel that the launch passes no tensor for."""
    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Shapes that the host code checks, by the draft's names of the tensors."""
    conditions: tuple[str, ...] = ()
    """Conditions on sizes that the host code checks."""
    launcher: Template | None = None
    """The class of the function that launches."""


def read_launch(
    source: SourceText,
    kernel: KernelText,
    launch: HostLaunch | None,
    elements: ElementTypes,
    sizes: Sizes,
    answers: Answers,
    ask: Ask,
) -> LaunchDraft:
    """Reads the launch of a kernel and adds to `sizes` whatever names it needs.

    Raises UserError for answers in `[plan]` that are not in the plan's language.
    """
    if launch is None:
        for parameter in kernel.parameters:
            if is_size_type(parameter, source.aliases):
                sizes.arguments[parameter.name] = Name(sizes.add(parameter.name))
        _answer_arguments(kernel, sizes, answers)
        template, numbers = _template(source, kernel, elements, None, sizes, answers, ask)
        grid = _answered_parts("grid", answers.plan.grid, sizes)
        block = _answered_parts("block", answers.plan.block, sizes)
        shared = answers.plan.shared
        nulls = _answered_nulls(kernel, answers)
        block = block or (Integer(DEFAULT_BLOCK),)
        return LaunchDraft(template, grid, block, shared, numbers, nulls=nulls)
    host = HostCode(source, kernel, launch, sizes)
    host.types.update(_element_names(kernel, launch, elements, source.aliases))
    host.cpp_names.update(_cpp_names(source, kernel, launch, elements))
    for kind, name, default in host_template_of(launch.function):
        if kind == "typename" and default in host.cpp_names:
            host.cpp_names.setdefault(name, host.cpp_names[default])
    host.read_properties(dict(_element_types(kernel, elements)))
    for name in host.read_modes():
        asked = one_line(text_of(host.values[name]))
        ask(f"{name}: the launcher asks {asked}; the plan is for an answer of false")
    _read_host_template(host, answers, ask)
    host.numbers.update(_thread_counts(source, launch, answers, ask))
    host.read_checks()
    host.bind_arguments()
    _bind_rest(source, kernel, sizes, ask)
    _restrict_divisors(kernel, sizes, ask)
    _answer_arguments(kernel, sizes, answers)
    template, numbers = _template(source, kernel, elements, host, sizes, answers, ask)
    grid = _answered_parts("grid", answers.plan.grid, sizes) or _geometry(host, 0, "grid", ask)
    block = _answered_parts("block", answers.plan.block, sizes) or _geometry(host, 1, "block", ask)
    host.read_switches()
    pdl = launch.pdl and not any("PDL" in n.upper() and not v for n, v in host.flags.items())
    shared = answers.plan.shared or _shared(host, ask)
    given = zip(kernel.parameters, launch.arguments, strict=False)
    nulls = frozenset(p.name for p, a in given if p.is_pointer and text_of(a) in _NULLS)
    nulls |= _answered_nulls(kernel, answers)
    checked = host.conditions(ask)
    block = block or (Integer(DEFAULT_BLOCK),)
    return LaunchDraft(
        template, grid, block, shared, numbers, pdl, nulls, host.shapes, checked, _launcher(host)
    )


def _answer_arguments(kernel: KernelText, sizes: Sizes, answers: Answers) -> None:
    """Passes what `[plan.args]` says for the kernel's whole numbers."""
    for name, text in answers.plan.args.items():
        if name not in {p.name for p in kernel.parameters}:
            known = [p.name for p in kernel.parameters]
            raise UserError(f"the kernel has no plan.args.{name}", hint=nearest(name, known))
        if name in sizes.arguments:
            sizes.arguments[name] = _answered_expression(f"plan.args.{name}", text, sizes)


def _answered_nulls(kernel: KernelText, answers: Answers) -> frozenset[str]:
    """The pointers that `[plan.args]` leaves out."""
    given = answers.plan.args
    return frozenset(
        p.name for p in kernel.parameters if p.is_pointer and given.get(p.name) == "null"
    )


def _answered_parts(
    what: str, parts: tuple[str, ...], sizes: Sizes
) -> tuple[Expression, ...] | None:
    """The parts of an answered grid or block, None for no answer."""
    return tuple(_answered_expression(f"plan.{what}", part, sizes) for part in parts) or None


def _answered_expression(key: str, text: str, sizes: Sizes) -> Expression:
    """An expression of the plan's language; names that are new in it become dimensions."""
    found = plan_expression(text)
    if found is None:
        raise UserError(f"{key} = {text!r} is no expression of a launch plan")
    for name in sorted(names_in(found) - set(sizes.workload) - sizes.taken - RESERVED_NAMES):
        sizes.add(name, name)
    return found


def _restrict_divisors(kernel: KernelText, sizes: Sizes, ask: Ask) -> None:
    """Sizes that divide in the kernel through a precomputed form, which is not written for all."""
    for structure in kernel.structures.values():
        for member in structure.members:
            value = sizes.arguments.get(member.parameter)
            if member.divisors and isinstance(value, Name):
                sizes.fixed.setdefault(value.id, member.divisors)
                said = "the plan writes its precomputed division for powers of two alone"
                ask(f"{value.id}: {said}", f"dims.{value.id}")


def _bind_rest(source: SourceText, kernel: KernelText, sizes: Sizes, ask: Ask) -> None:
    """Sizes for whole numbers that the launch leaves to their defaults."""
    for parameter in kernel.parameters:
        if is_size_type(parameter, source.aliases) and parameter.name not in sizes.arguments:
            value = integer_value(parameter.default)
            sizes.arguments[parameter.name] = Name(sizes.add(parameter.name, "", value))
            text = f"{parameter.name}: the launch does not pass it; the draft makes it a dimension"
            ask(text, f"plan.args.{parameter.name}")


# -- template arguments ----------------------------------------------------------------------------


def _element_names(
    kernel: KernelText, launch: HostLaunch, elements: ElementTypes, aliases: dict[str, str]
) -> dict[str, str]:
    """C++ names of element types in host code with the plan's, for sizeof."""
    written = ((name, dtype_of(name, aliases)) for name in aliases)
    found = {name: dtype.value for name, dtype in written if dtype is not None}
    found |= dict.fromkeys(elements.generic, "T")
    for (_, name, _), given in zip(kernel.template, launch.template_args, strict=False):
        if name in elements.generic:
            found[text_of(given)] = "T"
        elif name in elements.fixed:
            found[text_of(given)] = elements.fixed[name].value
    return found


def _element_types(kernel: KernelText, elements: ElementTypes) -> Iterator[tuple[str, str]]:
    """The kernel's tensors with the plan's names of their types."""
    for parameter in kernel.parameters:
        dtype, _ = elements.of(parameter)
        if parameter.is_pointer and dtype is not None:
            written = ELEMENT_TYPE if parameter.type in elements.generic else dtype.value
            yield free_name(parameter.name), written


def _cpp_names(
    source: SourceText, kernel: KernelText, launch: HostLaunch, elements: ElementTypes
) -> dict[str, str]:
    """Type parameters that stand for an element type, and the launcher's names for them, with
    what quoted C++ text of the plan has for them.
    """
    found: dict[str, str] = {}
    of_torch = torch_types(source, kernel, launch)
    given = dict(zip((name for _, name, _ in kernel.template), launch.template_args, strict=False))
    for name in (*elements.generic, *elements.fixed):
        dtype = elements.fixed.get(name)
        if name in of_torch:
            text = dtype.torch_cuda if dtype is not None else f"{TORCH_TYPE}<{ELEMENT_TYPE}>"
        else:
            text = ""
        text = text or (dtype.value if dtype is not None else ELEMENT_TYPE)
        found.setdefault(text_of(given.get(name)), text)
        found[name] = text
    for name, types in template_types(source, kernel, launch).items():
        if name in found or not text_of(given.get(name)).isidentifier():
            continue
        if set(types) == set(elements.task):
            text = f"{TORCH_TYPE}<{ELEMENT_TYPE}>" if name in of_torch else ELEMENT_TYPE
            found[text_of(given.get(name))] = found[name] = text
        elif len(types) == 1:
            spelled = types[0].torch_cuda if name in of_torch else ""
            found[text_of(given.get(name))] = found[name] = spelled or types[0].cuda
    return found


def _read_host_template(host: HostCode, answers: Answers, ask: Ask) -> None:
    """Values of the template parameters of the host function and of the classes around it.

    One that no call shows is a dimension where its name says so, as `kHeadDim` does.
    """
    own = len(template_of(host.launch.function))
    parameters = host_template_of(host.launch.function)
    for place, (kind, name, default) in enumerate(parameters):
        if kind == "typename" or name in host.numbers:
            continue
        answer = answers.template.get(name)
        if isinstance(answer, tuple):
            _answered_size(name, answer, host.sizes)
            continue
        if isinstance(answer, bool):
            host.flags[name] = answer
            continue
        if isinstance(answer, int):
            host.numbers[name] = answer
            continue
        if kind.rpartition("::")[2] in host.source.enumerations:
            continue
        if kind == "bool":
            host.flags[name] = _PDL.search(name) is not None or default == "true"
            continue
        at = place - (len(parameters) - own)
        value = _template_value(host.source, host.launch, at) if at >= 0 else None
        value = value if value is not None else integer_value(default)
        if value is None and _is_dimension(name):
            _assumed_size(name, name, f"{name} of the launcher", host.sizes, ask)
            continue
        if value is None:
            value = _number_guess(name)
            text = (
                f"template parameter {name} of the launcher: no call shows it; draft says {value}"
            )
            ask(text, f"template.{name}")
        host.numbers[name] = value


def _launcher(host: HostCode) -> Template | None:
    """The class around the function that launches, as the draft instantiates it; None for none."""
    found = class_around(host.launch.function)
    if found is None:
        return None
    name, parameters = found
    arguments: dict[str, str] = {}
    for kind, parameter, default in parameters:
        if kind == "typename":
            text = host.cpp_names.get(parameter) or host.types.get(parameter) or default
        elif parameter in host.flags:
            text = f'"{str(host.flags[parameter]).lower()}"'
        else:
            text = host.sizes.leaves.get(parameter, str(host.numbers.get(parameter, "")))
        if not text:
            return None
        arguments[parameter] = text
    return Template(name, arguments)


def _answered_size(name: str, values: tuple[int | str, ...], sizes: Sizes) -> str:
    """The dimension that a template parameter becomes, with the sizes to try."""
    numbers = tuple(int(v) for v in values)
    known = sizes.leaves.get(name)
    if known is None:
        known = sizes.add(_without_mark(name), name, numbers[min(1, len(numbers) - 1)])
        sizes.fixed[known] = numbers
    return known


def _assumed_size(name: str, text: str, what: str, sizes: Sizes, ask: Ask) -> str:
    """The dimension that a template parameter becomes whose argument no call shows.

    `text` is what host code has for it.
    """
    tried = sizes.accepted.get(_without_mark(name), TEMPLATE_SIZES)
    known = sizes.leaves.get(text)
    if known is None:
        known = sizes.add(_without_mark(name), text, tried[min(1, len(tried) - 1)])
        sizes.fixed[known] = tried
        sizes.assumed[known] = name
        why = ", which the source's assertions accept" if known in sizes.accepted else ""
        shown = f"template parameter {what}: no call shows it; the draft tries "
        ask(f"{shown}{', '.join(map(str, tried))}{why}", f"template.{name}")
    return known


def _without_mark(name: str) -> str:
    """`head_dim` for `kHeadDim`."""
    plain = re.sub(r"^k(?=[A-Z])", "", name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()


def _thread_counts(
    source: SourceText, launch: HostLaunch, answers: Answers, ask: Ask
) -> dict[str, int]:
    """Values of the host function's parameters that choose a number of threads.

    They tune the launch and say nothing of the operator, so they are no dimensions.
    """
    found: dict[str, int] = {}
    passed = {text_of(argument) for argument in launch.arguments}
    for place, parameter in enumerate(parameters_of(launch.function)):
        name = parameter.name
        if not _THREAD_COUNT.search(name) or parameter.pointers or name in passed:
            continue
        if not is_size_type(parameter, source.aliases):
            continue
        given = integer_value(parameter.default)
        for call in _calls(source, function_name(launch.function)):
            arguments = arguments_of(call)
            value = integer_value(text_of(arguments[place])) if place < len(arguments) else None
            given = value if given is None else given
        found[name] = given if given is not None else DEFAULT_BLOCK
        answer = answers.template.get(name)
        found[name] = answer if isinstance(answer, int) else found[name]
        ask(f"{name} is chosen by the caller; the plan uses {found[name]}", f"template.{name}")
    return found


def _calls(source: SourceText, name: str) -> Iterator[Node]:
    for node in descendants(source.root):
        if node.type == "call_expression" and called_name(node) == name:
            yield node


_NAMES = ("identifier", "type_identifier", "type_descriptor")


def _template_value(source: SourceText, launch: HostLaunch, place: int) -> int | None:
    """The number with which a call `launcher<64>(...)` names a template parameter, if one does."""
    for parts in _calls_with_template(source, launch):
        value = integer_value(parts[place]) if place < len(parts) else None
        if value is not None:
            return value
    return None


def _calls_with_template(source: SourceText, launch: HostLaunch) -> Iterator[list[str]]:
    """The template arguments of each call `launcher<...>(...)`."""
    name = re.escape(function_name(launch.function))
    for match in re.finditer(rf"\b{name}\s*<([^;{{}}()<>]*)>\s*\(", source.original):
        yield [part.strip() for part in match[1].split(",")]


def _number_guess(name: str) -> int:
    return DEFAULT_BLOCK if _THREAD_COUNT.search(name) else 1


def _template(
    source: SourceText,
    kernel: KernelText,
    elements: ElementTypes,
    host: HostCode | None,
    sizes: Sizes,
    answers: Answers,
    ask: Ask,
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The template arguments as the plan writes them, and which of them are known numbers."""
    given = host.launch.template_args if host is not None else ()
    texts: list[str] = []
    numbers: dict[str, int] = {}
    for place, (kind, name, default) in enumerate(kernel.template):
        node = given[place] if place < len(given) else None
        if name in answers.template and name not in elements.generic:
            text = _answered_argument(name, answers, sizes)
            texts.append(text)
            numbers |= {name: int(text)} if text.isdecimal() else {}
            continue
        if kind == "typename":
            texts.append(_type_argument(source, kernel, name, node, default, elements, host, ask))
            continue
        text = text_of(node) or default
        if "(" in kind:
            function = _function_argument(source, kernel, kind, name, text, ask)
            texts.append(f'"{_in_plan(function, _known_types(elements, host))}"')
            continue
        if host is not None and text in host.flags:
            text = str(host.flags[text]).lower()
        if kind == "bool" and text not in ("true", "false"):
            shown = f"template parameter {name}: '{one_line(text)}' could not be read; it is false"
            ask(shown, f"template.{name}")
            text = "false"
        if text in ("true", "false"):
            numbers[name] = int(text == "true")
            texts.append(f'"{text}"')
            continue
        constant = _cpp_constant(source, kernel, kind, name, text, host, ask)
        if constant:
            texts.append(f'"{constant}"')
            continue
        if host is not None and _is_unexplained(text, host) and _is_dimension(name):
            _assumed_size(name, text, name, sizes, ask)
        value = _number_argument(node, default, host)
        if value is None and _is_dimension(name):
            value = Name(_assumed_size(name, text or name, name, sizes, ask))
        if value is None:
            value = Integer(_number_guess(name))
            shown = f"template parameter {name}: could not be read; the draft passes {value.value}"
            ask(shown, f"template.{name}")
        shown = printed(value)
        number = _number_for(shown, elements)
        if number is not None:
            numbers[name] = number
        texts.append(f"({shown})" if re.search(r"[<>=]", shown) else shown)
    return tuple(texts), numbers


def _is_dimension(name: str) -> bool:
    return bool(_DIMENSION.search(name)) and not _THREAD_COUNT.search(name)


def _is_unexplained(text: str, host: HostCode) -> bool:
    """Whether a template argument is a name that nothing in the source gives a value, as a macro
    is that Python passes to the compiler.
    """
    known = {**host.values, **host.source.constants, **host.sizes.leaves, **host.numbers}
    passed = {p.name for p in parameters_of(host.launch.function)}
    return text.isidentifier() and text not in known and text not in passed


def _answered_argument(name: str, answers: Answers, sizes: Sizes) -> str:
    """What the plan writes for a template parameter that the engineer answers."""
    value = answers.template[name]
    dtype = answers.dtype_of(name)
    match value:
        case bool():
            return f'"{str(value).lower()}"'
        case int():
            return str(value)
        case tuple():
            return _answered_size(name, value, sizes)
        case _ if dtype is not None or value == "T":
            return dtype.value if dtype is not None else "T"
        case _ if defined := defined_function(value):
            return f'"{defined}"'
        case _:
            return f'"{value}"'


def _cpp_constant(
    source: SourceText,
    kernel: KernelText,
    kind: str,
    name: str,
    text: str,
    host: HostCode | None,
    ask: Ask,
) -> str:
    """An enumerator as C++ text, named from the kernel's namespace; the first where none is shown.

    "" for a parameter whose type is no enumeration of the source.
    """
    text = _called_with(source, host.launch, text) if host is not None else text
    for _ in range(8):
        value = (host.values.get(text) if host is not None else None) or source.constants.get(text)
        if value is None:
            break
        text = text_of(value)
    enumerator = text.rpartition("::")[2]
    algorithm = re.fullmatch(r"(?:cub::)?Block(\w+)Algorithm", kind)
    if algorithm:
        is_shown = enumerator.startswith("BLOCK_")
        return f"cub::{enumerator if is_shown else _CUB_DEFAULTS.get(algorithm[1], '')}"
    listed = source.enumerations.get(kind.rpartition("::")[2])
    if not listed:
        return ""
    if enumerator not in listed:
        said = f"the draft passes {listed[0]}, of {', '.join(listed)}"
        ask(f"template parameter {name}: no launch shows its value; {said}", f"template.{name}")
        enumerator = listed[0]
    return f"{source.qualified(kind, kernel.scope)}::{enumerator}"


def _called_with(source: SourceText, launch: HostLaunch, text: str) -> str:
    """What a call `launcher<...>(...)` passes for the launcher's template parameter of this name;
    the text itself where it is none or no call shows it.
    """
    names = [name for _, name, _ in template_of(launch.function)]
    if text not in names:
        return text
    for given in _calls_with_template(source, launch):
        if names.index(text) < len(given):
            return given[names.index(text)]
    return text


def _function_argument(
    source: SourceText, kernel: KernelText, kind: str, name: str, text: str, ask: Ask
) -> str:
    """The function that a launch passes, else one of the source with that signature."""
    if text:
        return source.qualified(text, kernel.scope)
    found = [
        source.qualified(each, kernel.scope)
        for each, function in source.functions.items()
        if "__device__" in specifiers(function) and _signature(function) == re.sub(r"\s", "", kind)
    ]
    what = f"template parameter {name}: no launch shows which function {kind} it is (line "
    if not found:
        said = "no device function of the source has these types: write its name or definition"
        ask(f"{what}{kernel.line}), and {said}", f"template.{name}")
        return name
    said = f"the draft passes {found[0]}, of {', '.join(found)}"
    ask(f"{what}{kernel.line}); {said}", f"template.{name}")
    return found[0]


def _signature(function: Node) -> str:
    """A function's type as `float(*)(constfloat&)`, without blanks."""
    declarator = function_declarator(function)
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    given = []
    for parameter in listed.named_children if listed is not None else ():
        name = declared_name(parameter.child_by_field_name("declarator"))
        given.append(re.sub(rf"\b{name}\b" if name else r"\Z", "", text_of(parameter)))
    returned = text_of(function.child_by_field_name("type"))
    return re.sub(r"\s", "", f"{returned}(*)({','.join(given)})")


def _number_for(text: str, elements: ElementTypes) -> int | None:
    """The value of a template argument for the first of the element types."""
    expression = plan_expression(text.replace("sizeof(T)", str(elements.task[0].size)))
    match expression:
        case None:
            return None
        case Call(function="min", args=(first, *_)):  # Of a vector width: the widest.
            return from_expression(first).number
        case _:
            return from_expression(expression).number


def _type_argument(
    source: SourceText,
    kernel: KernelText,
    name: str,
    node: Node | None,
    default: str,
    elements: ElementTypes,
    host: HostCode | None,
    ask: Ask,
) -> str:
    if host is not None and name in host.cpp_names:
        text = host.cpp_names[name]
        is_plan_type = text == ELEMENT_TYPE or text in PLAN_TYPES
        return text if is_plan_type else f'"{text}"'
    if name in elements.generic:
        return ELEMENT_TYPE
    if name in elements.fixed:
        return elements.fixed[name].value
    host_types = _host_types(host)
    text = text_of(node)
    text = " ".join((host_types.get(text, text) or default).split())
    if not text or '"' in text:
        shown = f"template parameter {name}: no launch shows its type; the draft says T"
        ask(shown, f"template.{name}")
        return ELEMENT_TYPE
    known = _known_types(elements, host)
    for word in re.findall(r"[A-Za-z_]\w*", text):
        if word not in known and not host_types.get(word, word):
            shown = f"template parameter {name}: no launch shows {word} of '{text}'"
            ask(f"{shown}; the draft says T", f"template.{name}")
            return ELEMENT_TYPE
    return f'"{_in_plan(source.qualified(text, kernel.scope), known)}"'


def _host_types(host: HostCode | None) -> dict[str, str]:
    """The type parameters of a launcher and of the classes around it, with their defaults."""
    if host is None:
        return {}
    listed = host_template_of(host.launch.function)
    return {name: default for kind, name, default in listed if kind == "typename"}


def _known_types(elements: ElementTypes, host: HostCode | None) -> Mapping[str, str]:
    """What the plan has for the names of type parameters, the kernel's and the launcher's."""
    if host is not None:
        return host.cpp_names
    fixed = {name: dtype.value for name, dtype in elements.fixed.items()}
    return dict.fromkeys(elements.generic, ELEMENT_TYPE) | fixed


def _in_plan(text: str, names: Mapping[str, str]) -> str:
    """C++ text of a launch with the plan's names of the element types."""
    return re.sub(
        r"(?<![\w:])[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), " ".join(text.split())
    )


def _number_argument(node: Node | None, default: str, host: HostCode | None) -> Expression | None:
    if node is not None and host is not None:
        # A bare name among template arguments reads like a type.
        value = parse_expression(text_of(node))
        return host.expression(value) if value is not None else None
    value = parse_expression(default) if default else None
    return Rewriter(host.symbols() if host else SymbolTable()).expression(value) if value else None


# -- grid, block and shared memory -----------------------------------------------------------------


def _geometry(host: HostCode, place: int, what: str, ask: Ask) -> tuple[Expression, ...] | None:
    configuration = host.launch.configuration
    node = configuration[place] if place < len(configuration) else None
    if node is not None and what == "grid":
        _name_constant_rows(host, node)
    before = dict(host.sizes.workload), dict(host.sizes.leaves)
    found = host.geometry(node) if node is not None else None
    added = host.sizes.workload.keys() - before[0]
    if what == "block" and any(map(_THREAD_COUNT.search, added)):
        host.sizes.workload, host.sizes.leaves = before  # What tunes a launch is no dimension.
        found = None
    if node is None or found is None or not all(map(printed, found)):
        shown = host.described(node) if node is not None else f"at line {host.launch.line}"
        ask(f"{what}: {shown} could not be rewritten; the plan holds a guess", f"plan.{what}")
        return None
    if any("max_threads_per_sm" in names_in(part) for part in found):
        text = "blocks per SM are those that its threads allow; its registers may allow fewer"
        ask(f"{what}: {text}", f"plan.{what}")
    while len(found) > 1 and found[-1] == Integer(1):
        found.pop()
    return tuple(found[:3])


def _name_constant_rows(host: HostCode, grid: Node) -> None:
    """Makes a size of a constant that is a whole grid, as of `rows` in a sample's main()."""
    name = text_of(grid)
    definition = host.values.get(name)
    if grid.type != "identifier" or definition is None or _THREAD_COUNT.search(name):
        return
    value = integer_value(text_of(definition))
    if value is not None and name not in host.sizes.leaves:
        host.sizes.add(name, name, value)


def _shared(host: HostCode, ask: Ask) -> str:
    """Dynamic shared memory in bytes, "" for none."""
    if len(host.launch.configuration) < 3:
        return ""
    node = host.launch.configuration[2]
    before = dict(host.sizes.workload), dict(host.sizes.leaves)
    found = host.expression(node)
    text = printed(found) if found is not None else ""
    if found is None or not text or names_in(found) & (host.sizes.workload.keys() - before[0]):
        # A number of bytes is no dimension of an operator.
        host.sizes.workload, host.sizes.leaves = before
        what = f"shared memory: {host.described(node)} could not be rewritten"
        said = f"{what}; the plan asks for {PLENTY_OF_SHARED}, the most without an attribute"
        ask(said, "plan.shared")
        return str(PLENTY_OF_SHARED)
    return "" if text == "0" else text


def guess_grid(
    function: Node, accesses: list[Access], sizes: Sizes, ask: Ask
) -> tuple[Expression, ...]:
    """A grid for a kernel without a launch, from the conditions around its accesses."""
    body = text_of(function)
    used = [axis for axis, name in enumerate(_AXES) if f"blockIdx.{name}" in body]
    grid = tuple(
        _blocks_along(axis, accesses, sizes) if axis in used else Integer(1)
        for axis in range(max(used, default=0) + 1)
    )
    ask(
        f"no <<<...>>> launch was found: grid={' x '.join(map(printed, grid))}, "
        f"block={DEFAULT_BLOCK} and the shared memory in baseline.cu are guesses",
        "plan.grid",
    )
    return grid


def _blocks_along(axis: int, accesses: list[Access], sizes: Sizes) -> Expression:
    """How many blocks cover the limit of a guarded sum over this axis; else a size of its own."""
    for access in accesses:
        for total, limit in access.bounds:
            factors = {f for m, f in total.terms.items() if any(_is_block(a, axis) for a in m)}
            above = plan_expression(limit.text())
            if len(factors) != 1 or above is None or not all(a.is_size for a in limit.atoms()):
                continue
            factor = factors.pop()
            if factor > 0:
                return above if factor == 1 else Call("ceil_div", (above, Integer(factor)))
    name = ("rows", "blocks_y", "blocks_z")[axis]
    return Name(sizes.leaves.get(name) or sizes.add(name, name))


def _is_block(atom: Atom, axis: int) -> bool:
    return atom.kind == "block" and atom.axis == axis


def limits(parts: tuple[Expression, ...]) -> tuple[Polynomial, ...]:
    """The parts of a grid or block as sums."""
    return tuple(map(from_expression, parts))


def plan_arguments(
    kernel: KernelText, launch: LaunchDraft, sizes: Sizes, answers: Answers
) -> tuple[str, ...]:
    """What the plan passes for each parameter of the source's kernel."""
    values = []
    for parameter in kernel.parameters:
        if parameter.name in answers.plan.args:
            values.append(answers.plan.args[parameter.name])
        elif parameter.name in launch.nulls:
            values.append("null")
        elif parameter.name in sizes.arguments:
            values.append(printed(sizes.arguments[parameter.name]) or "0")
        else:
            values.append(free_name(parameter.name))
    found: list[str] = []
    while values:
        structure = kernel.structures.get(len(found))
        if structure is None:
            found.append(values.pop(0))
            continue
        members = structure.members
        parts = [_member(m, v) for m, v in zip(members, values[: len(members)], strict=True)]
        found.append(structure.braced(parts))
        del values[: len(members)]
    return tuple(found)


def _member(member: Member, value: str) -> str:
    """A member as the plan writes it: a number with its type before it."""
    if "*" in member.type:
        return value
    if member.layout:
        return member.layout.replace("#", value)
    dtype = dtype_of(member.type, {})
    return f"{dtype.value if dtype is not None else 'T'} {value}"
