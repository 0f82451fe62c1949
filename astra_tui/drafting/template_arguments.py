"""What a draft passes for the template parameters of a kernel, and what its launcher's are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Node

from astra_tui.cuda_source.functions import (
    function_declarator,
    function_name,
    parameters_of,
    specifiers,
    template_of,
)
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
from astra_tui.cuda_source.translation import Launcher
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
from astra_tui.drafting.polynomial import from_expression
from astra_tui.drafting.reading import KernelFunction, SourceText, class_around, host_template_of
from astra_tui.drafting.types import dtype_of, is_size_type, template_types, torch_types
from astra_tui.model.dtypes import PLAN_TYPES
from astra_tui.model.launch.expression import Call, Expression, Integer, Name
from astra_tui.model.launch.scope import ELEMENT_TYPE

DEFAULT_BLOCK = 256

THREAD_COUNT = re.compile(r"(?i)block|thread|tpb|n?threads?_?per|cta")
_DIMENSION = re.compile(
    r"(?i)^(?!.*vec).*?(?:dim|hidden|heads?(?:_num)?$|width|size$|columns|topk|experts|bytes$)"
)
_PDL = re.compile(r"PDL|(?i:pdl)")
TEMPLATE_SIZES = (64, 128, 256)
"""Values of a dimension that is a template argument: each is compiled."""
TORCH_TYPE = "torch_type"
"""The draft's alias template for PyTorch's C++ type of an element type."""
_CUB_DEFAULTS = {
    "Scan": "BLOCK_SCAN_RAKING", "Reduce": "BLOCK_REDUCE_WARP_REDUCTIONS",
    "Load": "BLOCK_LOAD_DIRECT", "Store": "BLOCK_STORE_DIRECT",
}  # fmt: skip
"""CUB's own defaults."""


