"""One source of several: each serves the sizes for which its condition holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.syntax import field, named, of_type, text_of
from astra_tui.model.errors import UserError
from astra_tui.model.launch import Branch, Dispatch, Launch, LaunchPlan, Let, Tune
from astra_tui.model.launch.expression import (
    Compare,
    Expression,
    Name,
    Unary,
    map_expressions,
)
from astra_tui.model.launch.plan import (
    Declaration,
    KernelArgument,
    Member,
    Struct,
    TemplateArgument,
    Verbatim,
)
from astra_tui.model.task import KernelTask
from astra_tui.playbook.edits import Edit, rewritten
from astra_tui.playbook.edits import replace as replaced
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import all_of, launched_kernels


class CannotJoin(UserError):
    """Why sources cannot be one."""


@dataclass(frozen=True)
class Part:
    """A source, the sizes for which it is to be taken, and a note for the plan."""

    condition: Expression
    source: str
    note: str = ""


def joined(task: KernelTask, default: str, parts: Sequence[Part]) -> str:
    """The default with a branch before its own for each part, in their order.

    Kernels that differ are kept under names of their own, constants and lets of a part too. Raises
    CannotJoin where a plan has more than one step, or where helpers of the same name differ.
    """
    text = KernelText.read(default)
    branches: list[int] = []
    for part in reversed(parts):  # The last comes to stand last.
        before = len(_branches(text.plan))
        text = KernelText.read(_joined(task, text, part))
        branches.insert(0, len(_branches(text.plan)) - before)
    first = [sum(branches[:number]) for number in range(len(parts))]
    return _noted(text.text, {at: part.note for at, part in zip(first, parts, strict=True)})


def _joined(task: KernelTask, text: KernelText, part: Part) -> str:
    other = KernelText.read(part.source)
    launched = launched_kernels(task, other.plan)
    added = _new_helpers(text, other)
    kernels = {k.name: k for k in text.kernels}
    renamed: dict[str, str] = {}
    for kernel in (k for k in other.kernels if k.name in launched):
        if kernel.name in kernels and _same(kernels[kernel.name], kernel):
            continue
        name = kernel.name
        if kernel.name in {f.name for f in text.functions}:
            name = fresh_name(kernel.name, text.names() | other.names() | set(renamed.values()))
        renamed[kernel.name] = name
        path = kernel.path.rpartition("::")[0]
        added.append(_in_namespaces(path, _under_name(other, kernel, name)))
    plan = _merged(text, other.plan, part.condition, launched, renamed)
    end = len(text.data)
    edits = [Edit(end, end, "".join(f"\n{code}\n" for code in added))] if added else []
    return text.changed(edits, plan)


def _new_helpers(text: KernelText, other: KernelText) -> list[str]:
    """The functions of a part that the source has nothing of, with their comments.

    Raises CannotJoin unless all else that is no kernel is the same in both.
    """
    own = {(path, _words(node)) for path, node in _helpers(text)}
    functions = {f.outer.id: f.name for f in other.functions}
    found = []
    for path, node in _helpers(other):
        if (path, _words(node)) in own:
            continue
        name = functions.get(node.id)
        if name is None or name in text.names():
            raise CannotJoin(
                f"what is no kernel differs: {_words(node)[:60]}",
                hint="give the helpers of one source other names",
            )
        comment = node.prev_named_sibling
        above = comment is not None and comment.type == "comment"
        found.append(_in_namespaces(path, f"{text_of(comment)}\n" * above + text_of(node)))
    return found


def _helpers(text: KernelText) -> Iterator[tuple[str, Node]]:
    kernels = {k.outer.id for k in text.functions if k.is_kernel}
    return (
        (path, node) for path, node in _declared(text.root)
        if node.id not in kernels and node.type not in ("comment", "preproc_include", ";")
    )  # fmt: skip


def _declared(scope: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """What stands in a scope and in the namespaces there, each with their names, as in "a::b"."""
    for node in named(scope):
        name = node.child_by_field_name("name")
        if node.type == "namespace_definition" and name is not None:
            below = f"{path}::{text_of(name)}" if path else text_of(name)
            yield from _declared(field(node, "body"), below)
        else:
            yield path, node


def _in_namespaces(path: str, code: str) -> str:
    return f"namespace {path} {{\n{code}\n}}  // namespace {path}" if path else code


def _words(node: Node) -> str:
    return " ".join(text_of(node).split())


def _same(a: Function, b: Function) -> bool:
    return text_of(a.outer).split() == text_of(b.outer).split()


def _under_name(text: KernelText, kernel: Function, name: str) -> str:
    declarator = next(of_type(field(kernel.node, "declarator"), "function_declarator"))
    edits = [replaced(field(declarator, "declarator"), name)] if name != kernel.name else []
    return rewritten(text.data, kernel.outer, edits)


# -- the plan --------------------------------------------------------------------------------------


def _merged(
    text: KernelText,
    other: LaunchPlan,
    condition: Expression,
    launched: frozenset[str],
    kernels: Mapping[str, str],
) -> LaunchPlan:
    plan = text.plan
    own, theirs = _branches(plan), _branches(other)
    names: dict[str, str] = {}
    declared = list(plan.declarations)
    taken = text.names() | {d.name for d in other.declarations} | {d.name for d in declared}
    for declaration in other.declarations:
        mine = _renamed_declaration(declaration, names)
        if mine in declared:
            continue
        if any(d.name == mine.name for d in declared):
            fresh = fresh_name(declaration.name, taken)
            taken = taken | {fresh}
            names[declaration.name] = fresh
            mine = replace(mine, name=fresh)
        declared.append(mine)
    added: list[Branch] = []
    before: list[Expression] = []
    for branch in theirs:
        launches = [item for item in branch.body if isinstance(item, Launch)]
        if launches and {launch.kernel for launch in launches} & launched:
            needed = [condition, *before, *_listed(branch.condition)]
            body = tuple(_renamed_launch(launch, names, kernels) for launch in launches)
            added.append(Branch(all_of([_renamed(e, names) for e in needed]), body))
        before += [_negated(e) for e in _listed(branch.condition)]
    return replace(plan, declarations=tuple(declared), steps=(Dispatch((*added, *own)),))


def _listed(condition: Expression | None) -> list[Expression]:
    return [] if condition is None else [condition]


def _branches(plan: LaunchPlan) -> tuple[Branch, ...]:
    """The branches of a plan of one step. Raises CannotJoin."""
    match plan.steps:
        case (Dispatch(branches=branches),):
            return branches
        case (Launch() as launch,):
            return (Branch(None, (launch,)),)
    raise CannotJoin(
        "a plan of several steps has no place for a branch",
        hint="write the when in each step by hand",
    )


def _negated(expression: Expression) -> Expression:
    match expression:
        case Compare(first=first, links=((("!=" | "=="), right),)) if len(expression.links) == 1:
            operator = "==" if expression.links[0][0] == "!=" else "!="
            return Compare(first, ((operator, right),))
    return Unary("not", expression)


def _renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    def change(part: Expression) -> Expression:
        return Name(names.get(part.id, part.id)) if isinstance(part, Name) else part

    return map_expressions(expression, change)


def _renamed_declaration(declaration: Declaration, names: Mapping[str, str]) -> Declaration:
    match declaration:
        case Let(value=value):
            return replace(declaration, value=_renamed(value, names))
        case Tune():
            return declaration
        case _:
            shape = tuple(_renamed(e, names) for e in declaration.shape)
            return replace(declaration, shape=shape)


def _renamed_launch(launch: Launch, names: Mapping[str, str], kernels: Mapping[str, str]) -> Launch:
    def sizes(expressions: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return tuple(_renamed(e, names) for e in expressions)

    def one(expression: Expression | None) -> Expression | None:
        return None if expression is None else _renamed(expression, names)

    return replace(
        launch,
        kernel=kernels.get(launch.kernel, launch.kernel),
        template_args=tuple(_renamed_template(a, names) for a in launch.template_args),
        grid=sizes(launch.grid),
        block=sizes(launch.block),
        cluster=sizes(launch.cluster),
        args=tuple(_renamed_argument(a, names) for a in launch.args),
        shared_bytes=one(launch.shared_bytes),
        pdl=one(launch.pdl),
    )


def _renamed_template(argument: TemplateArgument, names: Mapping[str, str]) -> TemplateArgument:
    if not isinstance(argument, Verbatim):
        return _renamed(argument, names)
    if names:
        raise CannotJoin(f'template argument "{argument.text}" is text: its names stay as they are')
    return argument


def _renamed_argument(argument: KernelArgument, names: Mapping[str, str]) -> KernelArgument:
    def member(part: Member | Struct | Expression) -> Member | Struct | Expression:
        match part:
            case Struct(members=members):
                return replace(part, members=tuple(map(member, members)))
            case Member(value=value):
                return replace(part, value=_renamed(value, names))
            case _:
                return _renamed(part, names)

    made = member(argument)
    assert not isinstance(made, Member)
    return made


def _noted(source: str, notes: Mapping[int, str]) -> str:
    """With comments above branches of the plan, by their numbers."""
    lines: list[str] = []
    number = 0
    for line in source.split("\n"):
        if line.strip().startswith("when "):
            indent = line[: len(line) - len(line.lstrip())]
            lines += [f"{indent}# {notes[number]}"] if notes.get(number) else []
            number += 1
        lines.append(line)
    return "\n".join(lines)
