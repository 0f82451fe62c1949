"""Mutants of kernel sources by rule: one small change each, as a slip of a programmer makes it.

Device code is changed over its syntax tree, the launch plan over its text. What a rule gives
depends on the source alone; `draw` chooses by a seed, a rule at a time, so that rare rules count
as much as constants, of which sources are full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tree_sitter import Node

from astra_tui.cuda_source.syntax import parse, text_of
from astra_tui.model.digest import content_hash
from astra_tui.model.launch import find_plan


@dataclass(frozen=True)
class Mutant:
    """A changed source, and what was changed where: `name` begins with its rule."""

    name: str
    rule: str
    line: int
    column: int
    text: str


@dataclass(frozen=True)
class Drawn:
    """A mutant with the source that it was made of."""

    source: str
    task: str
    mutant: Mutant

    @property
    def id(self) -> str:
        """A name that stays the same while the source and the rules do."""
        return f"{self.source}:{self.mutant.line}:{self.mutant.column} {self.mutant.name}"


@dataclass(frozen=True)
class _Edit:
    rule: str
    begin: int
    end: int
    replacement: str
    shows_replacement: bool = True


BOUNDS = frozenset(
    {
        "barrier removed",
        "guard always true",
        "guarded statement removed",
        "choice always taken",
        "choice never taken",
        "loop one too far",
        "loop one short",
        "plan condition always true",
        "plan term dropped",
        "plan rounds down",
    }
)
"""Rules that take one barrier, guard or bounds term away."""

_COMPARISONS = {
    "<": ("<=", "!="),
    "<=": ("<", "=="),
    ">": (">=", "!="),
    ">=": (">", "=="),
    "==": ("!=", "<="),
    "!=": ("==",),
}
_ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|"}
_NOT_COMMUTATIVE = {"-", "/", "%", "<<", ">>"}
_FUNCTIONS = {"fmaxf": "fminf", "fminf": "fmaxf", "min": "max", "max": "min"}
_BARRIERS = re.compile(
    r"(?:__syncthreads|__syncwarp|__threadfence|cudaGridDependencySynchronize)\s*\("
)


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a kernel source, none twice."""
    seen = {source}
    for edit in (*_code_edits(source), *_plan_edits(source)):
        text = source[: edit.begin] + edit.replacement + source[edit.end :]
        if text in seen:
            continue
        seen.add(text)
        shown = " ".join(source[edit.begin : edit.end].split())
        to = " ".join(edit.replacement.split())
        name = f"{edit.rule}: {shown}" + (f" -> {to}" if edit.shows_replacement else "")
        line = source.count("\n", 0, edit.begin) + 1
        column = edit.begin - source.rfind("\n", 0, edit.begin)
        yield Mutant(name, edit.rule, line, column, text)


def draw(
    sources: Iterable[tuple[str, str, str]],
    seed: int,
    count: int,
    former_names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Drawn, ...]:
    """Mutants of (name, task, text) sources; rules take turns.

    The order within a rule is that of a hash of seed and mutant, so that a source that changes
    later changes the choice among its own mutants alone. A source that was renamed is drawn by
    its former name: it has the mutants that it had.
    """
    by_rule: dict[str, list[Drawn]] = {}
    for name, task, text in sources:
        for mutant in mutants(text):
            by_rule.setdefault(mutant.rule, []).append(Drawn(name, task, mutant))

    def order(drawn: Drawn) -> str:
        source = former_names.get(drawn.source, drawn.source)
        return content_hash(f"{seed} {replace(drawn, source=source).id}")

    queues = [sorted(by_rule[rule], key=order) for rule in sorted(by_rule)]
    drawn: list[Drawn] = []
    while queues and len(drawn) < count:
        for queue in queues[: count - len(drawn)]:
            drawn.append(queue.pop())
        queues = [queue for queue in queues if queue]
    return tuple(drawn)


# -- device code -----------------------------------------------------------------------------------


def _code_edits(source: str) -> Iterator[_Edit]:
    if not source.isascii():  # Places of the tree are bytes.
        raise ValueError("a source with characters beyond ASCII")
    for node in _code(parse(source), False):
        for edits in _RULES.get(node.type, ()):
            yield from edits(node)


