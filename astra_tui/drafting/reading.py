"""What a CUDA source says of itself: kernels, their parameters, how host code launches them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from tree_sitter import Node

from astra_tui.cuda_source.expanded import expanded_text
from astra_tui.cuda_source.functions import (
    TemplateParameter,
    Variable,
    function_name,
    parameters_of,
    specifiers,
    template_of,
)
from astra_tui.cuda_source.syntax import (
    ancestors,
    arguments_of,
    called_name,
    declarators,
    descendants,
    integer_value,
    line_of,
    of_type,
    parse,
    parse_expression,
    text_of,
)
from astra_tui.cuda_source.translation import Launcher, Translation
from astra_tui.drafting.expressions import Helper, Rewriter, SymbolTable, known_truth
from astra_tui.drafting.host_launches import (
    HostLaunch,
    given_argument,
    initialised,
    launches_in,
    local_values,
    resolved_kernel,
)
from astra_tui.drafting.inlining import chosen, with_lambdas_in_place
from astra_tui.drafting.structures import (
    Structure,
    Structures,
    with_members_as_arguments,
    with_members_as_parameters,
)


@dataclass(frozen=True)
class KernelFunction:
    """A `__global__` function. `scope` names the namespaces around it."""

    name: str
    scope: tuple[str, ...]
    template: tuple[TemplateParameter, ...]
    parameters: tuple[Variable, ...]
    node: Node
    """The function's definition."""
    structures: Mapping[int, Structure] = field(default_factory=dict)
    """Parameters of the source that are structures, by number; `parameters` has their members."""

    @property
    def line(self) -> int:
        """The line where it begins."""
        return line_of(self.node)

    @property
    def qualified(self) -> str:
        """Its name with its namespaces."""
        return "::".join((*(part for part in self.scope if part), self.name))


