"""A kernel source as moves see it: its text, its tree, its functions and its launch plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import cached_property, lru_cache

from tree_sitter import Node

from astra_tui.cuda_source.effects import all_names
from astra_tui.cuda_source.functions import Function, Variable, functions_of
from astra_tui.cuda_source.syntax import (
    called_name,
    field,
    is_barrier,
    named,
    of_type,
    parse,
    statements_of,
    text_of,
)
from astra_tui.model.digest import content_hash
from astra_tui.model.launch import Launch, LaunchPlan, find_plan, plan_of, print_plan
from astra_tui.model.launch.expression import Expression, split_pointer
from astra_tui.model.launch.scope import NULL
from astra_tui.playbook.edits import Edit, apply, replace, rewritten

_PLAN_WIDTH = 96
_MEETING = ("__sync", "__shfl", "__ballot", "__any", "__all", "__match", "__reduce", "__activemask")
_TOGETHER = re.compile(rf"\b(?:{'|'.join(_MEETING)})|\b(?:threadIdx|blockIdx|__shared__|asm)\b")
"""What says that the threads of a block meet, share memory, or know their place in it."""
_IN_ASSEMBLY = r"%(?:n?tid|n?ctaid|laneid|warpid)|\b(?:bar|barrier|shfl|vote|match|redux|elect)\."
_IN_LIBRARY = re.compile(_TOGETHER.pattern.replace("|asm", "") + f"|{_IN_ASSEMBLY}")
"""The same for what is included, which may have assembly of another kind."""


@dataclass(frozen=True)
class KernelText:
    """One kernel source, parsed. Raises PlanError where its launch plan cannot be read."""

    text: str
    plan: LaunchPlan
    """Launches name a kernel of the source as its function does, without namespaces."""
    root: Node

    @classmethod
    def read(cls, text: str) -> KernelText:
        """Parses a source and its launch plan."""
        root = parse(text)
        plain = {path: name for name, path in _paths_of(root).items()}
        return cls(text, _launching(plan_of(text), plain), root)

    @cached_property
    def data(self) -> bytes:
        """The text as the tree counts it."""
        return self.text.encode()

    @cached_property
    def hash(self) -> str:
        """Identifies the source."""
        return content_hash(self.text)

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every function that is defined here."""
        return tuple(functions_of(self.root))

    @cached_property
    def kernels(self) -> tuple[Function, ...]:
        """The kernels that the plan launches, in the order in which it names them."""
        order = list(dict.fromkeys(launch.kernel for launch in self.plan.launches()))
        found = {f.name: f for f in self.functions if f.is_kernel}
        return tuple(found[name] for name in order if name in found)

    def names(self) -> set[str]:
        """Every name in use, of the code and of the plan; for finding fresh ones."""
        declared = {d.name for d in self.plan.declarations}
        return all_names(self.root) | declared

    def launches_of(self, kernel: Function) -> Iterator[Launch]:
        """The launches of one kernel."""
        return (launch for launch in self.plan.launches() if launch.kernel == kernel.name)

    def callers(self, function: Function) -> tuple[Function, ...]:
        """The kernels that come to call a function of the source; a kernel itself."""
        names, before = {function.name}, 0
        while len(names) > before:
            before = len(names)
            names |= {f.name for f in self.functions if self._calls[f.node.id] & names}
        return tuple(kernel for kernel in self.kernels if kernel.name in names)

    @cached_property
    def _calls(self) -> dict[int, set[str]]:
        """What each function calls."""
        return {
            f.node.id: {called_name(call) for call in of_type(f.body, "call_expression")}
            for f in self.functions
        }

    def passed(self, kernel: Function, parameter: Variable) -> tuple[Expression, ...]:
        """What the launches pass for a parameter, in the order of the plan."""
        names = [p.name for p in kernel.parameters]
        if parameter.name not in names:
            return ()
        at = names.index(parameter.name)
        values = (launch.value_at(at) for launch in self.launches_of(kernel))
        return tuple(value for value in values if value is not None)

    def buffers(self, kernel: Function, parameter: Variable) -> frozenset[str]:
        """The tensor arguments and workspaces that a pointer parameter stands for."""
        pointers = map(split_pointer, self.passed(kernel, parameter))
        return frozenset(p[0].id for p in pointers if p is not None and p[0].id != NULL)

    def barriers(self, kernel: Function) -> list[Node]:
        """The statements of a kernel's body in which its block meets at `__syncthreads`, also
        within functions of the source.
        """
        meeting = {f.name for f in self.functions if _has_barrier(f.body)}

        def meets(statement: Node) -> bool:
            called = {called_name(c) for c in of_type(statement, "call_expression")}
            return _has_barrier(statement) or bool(called & meeting)

        return list(filter(meets, statements_of(kernel.body)))

    def meeting(self, node: Node, included: Mapping[str, str]) -> Node | None:
        """The first call at or below a node in which threads may meet or know their place, also
        within functions and macros of the source and of what it includes.
        """
        names = self.together | _together_in(tuple(included.values()))
        return next(
            (c for c in of_type(node, "call_expression")
             if called_name(c).startswith(_MEETING) or called_name(c) in names), None
        )  # fmt: skip

    @cached_property
    def together(self) -> frozenset[str]:
        """Functions and macros in which threads meet or know their place, directly or by others."""
        return _naming(_bodies(self.root), _TOGETHER)

    def changed(self, edits: Iterable[Edit], plan: LaunchPlan | None = None) -> str:
        """The source after edits of the code and, if given, with another launch plan."""
        all_edits = list(edits)
        if plan is None or plan == self.plan:
            return apply(self.data, all_edits).decode()
        if _paths_of(self.root):
            plan = _launching(plan, _paths_of(parse(apply(self.data, all_edits).decode())))
        return apply(self.data, [*all_edits, self._plan_edit(plan)]).decode()

    def _plan_edit(self, plan: LaunchPlan) -> Edit:
        found = find_plan(self.text)
        begin = len(self.text[: found.begin].encode())
        end = len(self.text[: found.end].encode())
        lines = "".join(f"   {_wrapped(line)}\n" for line in print_plan(plan).splitlines())
        return Edit(begin, end, f"/* @launch\n{lines}*/")