def _code(node: Node, in_function: bool) -> Iterator[Node]:
    """What lies in functions, in order, without directives."""
    if node.type.startswith("preproc"):
        return
    if in_function:
        yield node
    in_function = in_function or node.type == "function_definition"
    for child in node.children:
        yield from _code(child, in_function)


def _replaced(rule: str, node: Node, replacement: str, *, shows: bool = True) -> _Edit:
    return _Edit(rule, node.start_byte, node.end_byte, replacement, shows)


def _constants(node: Node) -> Iterator[_Edit]:
    text = text_of(node)
    whole = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", text)
    real = re.fullmatch(r"(\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)([fF]?)", text)
    if whole:
        value = int(whole[1], 0)
        for new in (value + 1, value - 1, 2 * value, 0):
            if new >= 0:
                yield _replaced("constant changed", node, f"{new}{whole[2]}")
    elif real:
        number = float(real[1])
        for other in (number + 1.0, 2.0 * number, 0.0):
            yield _replaced("constant changed", node, f"{other!r}{real[2]}")


def _binary(node: Node) -> Iterator[_Edit]:
    left, operator, right = (node.child_by_field_name(n) for n in ("left", "operator", "right"))
    if left is None or operator is None or right is None:
        return
    sign, a, b = text_of(operator), text_of(left), text_of(right)
    for other in _COMPARISONS.get(sign, ()):
        yield _replaced("comparison changed", operator, f" {other} ")
    if sign in ("&&", "||"):
        yield _replaced("and and or changed", operator, "||" if sign == "&&" else "&&")
    if sign in _ARITHMETIC:
        yield _replaced("operator changed", operator, _ARITHMETIC[sign])
    if sign in _NOT_COMMUTATIVE:
        yield _replaced("operands swapped", node, f"({b}) {sign} ({a})")
    if sign in ("+", "&&", "||"):
        yield _replaced("term removed", node, a)
        yield _replaced("term removed", node, b)


def _if(node: Node) -> Iterator[_Edit]:
    condition = node.child_by_field_name("condition")
    body = node.child_by_field_name("consequence")
    if condition is None or body is None:
        return
    yield _replaced("guard always true", condition, "(true)", shows=False)
    yield _replaced("guard always false", condition, "(false)", shows=False)
    if body.type != "compound_statement" and node.child_by_field_name("alternative") is None:
        yield _replaced("guarded statement removed", node, ";", shows=False)


def _conditional(node: Node) -> Iterator[_Edit]:
    parts = [node.child_by_field_name(n) for n in ("condition", "consequence", "alternative")]
    if any(p is None for p in parts):
        return
    condition, yes, no = map(text_of, parts)
    yield _replaced("choice always taken", node, yes, shows=False)
    yield _replaced("choice never taken", node, no, shows=False)
    yield _replaced("operands swapped", node, f"{condition} ? {no} : {yes}")


def _for(node: Node) -> Iterator[_Edit]:
    condition, update = node.child_by_field_name("condition"), node.child_by_field_name("update")
    text = text_of(condition)
    if condition is not None and re.match(r"\w+ < ", text):
        yield _replaced("loop one too far", condition, text.replace("<", "<=", 1), shows=False)
    if condition is not None and re.fullmatch(r"\w+ > 0", text):
        yield _replaced("loop one short", condition, text.replace("> 0", "> 1"), shows=False)
    if update is not None and re.match(r"\w+ \+= ", text_of(update)):
        yield _replaced("step doubled", update, text_of(update).replace("+= ", "+= 2 * ", 1))


def _statement(node: Node) -> Iterator[_Edit]:
    text = text_of(node)
    if _BARRIERS.match(text):
        yield _replaced("barrier removed", node, ";", shows=False)
        return
    inner = node.named_children[0] if node.named_child_count else None
    if inner is not None and inner.type == "assignment_expression":
        target = inner.child_by_field_name("left")
        if target is not None and target.type in ("subscript_expression", "pointer_expression"):
            yield _replaced("store skipped", node, ";", shows=False)
    elif inner is not None and text.startswith(("atomic", "__st")):
        yield _replaced("store skipped", node, ";", shows=False)