@dataclass(frozen=True)
class SourceText:
    """A parsed source."""

    root: Node
    kernels: tuple[KernelFunction, ...]
    launches: tuple[HostLaunch, ...]
    constants: dict[str, Node] = field(default_factory=dict)
    """Values of object-like macros, of constants outside of functions, of enumerators."""
    helpers: dict[str, Helper] = field(default_factory=dict)
    """Macros with parameters, and functions that only return an expression."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Names of types that stand for other types."""
    functions: dict[str, Node] = field(default_factory=dict)
    """Definitions of functions by name; of several with one name, the first."""
    calls: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    """Calls by the name of what they call."""
    original: str = ""
    """The main file as it is written."""
    enumerations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Enumerators of each enumeration."""
    class_constants: Mapping[str, int] = field(default_factory=dict)
    """Whole numbers that classes hold, by their full names."""
    class_sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of classes, by name."""
    headers: frozenset[str] = frozenset()
    """Names of what it and its project's headers include."""
    scopes: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """The namespaces in which each name is declared."""
    specialisations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The argument of each specialisation of a class template that has no body of its own."""
    launcher: Launcher | None = None
    """What was found of the launch elsewhere."""

    def qualified(self, text: str, scope: tuple[str, ...]) -> str:
        """A C++ text with the namespaces of its names, as they are found from within `scope`."""

        def with_scope(match: re.Match[str]) -> str:
            found = [s for s in self.scopes.get(match[1], ()) if "" not in s]
            around = [s for s in found if s == scope[: len(s)]]
            chosen = max(around, key=len) if around else next(iter(found), ())
            return "::".join((*chosen, match[1]))

        return re.sub(r"(?<![\w:.])(?<!:: )([A-Za-z_]\w*)\b", with_scope, text)


@lru_cache(maxsize=2)
def read_source(translation: Translation) -> SourceText:
    """The parsed source; what the grammar does not understand is passed over.

    Kept, since a source is drafted again for each answer.
    """
    root, structures = with_members_as_parameters(with_lambdas_in_place(expanded_text(translation)))
    functions = list(of_type(root, "function_definition"))
    by_name: dict[str, Node] = {}
    for function in functions:
        by_name.setdefault(function_name(function), function)
    calls = _calls(root)
    return SourceText(
        root,
        tuple(k for f in functions if (k := _kernel(f, structures)) is not None),
        tuple(_launches(functions, by_name, calls, structures)),
        dict(_constants(root)),
        dict(_helpers(root, functions)),
        _aliases(root),
        by_name,
        calls,
        translation.files[translation.main],
        {d.name: d.enumerators for d in translation.declarations if d.enumerators},
        translation.class_constants,
        translation.class_sizes,
        frozenset(include.name for include in translation.includes),
        _scopes(translation),
        _specialisations(root),
        translation.launcher,
    )


def open_launch(translation: Translation, kernel: str) -> tuple[str, ...] | None:
    """What of a kernel's launch the source does not say; None where it says all.

    () where no function of it launches the kernel, else the names of the class and function
    templates that do with numbers that no call shows.
    """
    source = read_source(translation)
    launches = [launch for launch in source.launches if launch.kernel == kernel]
    names = (_open_template(launch, source) for launch in launches)
    templates = tuple(dict.fromkeys(name for name in names if name))
    return None if launches and not templates else templates


def _open_template(launch: HostLaunch, source: SourceText) -> str:
    """The class or function template that launches with numbers that no call shows, "" for none."""
    around = class_around(launch.function)
    own = template_of(launch.function)
    name, parameters = around or (function_name(launch.function), own)
    is_called = around is None and bool(source.calls.get(name))
    numbers = [p for p in parameters if p.kind != "typename"]
    return name.rpartition("::")[2] if numbers and not is_called else ""


def _calls(root: Node) -> dict[str, tuple[Node, ...]]:
    found: dict[str, list[Node]] = {}
    for node in of_type(root, "call_expression"):
        found.setdefault(called_name(node), []).append(node)
    return {name: tuple(calls) for name, calls in found.items()}


# -- launches --------------------------------------------------------------------------------------

_ALIASES = ("type_definition", "alias_declaration")
_ENABLED = re.compile(r"enable_if_t<(.*)>$", re.DOTALL)
_MAX_HELPER = 8
"""Statements of a helper function that only chooses what it returns."""
_LITERAL = re.compile(r"nullptr|NULL|true|false|-?[\d.]+(?:[eE][-+]?\d+)?[fFuUlL]*")


def _launches(
    functions: list[Node],
    by_name: Mapping[str, Node],
    calls: Mapping[str, Sequence[Node]],
    structures: Structures,
) -> Iterator[HostLaunch]:
    """The launches of all host functions, with members in place of structures."""
    for function in functions:
        given = _given_by_callers(function, calls.get(function_name(function), ()))
        for found in launches_in(function, by_name, given):
            for launch in _by_callers(found, by_name, calls):
                passed = with_members_as_arguments(launch, structures)
                arguments = (given_argument(a, launch.given) for a in passed.arguments)
                yield replace(passed, arguments=tuple(arguments))


def _given_by_callers(function: Node, calls: Sequence[Node]) -> dict[str, Node]:
    """The literals that the first caller passes for a function's parameters, else the defaults."""
    found: dict[str, Node] = {}
    texts = {name: default for _, name, default in host_template_of(function)}
    first = calls[0] if calls else None
    arguments = arguments_of(first) if first is not None else []
    is_main = any(function_name(a) == "main" for a in _functions_around(first))
    for place, parameter in enumerate(parameters_of(function)):
        passed = text_of(arguments[place]) if place < len(arguments) and not is_main else ""
        texts[parameter.name] = passed or parameter.default
    for name, text in texts.items():
        value = parse_expression(text) if _LITERAL.fullmatch(text) else None
        if value is not None:
            found[name] = value
    return found


def _functions_around(node: Node | None) -> Iterator[Node]:
    for above, _ in ancestors(node) if node is not None else ():
        if above.type == "function_definition":
            yield above


def _by_callers(
    launch: HostLaunch, by_name: Mapping[str, Node], calls: Mapping[str, Sequence[Node]]
) -> Iterator[HostLaunch]:
    """A launch of a kernel that the callers of its function name, once for each of them."""
    function = launch.function
    template = [name for _, name, _ in template_of(function)]
    parameters = [p.name for p in parameters_of(function)]
    if launch.kernel not in (*template, *parameters):
        yield launch
        return
    for call in calls.get(function_name(function), ()):
        caller = next(_functions_around(call), None)
        callee = call.child_by_field_name("function")
        listed = callee.child_by_field_name("arguments") if callee is not None else None
        is_argument = launch.kernel in parameters
        given = arguments_of(call) if is_argument else listed.named_children if listed else []
        place = (parameters if is_argument else template).index(launch.kernel)
        if caller is None or caller == function or place >= len(given):
            continue
        # Read again: a name among template arguments was read like a type.
        kernel = parse_expression(text_of(given[place]))
        found = resolved_kernel(kernel, call, caller, by_name) if kernel is not None else None
        if found is not None:
            passed = dict(zip(parameters, arguments_of(call), strict=False))
            inner = {n: v for n, v in passed.items() if text_of(v) != n}
            yield replace(
                launch,
                kernel=found[0],
                template_args=found[1],
                arguments=tuple(_unpacked(launch.arguments, arguments_of(call)[len(parameters) :])),
                function=caller,
                call=call,
                inner={**local_values(launch), **inner},
            )


