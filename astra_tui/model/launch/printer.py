"""Writes a launch plan in its canonical form; parsing it again gives an equal plan."""

from __future__ import annotations

from collections.abc import Iterator

from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Compare,
    Conditional,
    Expression,
    Integer,
    Name,
    Real,
    Unary,
)
from astra_tui.model.launch.plan import (
    Branch,
    Declaration,
    Dispatch,
    KernelArgument,
    Launch,
    LaunchPlan,
    Let,
    Member,
    Refuse,
    Struct,
    TemplateArgument,
    Tune,
    Verbatim,
    Workspace,
)

_INDENT = "    "

# How tightly an operator binds; an operand that binds less tightly stands in parentheses.
_CONDITIONAL, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _NEGATE, _ATOM = range(9)
_BINARY = {
    "or": _OR,
    "and": _AND,
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "//": _PRODUCT,
    "%": _PRODUCT,
}


def print_plan(plan: LaunchPlan) -> str:
    """The plan's canonical text, without the comment marks, ending in a line break."""
    return "\n".join(_lines(plan)) + "\n"


def print_expression(expression: Expression) -> str:
    """The expression's canonical text."""
    return _print(expression, _CONDITIONAL)


def print_argument(argument: KernelArgument) -> str:
    """A kernel argument's canonical text."""
    return _member(argument)


def _lines(plan: LaunchPlan) -> Iterator[str]:
    yield from map(_declaration, plan.declarations)
    for step in plan.steps:
        match step:
            case Dispatch(branches=branches):
                for branch in branches:
                    yield from _branch(branch)
            case _:
                yield _item(step)


def _declaration(declaration: Declaration) -> str:
    match declaration:
        case Workspace(name=name, dtype=dtype, shape=shape):
            return f"workspace {name}: {dtype}[{', '.join(map(print_expression, shape))}]"
        case Tune(name=name, value=value, choices=choices):
            return f"tune {name} = {value} in {', '.join(map(str, choices))}"
        case Let(name=name, value=expression):
            return f"let {name} = {print_expression(expression)}"


def _branch(branch: Branch) -> Iterator[str]:
    condition = branch.condition
    yield "otherwise:" if condition is None else f"when {print_expression(condition)}:"
    for item in branch.body:
        yield _INDENT + _item(item)


def _item(item: Launch | Refuse) -> str:
    if isinstance(item, Refuse):
        return f'refuse "{item.reason}"'
    text = item.kernel
    if item.template_args:
        text += f"<{', '.join(map(_template_argument, item.template_args))}>"
    text += f" grid={_sizes(item.grid)} block={_sizes(item.block)}"
    if item.cluster:
        text += f" cluster={_sizes(item.cluster)}"
    if item.shared_bytes is not None:
        text += f" shared={_sizes((item.shared_bytes,))}"
    text += f" args=({', '.join(map(print_argument, item.args))})"
    return text if item.pdl is None else f"{text} pdl={_sizes((item.pdl,))}"


def _member(member: Member | KernelArgument) -> str:
    match member:
        case Member(dtype=dtype, value=value):
            return f"{dtype} {print_expression(value)}"
        case Struct(members=members, alignment=alignment):
            prefix = f"alignas({alignment}) " if alignment > 1 else ""
            return f"{prefix}{{{', '.join(map(_member, members))}}}"
        case _:
            return print_expression(member)


def _template_argument(argument: TemplateArgument) -> str:
    if isinstance(argument, Verbatim):
        return f'"{argument.text}"'
    text = print_expression(argument)
    simple = isinstance(argument, Integer | Name | Call) or not set("<>=") & set(text)
    return text if simple else f"({text})"


def _sizes(sizes: tuple[Expression, ...]) -> str:
    text = ", ".join(map(print_expression, sizes))
    return text if len(sizes) == 1 and isinstance(sizes[0], Integer | Name | Call) else f"({text})"


def _print(expression: Expression, context: int) -> str:
    text, own = _text(expression)
    return f"({text})" if own < context else text


def _text(expression: Expression) -> tuple[str, int]:
    match expression:
        case Integer(value=value):
            return str(value), _ATOM
        case Real(value=value):
            return repr(value), _ATOM
        case Name(id=name):
            return name, _ATOM
        case Call(function=function, args=args):
            return f"{function}({', '.join(map(print_expression, args))})", _ATOM
        case Unary(operator="not", operand=operand):
            return f"not {_print(operand, _NOT)}", _NOT
        case Unary(operand=operand):
            return f"-{_print(operand, _NEGATE)}", _NEGATE
        case Binary(operator=operator, left=left, right=right):
            own = _BINARY[operator]
            return f"{_print(left, own)} {operator} {_print(right, own + 1)}", own
        case Compare(first=first, links=links):
            tail = " ".join(f"{operator} {_print(right, _SUM)}" for operator, right in links)
            return f"{_print(first, _SUM)} {tail}", _COMPARE
        case Conditional(condition=condition, when_true=a, when_false=b):
            text = f"{_print(a, _OR)} if {_print(condition, _OR)} else {_print(b, _CONDITIONAL)}"
            return text, _CONDITIONAL