@lru_cache(maxsize=16)
def _together_in(texts: tuple[str, ...]) -> frozenset[str]:
    """The functions and macros of included texts in which threads meet or know their place."""
    bodies: dict[str, str] = {}
    for text in texts:
        for name, body in _bodies(parse(text)).items():
            bodies[name] = f"{bodies.get(name, '')}\n{body}"
    return _naming(bodies, _IN_LIBRARY)


def _bodies(root: Node) -> dict[str, str]:
    """What functions, but for kernels, and macros stand for, by name."""
    found: dict[str, str] = {}
    for function in functions_of(root):
        if not function.is_kernel:
            found[function.name] = f"{found.get(function.name, '')}\n{text_of(function.body)}"
    for macro in of_type(root, "preproc_function_def", "preproc_def"):
        name = text_of(field(macro, "name"))
        found[name] = f"{found.get(name, '')}\n{text_of(macro.child_by_field_name('value'))}"
    return found


def _naming(bodies: Mapping[str, str], what: re.Pattern[str]) -> frozenset[str]:
    """The names whose bodies say it, directly or by others."""
    found = {name for name, body in bodies.items() if what.search(body)}
    while True:
        called = {
            name for name, body in bodies.items()
            if name not in found and found & set(re.findall(r"\w+", body))
        }  # fmt: skip
        if not called:
            return frozenset(found)
        found |= called


def _has_barrier(node: Node) -> bool:
    return any(is_barrier(s) for s in of_type(node, "expression_statement"))


def _paths_of(root: Node) -> dict[str, str]:
    """Kernels that stand in namespaces: paths by name, of names that stand for one kernel."""
    found: dict[str, set[str]] = {}
    for function in functions_of(root):
        if function.is_kernel:
            found.setdefault(function.name, set()).add(function.path)
    single = {name: next(iter(paths)) for name, paths in found.items() if len(paths) == 1}
    return {name: path for name, path in single.items() if name != path}


def _launching(plan: LaunchPlan, names: Mapping[str, str]) -> LaunchPlan:
    """The plan whose launches have other names of kernels."""
    if not names:
        return plan
    return plan.with_launches(lambda one: replaced(one, kernel=names.get(one.kernel, one.kernel)))


def _wrapped(line: str) -> str:
    """A line of a plan, continued deeper in the next where it is longer than sources are."""
    indent = " " * (len(line) - len(line.lstrip()) + 8)
    if line.lstrip().startswith("let "):
        return line  # A declaration ends with its line.
    mark = " args=" if " args=(" in line else " and "
    lines = [line]
    while len(lines[-1]) > _PLAN_WIDTH:
        cut = lines[-1].rfind(mark, len(indent), _PLAN_WIDTH)
        cut = lines[-1].find(mark, len(indent)) if cut < 0 else cut
        if cut < 0:
            break
        last = lines.pop()
        lines += [last[:cut], indent + last[cut + 1 :]]
    return "\n".join(lines)


def specialised(
    source: KernelText, kernel: Function, name: str, parameter: str, edits: Iterable[Edit]
) -> str:
    """A kernel again: under another name, with one more template parameter, and edited."""
    declarator = next(of_type(field(kernel.node, "declarator"), "function_declarator"))
    all_edits = [*edits, replace(field(declarator, "declarator"), name)]
    if kernel.outer == kernel.node:
        return f"template <int {parameter}>\n{rewritten(source.data, kernel.outer, all_edits)}"
    listed = field(kernel.outer, "parameters")
    all_edits.append(replace(listed, f"{text_of(listed)[:-1].rstrip()}, int {parameter}>"))
    return rewritten(source.data, kernel.outer, all_edits)


def with_parameters(kernel: Function, name: str, parameters: Iterable[str]) -> list[Edit]:
    """The edits that give a kernel another name and further parameters."""
    declarator = next(of_type(field(kernel.node, "declarator"), "function_declarator"))
    last = named(next(of_type(declarator, "parameter_list")))[-1]
    more = "".join(f", {parameter}" for parameter in parameters)
    renamed = replace(field(declarator, "declarator"), name)
    return [renamed, Edit(last.end_byte, last.end_byte, more)]