def _unpacked(arguments: Sequence[Node], rest: Sequence[Node]) -> Iterator[Node]:
    """Arguments with a pack, `args...`, replaced by what a caller passes for it."""
    for argument in arguments:
        if argument.type == "parameter_pack_expansion":
            yield from rest
        else:
            yield argument


# -- functions -------------------------------------------------------------------------------------


def host_template_of(function: Node) -> tuple[TemplateParameter, ...]:
    """The template parameters of a host function, those of the classes around it first."""
    found = list(template_of(function))
    for above, _ in ancestors(function):
        if above.type in ("struct_specifier", "class_specifier"):
            found = [*template_of(above), *found]
    return tuple(found)


def class_around(function: Node) -> tuple[str, tuple[TemplateParameter, ...]] | None:
    """Name and template parameters of the class around a function, None for no class template."""
    for above, _ in ancestors(function):
        if above.type in ("struct_specifier", "class_specifier"):
            name = text_of(above.child_by_field_name("name"))
            scope = (part for part in scope_of(above) if part)
            parameters = template_of(above)
            return ("::".join((*scope, name)), parameters) if name and parameters else None
    return None


def _kernel(function: Node, structures: Structures) -> KernelFunction | None:
    if "__global__" not in specifiers(function) or function.child_by_field_name("body") is None:
        return None
    name = function_name(function)
    return KernelFunction(
        name, scope_of(function), template_of(function), parameters_of(function), function,
        structures.get(name, {}),
    )  # fmt: skip


def overloads(source: SourceText, launch: HostLaunch) -> list[KernelFunction]:
    """The kernels of a launch's name that its template arguments may mean."""
    same = [k for k in source.kernels if k.name == launch.kernel]
    meant = [k for k in same if is_meant(k, launch)]
    return meant or [k for k in same if is_meant(k, launch) is not False]


def is_meant(kernel: KernelFunction, launch: HostLaunch) -> bool | None:
    """Whether the numbers of a launch choose a kernel, by the condition that it is there under.

    None where it has no such condition, or more decides. `kernel` has the launch's name.
    """
    found = _ENABLED.search(text_of(kernel.node.child_by_field_name("type")))
    condition = parse_expression(found[1]) if found is not None else None
    if condition is None:
        return None
    given = zip((p.name for p in kernel.template), launch.template_args, strict=False)
    numbers = {name: integer_value(text_of(node)) for name, node in given}
    symbols = SymbolTable(numbers={n: value for n, value in numbers.items() if value is not None})
    truth = Rewriter(symbols).truth(condition)
    return known_truth(truth) if truth is not None else None


def live_code(function: Node, numbers: Mapping[str, int]) -> Node:
    """A function without the branches that `numbers`, values of its template, rule out.

    Everything that stays keeps its place.
    """
    text = bytearray(b"\n" * function.start_point[0] + (function.text or b""))
    shift = function.start_point[0] - function.start_byte
    for node in descendants(function):
        if node.type == "if_statement":
            for start, end in _dead_parts(node, numbers):
                for place in range(start + shift, end + shift):
                    if text[place] not in b"\n":
                        text[place] = ord(" ")
    root = parse(text.decode(errors="replace"))
    return next((n for n in descendants(root) if n.type == "function_definition"), function)


