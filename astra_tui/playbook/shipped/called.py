"""Functions that a kernel hands its memory to, written out where it calls them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name, is_pure
from astra_tui.cuda_source.functions import TYPE, Function, Variable, functions_of, variables_of
from astra_tui.cuda_source.syntax import (
    arguments_of,
    called_name,
    field,
    named,
    of_type,
    parse,
    statements_of,
    text_of,
)
from astra_tui.playbook.accesses import is_conditional, unknown_accesses
from astra_tui.playbook.edits import Edit, dedented, indentation, indented, rewritten
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.kernel_text import KernelText

_LEFT_ALONE = (
    *("return_statement", "goto_statement", "preproc_call", "lambda_expression"),
    "storage_class_specifier",
)
_SHARED = re.compile(r"\b__shared__\b")


@dataclass(frozen=True)
class _Call:
    """A call as the only one of its kind in a declaration, and the function that it means."""

    node: Node
    statement: Node
    function: Function


def with_calls_written_out(source: KernelText, texts: Mapping[str, str]) -> str:
    """The source with the statements of such functions before the calls, and their values there."""
    taken = source.names()
    edits = [
        edit for kernel in source.kernels for call in _calls(kernel, texts)
        for edit in _edits(source, kernel, call, taken)
    ]  # fmt: skip
    return source.changed(edits)


def _calls(kernel: Function, texts: Mapping[str, str]) -> Iterator[_Call]:
    seen: set[Node] = set()
    for node in unknown_accesses(kernel.body, kernel):
        if node.type != "call_expression" or not re.fullmatch(r"\w+", called_name(node)):
            continue
        statement = _declaration_of(node)
        function = _definition(called_name(node), texts)
        if function is None or statement is None or statement in seen:
            continue
        if _suits(node, function, kernel):
            seen.add(statement)
            yield _Call(node, statement, function)


def _declaration_of(call: Node) -> Node | None:
    """The declaration of one local that always evaluates a call, in a block; None without one."""
    statement = call.parent
    while statement is not None and statement.type not in ("declaration", "compound_statement"):
        statement = statement.parent
    if statement is None or statement.type != "declaration" or is_conditional(call, statement):
        return None
    in_block = statement.parent is not None and statement.parent.type == "compound_statement"
    return statement if in_block and len(list(variables_of(statement))) == 1 else None


def _definition(name: str, texts: Mapping[str, str]) -> Function | None:
    """The only function of a name that any of the texts defines."""
    found = [
        function for text in texts.values() if re.search(rf"\b{name}\s*\(", text)
        for function in functions_of(parse(text)) if function.name == name
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None


def _suits(call: Node, function: Function, kernel: Function) -> bool:
    """Whether the body of a function may stand where it is called: it ends with what it returns,
    changes none of its parameters, keeps nothing, and its names mean the same to the kernel.
    """
    spaces = function.path.rpartition("::")[0]
    if not f"{kernel.path}::".startswith(f"{spaces}::" if spaces else ""):
        return False
    *before, last = statements_of(function.body)
    if last.type != "return_statement" or not named(last) or function.node.has_error:
        return False
    if _SHARED.search(text_of(function.body)):
        return False
    if any(next(of_type(statement, *_LEFT_ALONE), None) is not None for statement in before):
        return False
    arguments = arguments_of(call)
    if len(arguments) != len(function.parameters) or not all(map(is_pure, arguments)):
        return False
    if any(p.is_reference or not function.is_constant(p) for p in function.parameters):
        return False
    return _types(call, function, kernel) is not None


def _types(call: Node, function: Function, kernel: Function) -> dict[str, str] | None:
    """What a function's template parameters stand for in a call; None where it is not known, or
    where a pointer becomes another.
    """
    found: dict[str, str] = {}
    templates = {p.name for p in function.template if p.kind == TYPE}
    for parameter, argument in zip(function.parameters, arguments_of(call), strict=True):
        variable = _variable(argument, kernel)
        if variable is None or variable.pointers != parameter.pointers or variable.is_array:
            if parameter.pointers:
                return None
        elif parameter.type in templates and variable.type != "auto":
            if found.setdefault(parameter.type, variable.type) != variable.type:
                return None
        elif parameter.pointers and parameter.type != variable.type:
            return None
    return found if len(found) == len(function.template) else None


def _variable(argument: Node, kernel: Function) -> Variable | None:
    is_name = argument.type == "identifier"
    return kernel.lookup(text_of(argument), argument) if is_name else None


def _edits(source: KernelText, kernel: Function, call: _Call, taken: set[str]) -> Iterator[Edit]:
    function = call.function
    words = dict(_types(call.node, function, kernel) or {})
    prelude = []
    for parameter, argument in zip(function.parameters, arguments_of(call.node), strict=True):
        variable = _variable(argument, kernel)
        kind = words.get(parameter.type, parameter.type)
        if variable is not None and (variable.type == kind or parameter.pointers):
            words[parameter.name] = variable.name
            continue
        words[parameter.name] = fresh_name(parameter.name, taken)
        prelude.append(f"const {kind} {words[parameter.name]} = {text_of(argument)};")
    words |= {v.name: fresh_name(v.name, taken) for v in function.locals}
    data = _data_of(function)
    *before, last = statements_of(function.body)
    lines = [*prelude, *(dedented(data, s, _with_words(data, s, words)) for s in before)]
    indent = indentation(source.data, call.statement)
    text = "".join(indented(line, indent).lstrip() + f"\n{indent}" for line in lines)
    yield Edit(call.statement.start_byte, call.statement.start_byte, text)
    yield put(call.node, _returned(data, function, named(last)[0], words))


def _returned(data: bytes, function: Function, value: Node, words: Mapping[str, str]) -> str:
    """What a function returns, of its type."""
    type_ = text_of(field(function.node, "type"))
    variable = function.lookup(text_of(value), value) if value.type == "identifier" else None
    text = _with_words(data, value, words)
    if variable is not None and variable.type == type_ and variable.is_scalar:
        return text
    return f"static_cast<{words.get(type_, type_)}>({text})"


def _data_of(function: Function) -> bytes:
    root = function.node
    while root.parent is not None:
        root = root.parent
    return root.text or b""


def _with_words(data: bytes, node: Node, words: Mapping[str, str]) -> str:
    kinds = ("identifier", "type_identifier")
    return rewritten(
        data,
        node,
        [put(n, words[text_of(n)]) for n in of_type(node, *kinds) if text_of(n) in words],
    )