def _subscript(node: Node) -> Iterator[_Edit]:
    indices = node.child_by_field_name("indices")
    index = indices.named_children[0] if indices is not None and indices.named_children else None
    if index is not None:
        yield _replaced("index moved", index, f"{text_of(index)} + 1")
        yield _replaced("index moved", index, f"{text_of(index)} - 1")


def _call(node: Node) -> Iterator[_Edit]:
    function = node.child_by_field_name("function")
    if function is not None and text_of(function) in _FUNCTIONS:
        yield _replaced("function swapped", function, _FUNCTIONS[text_of(function)])


def _declaration(node: Node) -> Iterator[_Edit]:
    """Types of accumulators: what begins with a constant, and is not constant itself."""
    kind, text = node.child_by_field_name("type"), text_of(node)
    if kind is None or not re.match(r"(float|double)\s+\w+ = -?(?:[\d.]+f?|INFINITY)\b", text):
        return
    yield _replaced("accumulator's type changed", kind, "int")
    yield _replaced("accumulator's type changed", kind, "__half")


_RULES = {
    "number_literal": (_constants,),
    "binary_expression": (_binary,),
    "if_statement": (_if,),
    "conditional_expression": (_conditional,),
    "for_statement": (_for,),
    "expression_statement": (_statement,),
    "subscript_expression": (_subscript,),
    "call_expression": (_call,),
    "declaration": (_declaration,),
}


# -- the launch plan -------------------------------------------------------------------------------


def _plan_edits(source: str) -> Iterator[_Edit]:
    found = find_plan(source)
    begin, plan = found.begin, source[found.begin : found.end]
    for match in re.finditer(r"\bwhen (?P<condition>[^:]+):", plan):
        first, last = begin + match.start("condition"), begin + match.end("condition")
        terms = re.split(r"\s+and\s+", match["condition"])
        if len(terms) == 1:
            yield _Edit("plan condition always true", first, last, "0 == 0", False)
        for term in terms if len(terms) > 1 else ():
            kept = " and ".join(t for t in terms if t is not term)
            yield _Edit("plan term dropped", first, last, kept)
    for match in re.finditer(r"ceil_div\(", plan):
        end = _closing(plan, match.end())
        inner = plan[match.end() : end - 1]
        cut = _top_level_comma(inner)
        replacement = f"(({inner[:cut]}) // ({inner[cut + 1 :]}))"
        yield _Edit("plan rounds down", begin + match.start(), begin + end, replacement, False)
    for field, changes in _FIELDS.items():
        for match in re.finditer(rf"\b{field}=", plan):
            end = _first_size(plan, match.end())
            first = begin + match.end() + (plan[match.end()] == "(")
            size = plan[first - begin : end]
            if size.startswith("min("):  # A capped grid goes over its work in a loop: any will do.
                continue
            for rule, change in changes:
                yield _Edit(rule, first, begin + end, change.format(size))


_FIELDS = {
    "grid": (
        ("plan grid changed", "({}) + 1"),
        ("plan grid changed", "max(({}) - 1, 0)"),
        ("plan grid capped", "min({}, 200)"),
        ("plan grid capped", "min({}, 3)"),
    ),
    "shared": (("plan shared memory halved", "({}) // 2"),),
}


def _first_size(plan: str, begin: int) -> int:
    """Where the first size of `grid=` or `shared=` ends."""
    if plan[begin] != "(":
        after = re.compile(r"\s+\w+=(?!=)|\s*\Z").search(plan, begin)
        return after.start() if after else len(plan)
    end = _closing(plan, begin + 1) - 1
    inside = plan[begin + 1 : end]
    return begin + 1 + (_top_level_comma(inside) if "," in inside else len(inside))


def _closing(text: str, position: int) -> int:
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        position += 1
    return position


def _top_level_comma(text: str) -> int:
    depth = 0
    for position, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            return position
    return len(text)