def _dead_parts(branch: Node, numbers: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """The bytes of an `if` over template arguments that mean nothing: one side, the condition."""
    clause = branch.child_by_field_name("condition")
    live = branch.child_by_field_name("consequence")
    other = branch.child_by_field_name("alternative")
    condition = clause.child_by_field_name("value") if clause is not None else None
    if condition is None or live is None:
        return
    value = Rewriter(SymbolTable(numbers=numbers)).truth(condition)
    holds = known_truth(value) if value is not None else None
    if holds is None:
        return
    if holds:
        yield branch.start_byte, live.start_byte
        if other is not None:
            yield other.start_byte, other.end_byte
    else:
        yield branch.start_byte, live.end_byte
        if other is not None:
            yield other.start_byte, other.start_byte + len("else")
    kept = live if holds else (other.named_children[-1] if other is not None else None)
    if kept is not None and kept.type == "compound_statement":
        # Its names stay known after it, as they are for pointers that it sets.
        yield kept.start_byte, kept.start_byte + 1
        yield kept.end_byte - 1, kept.end_byte


def scope_of(node: Node) -> tuple[str, ...]:
    """The namespaces around a node, "" for one without a name."""
    found = []
    for above, _ in ancestors(node):
        if above.type == "namespace_definition":
            found.append(text_of(above.child_by_field_name("name")))
    return tuple(reversed(found))


@lru_cache(maxsize=16)
def declared_types(function: Node) -> Mapping[str, str]:
    """The types of a function's parameters and of its local pointers and numbers."""
    found = {p.name: p.type for p in parameters_of(function)}
    for node in of_type(function, "declaration"):
        base = re.sub(r"\bconst\b", "", text_of(node.child_by_field_name("type"))).strip()
        found.update((name, base) for name, _ in declarators(node))
    return MappingProxyType(found)


# -- names of the whole file -----------------------------------------------------------------------


def _scopes(translation: Translation) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Where each name is declared; namespaces and enumerators are names too."""
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for declaration in translation.declarations:
        scope = declaration.scope
        for name in (declaration.name, *declaration.enumerators):
            found.setdefault(name, {})[scope] = None
        for depth, name in enumerate(scope):
            found.setdefault(name, {})[scope[:depth]] = None
    return {name: tuple(scopes) for name, scopes in found.items() if name}


def _specialisations(root: Node) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    general: set[str] = set()
    for node in of_type(root, "struct_specifier", "class_specifier"):
        named = node.child_by_field_name("name")
        if node.child_by_field_name("body") is None or named is None:
            continue
        if named.type != "template_type":
            general.add(text_of(named))
            continue
        listed = named.child_by_field_name("arguments")
        given = listed.named_children if listed is not None else []
        if len(given) == 1:
            found.setdefault(text_of(named.child_by_field_name("name")), []).append(
                text_of(given[0])
            )
    return {name: tuple(given) for name, given in found.items() if name not in general}


def _constants(root: Node) -> Iterator[tuple[str, Node]]:
    kinds = ("preproc_def", "enumerator", "declaration", "field_declaration")
    for node in of_type(root, *kinds):
        if node.type == "preproc_def":
            value = parse_expression(text_of(node.child_by_field_name("value")).strip() or ";")
            if value is not None:
                yield text_of(node.child_by_field_name("name")), value
        elif node.type == "enumerator" and node.child_by_field_name("value") is not None:
            value = node.child_by_field_name("value")
            if value is not None:
                yield text_of(node.child_by_field_name("name")), value
        elif node.type != "enumerator" and _is_outside(node):
            is_constant = re.search(r"\bconst(expr)?\b", text_of(node).partition("=")[0])
            yield from initialised(node) if is_constant else ()


def _is_outside(node: Node) -> bool:
    return all(above.type != "compound_statement" for above, _ in ancestors(node))


def _helpers(root: Node, functions: list[Node]) -> Iterator[tuple[str, Helper]]:
    for node in of_type(root, "preproc_function_def"):
        text = " ".join(text_of(node.child_by_field_name("value")).split())
        body = parse_expression(text.replace("\\", " ")) if text else None
        listed = node.child_by_field_name("parameters")
        if body is not None and listed is not None:
            names = tuple(text_of(c) for c in listed.named_children)
            yield text_of(node.child_by_field_name("name")), Helper(names, body)
    for function in functions:
        body = function.child_by_field_name("body")
        inside = [
            c for c in (body.named_children if body is not None else ())
            if c.type not in ("comment", "static_assert_declaration")
        ]  # fmt: skip
        returned = next(iter(inside[-1].named_children), None) if inside else None
        if returned is None or len(inside) > _MAX_HELPER or inside[-1].type != "return_statement":
            continue
        if len(inside) > 1:
            joined = chosen(inside, {})
            returned = parse_expression(joined) if joined else None
        if returned is not None:
            parameters = parameters_of(function)
            names = tuple(p.name for p in parameters)
            defaults = tuple(parse_expression(p.default) if p.default else None for p in parameters)
            template = tuple(name for _, name, _ in template_of(function))
            yield function_name(function), Helper(names, returned, template, defaults)


def _aliases(root: Node) -> dict[str, str]:
    """Names of types; a name that blocks of functions give several meanings has none here."""
    outside: dict[str, str] = {}
    inside: dict[str, set[str]] = {}
    for node in of_type(root, *_ALIASES):
        for name, kind in _aliased(node):
            if _is_outside(node):
                outside[name] = kind
            else:
                inside.setdefault(name, set()).add(kind)
    single = {name: min(kinds) for name, kinds in inside.items() if len(kinds) == 1}
    return {**single, **outside}


@lru_cache(maxsize=64)
def local_aliases(function: Node) -> Mapping[str, str]:
    """Names of types that a function declares."""
    return dict(alias for node in of_type(function, *_ALIASES) for alias in _aliased(node))


def _aliased(node: Node) -> Iterator[tuple[str, str]]:
    kind = text_of(node.child_by_field_name("type"))
    if node.type == "type_definition":
        for name, declarator in declarators(node):
            if declarator.type == "type_identifier":
                yield name, kind
    elif node.type == "alias_declaration":
        yield text_of(node.child_by_field_name("name")), kind