def element_names(
    kernel: KernelFunction, launch: HostLaunch, elements: ElementTypes, aliases: dict[str, str]
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


def element_types(kernel: KernelFunction, elements: ElementTypes) -> Iterator[tuple[str, str]]:
    """The kernel's tensors with the plan's names of their types."""
    for parameter in kernel.parameters:
        dtype, _ = elements.of(parameter)
        if parameter.is_pointer and dtype is not None:
            written = ELEMENT_TYPE if parameter.type in elements.generic else dtype.value
            yield free_name(parameter.name), written


def cpp_names(
    source: SourceText, kernel: KernelFunction, launch: HostLaunch, elements: ElementTypes
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


@dataclass(frozen=True)
class _Rendered:
    """What Python passes for a template parameter of what launches."""

    first: str
    numbers: tuple[int, ...] = ()
    """All that it takes, where a parameter of the generator is passed on."""


def _rendered(host: HostCode) -> dict[str, _Rendered]:
    """By parameter. Only what agrees with the first in all that is not passed on counts."""
    launcher, function = host.source.launcher, host.launch.function
    around = class_around(function)
    name, parameters = around or (function_name(function), template_of(function))
    name = name.rpartition("::")[2]
    ways = [r for r in launcher.renderings if name in r.arguments] if launcher else []
    if not ways:
        return {}
    passed_on = [
        any(all(r.arguments[name][place : place + 1] == (str(r.given.get(key)),) for r in ways)
            for key, value in ways[0].given.items() if type(value) is int)
        for place in range(len(parameters))
    ]  # fmt: skip
    first = ways[0].arguments[name]
    fixed = [place for place in range(len(first)) if not (passed_on + [False] * 9)[place]]
    same = [
        r.arguments[name]
        for r in ways
        if [r.arguments[name][n] for n in fixed] == [first[n] for n in fixed]
    ]
    found: dict[str, _Rendered] = {}
    for place, (parameter, text) in enumerate(zip(parameters, first, strict=False)):
        numbers = dict.fromkeys(int(a[place]) for a in same) if passed_on[place] else {}
        found[parameter.name] = _Rendered(text, tuple(n for n in numbers if n > 0))
    return found


def _where(launcher: Launcher) -> str:
    """The Python that names a template's arguments: `norm.py:62, rmsnorm_module()`."""
    return f"{Path(launcher.file).name}:{launcher.line}, {launcher.function}()"


def ask_generator(source: SourceText, ask: Ask) -> None:
    """Adds what Python that writes the launch was given, and what it could not be given."""
    launcher = source.launcher
    if launcher is None:
        return
    if not launcher.function:
        first = source.original.count("\n") - launcher.text.count("\n") + 1
        ask(f"the launch is read from {launcher.file}: lines from {first} on are of that file")
    elif launcher.problem:
        ask(
            f"{launcher.file}:{launcher.line}: {launcher.function}() writes the launch and could "
            f"not be run here ({launcher.problem}); its parameters are answered by python.NAME"
        )
    for choice in launcher.choices:
        is_type = isinstance(choice.value, str) and choice.value.startswith("torch.")
        is_number = type(choice.value) is int and launcher.renderings
        if choice.others and not is_type and not is_number:
            others = ", ".join(map(str, choice.others))
            ask(
                f"{_where(launcher)} writes the launch: the draft passes {choice.name} = "
                f"{choice.value}, of {choice.value}, {others}",
                f"python.{choice.name}",
            )


def read_host_template(host: HostCode, answers: Answers, ask: Ask) -> None:
    """Values of the template parameters of the host function and of the classes around it.

    One that no call shows is a dimension where its name says so, as `kHeadDim` does.
    """
    own = len(template_of(host.launch.function))
    rendered = _rendered(host)
    launcher = host.source.launcher
    where = _where(launcher) if launcher is not None else ""
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
        passed = rendered.get(name)
        if kind == "bool" and passed is not None and passed.first in ("true", "false"):
            host.flags[name] = passed.first == "true"
            continue
        if kind == "bool":
            host.flags[name] = _PDL.search(name) is not None or default == "true"
            continue
        at = place - (len(parameters) - own)
        value = _template_value(host.source, host.launch, at) if at >= 0 else None
        value = value if value is not None else integer_value(default)
        if value is None and passed is not None and not passed.numbers:
            value = integer_value(passed.first)
        if value is None and _is_dimension(name):
            what = f"{name} of the launcher"
            if passed is not None:
                host.sizes.offered[_without_mark(name)] = passed.numbers
                what += f", which {where} passes"
            _assumed_size(name, name, what, host.sizes, ask)
            continue
        if value is None:
            value = _number_guess(name)
            value = passed.numbers[0] if passed and value not in passed.numbers else value
            said = f"{where} passes what its caller says" if passed else "no call shows it"
            text = f"template parameter {name} of the launcher: {said}; draft says {value}"
            ask(text, f"template.{name}")
        host.numbers[name] = value


def launcher(host: HostCode) -> Template | None:
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
    offered = sizes.offered.get(_without_mark(name), TEMPLATE_SIZES)
    usual = tuple(n for n in TEMPLATE_SIZES if n in offered) or tuple(sorted(offered)[:3])
    tried = sizes.accepted.get(_without_mark(name), usual)
    known = sizes.leaves.get(text)
    if known is None:
        known = sizes.add(_without_mark(name), text, tried[min(1, len(tried) - 1)])
        sizes.fixed[known] = tried
        sizes.assumed[known] = name
        why = ", which the source's assertions accept" if known in sizes.accepted else ""
        said = "" if "passes" in what else ": no call shows it"
        shown = f"template parameter {what}{said}; the draft tries "
        ask(f"{shown}{', '.join(map(str, tried))}{why}", f"template.{name}")
    return known


def _without_mark(name: str) -> str:
    """`head_dim` for `kHeadDim`."""
    plain = re.sub(r"^k(?=[A-Z])", "", name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()


def thread_counts(
    source: SourceText, launch: HostLaunch, answers: Answers, ask: Ask
) -> dict[str, int]:
    """Values of the host function's parameters that choose a number of threads.

    They tune the launch and say nothing of the operator, so they are no dimensions.
    """
    found: dict[str, int] = {}
    passed = {text_of(argument) for argument in launch.arguments}
    for place, parameter in enumerate(parameters_of(launch.function)):
        name = parameter.name
        if not THREAD_COUNT.search(name) or parameter.pointers or name in passed:
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
    return DEFAULT_BLOCK if THREAD_COUNT.search(name) else 1


def template_arguments(
    source: SourceText,
    kernel: KernelFunction,
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
        if kind == "bool" and host is not None:
            text = text_of(host.values.get(text)) or text
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
    return bool(_DIMENSION.search(name)) and not THREAD_COUNT.search(name)


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
    kernel: KernelFunction,
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
    source: SourceText, kernel: KernelFunction, kind: str, name: str, text: str, ask: Ask
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
    kernel: KernelFunction,
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
