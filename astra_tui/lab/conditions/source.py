"""The conditions that a source writes, and the source with each of them made to report its sides.

Conditions are what decides: `if`, `?:`, loops, `switch`, the operands of `&&`, `||` and `!`,
comparisons whose result is used as a value, and those of inline assembly (`setp`, `set`). What
the compiler adds (a 64-bit division's short cut, special cases of logf) is none of them, which is
why they are found in the source and not in PTX. What is decided while compiling (template
arguments, static_assert, `if constexpr`) is no condition of a running kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tree_sitter import Node

from astra_tui.cuda_source.syntax import ancestors, declared_name, parse_comparisons, text_of
from astra_tui.model.digest import content_hash

_HEADER = Path(__file__).with_name("note.h")
"""What a condition reports itself by; NAME stands for a name that the source does not have."""

_COMPARISONS = {"<", ">", "<=", ">=", "==", "!=", "not_eq"}
_JOINS = {"&&", "||", "and", "or"}
_NEGATIONS = {"!", "not"}
_LITERALS = {"true", "false", "number_literal", "null", "char_literal"}

_DECIDED_EARLY = {
    "template_argument_list",
    "template_parameter_list",
    "static_assert_declaration",
    "sizeof_expression",
    "alignof_expression",
    "decltype",
    "alignas_qualifier",
    "noexcept",
    "requires_clause",
    "enumerator",
    "bitfield_clause",
    "launch_bounds",
    "type_descriptor",
    "preproc_include",
    "preproc_call",
}
"""Parts of a source that the compiler evaluates: nothing there runs in a kernel."""

_UNKNOWN_TO_GRAMMAR = re.compile(r"__align__\s*\(\s*\w+\s*\)")
_DECIDES = re.compile(
    r"\b(?:if|while|for|switch|and|or|not)\b|\?|&&|\|\||[=!<>]=|[^-<]<[^<]|[^->]>[^>]"
)
_TESTING_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:el)?if\b(.*(?:\\\n.*)*)", re.MULTILINE)
_COMPARES_IN_ASM = re.compile(rb"\bsetp?\.")
_COMPARISON_IN_ASM = re.compile(
    rb"(?P<guard>@!?%{0,2}\w+\s+)?set(?P<of_predicates>p?)\.[\w.]+\s+(?P<result>%{0,2}\w+)"
    rb"(?:\s*\|\s*%{0,2}\w+)?\s*,[^;\"\\]*;"
)
_BEFORE_BODY, _AFTER_BODY = "void _(){", "\n;}"


@dataclass(frozen=True)
class Condition:
    """A condition as the source writes it; `number` tells it from the others of its source."""

    number: int
    line: int
    column: int
    text: str
    """Its text with blanks joined; `case X` and `default` for a switch."""
    function: str
    """The function around it, "" outside of functions, `#NAME` in a macro."""

    @property
    def key(self) -> str:
        """What it is called where lines may move: a hash of its text and its function."""
        return content_hash(f"{self.function}\0{self.text}")[:10]


@dataclass(frozen=True)
class Instrumented:
    """A source in which every condition reports its sides, and the header that it needs."""

    text: str
    header: str
    conditions: tuple[Condition, ...]
    unseen: tuple[Condition, ...]
    """Conditions that could not be made to report."""


@dataclass(frozen=True)
class _Edit:
    """Text put before and after a part of the source."""

    start: int
    end: int
    before: str
    after: str
    conditions: tuple[Condition, ...]


@dataclass
class _Found:
    """What the walk over a source has found so far."""

    name: str
    first: int = 0
    edits: list[_Edit] = field(default_factory=list)
    unseen: list[Condition] = field(default_factory=list)
    count: int = 0


def instrument(source: str, dropped_lines: frozenset[int] = frozenset()) -> Instrumented:
    """Makes each condition of a source report the sides that it takes.

    `dropped_lines` are lines whose conditions stay as they are, because the compiler did not take
    them otherwise. Line numbers stay as they are.
    """
    # A source cannot hold a name that its own hash is part of, so it cannot know that it reports.
    name = "astra_seen_" + content_hash(source)[:16]
    found = _Found(name)
    data = source.encode()
    _Walk(found, data, 0, 0, "").visit(_tree(source))
    kept = [e for e in found.edits if not any(c.line in dropped_lines for c in e.conditions)]
    dropped = [c for e in found.edits if e not in kept for c in e.conditions]
    return Instrumented(
        text=_apply(data, kept),
        header=_HEADER.read_text(encoding="utf-8").replace("NAME", name),
        conditions=tuple(c for e in kept for c in e.conditions),
        unseen=(*found.unseen, *dropped),
    )


def _tree(source: str) -> Node:
    return parse_comparisons(_UNKNOWN_TO_GRAMMAR.sub(lambda m: " " * len(m[0]), source))


def _apply(data: bytes, edits: list[_Edit]) -> str:
    """The source with all edits; those inside of others stay inside."""
    marks: list[tuple[int, int, int, int, str]] = []
    for order, edit in enumerate(edits):  # The outer one of two equal parts comes first.
        marks.append((edit.start, 1, -edit.end, order, edit.before))
        marks.append((edit.end, 0, -edit.start, -order, edit.after))
    pieces, at = [], 0
    for position, *_, text in sorted(marks):
        pieces += [data[at:position].decode(errors="replace"), text]
        at = position
    return "".join((*pieces, data[at:].decode(errors="replace")))


class _Walk:
    """Finds the conditions below a node. `shift` and `lines` place it in the whole source."""

    def __init__(self, found: _Found, data: bytes, shift: int, line: int, macro: str):
        self.found = found
        self.data = data
        self.shift = shift
        self.line = line
        self.macro = macro

    # -- the walk --------------------------------------------------------------------------------

    def visit(self, node: Node) -> None:
        """A node whose own value decides nothing."""
        if node.type in _DECIDED_EARLY:
            return
        special = getattr(self, f"_{node.type}", None)
        if special is not None:
            special(node)
        else:
            self._children(node)

    def _children(self, node: Node, besides: Iterable[Node | None] = ()) -> None:
        left_out = {n.id for n in besides if n is not None}
        for child in node.named_children:
            if child.id not in left_out:
                self.visit(child)

    def condition(self, node: Node) -> None:
        """An expression that decides: its parts, as far as && || and ! join them."""
        inner = node.named_children
        if node.type == "parenthesized_expression" and len(inner) == 1:
            self.condition(inner[0])
        elif node.type == "binary_expression" and _operator(node) in _JOINS:
            for side in ("left", "right"):
                self._condition_at(node, side)
        elif node.type == "unary_expression" and _operator(node) in _NEGATIONS:
            self._condition_at(node, "argument")
        elif node.type not in _LITERALS:
            self._wrap(node, f"{self.found.name}<%d>((", ")?1:0)")
            if node.type == "binary_expression":
                self._children(node)
            else:
                self.visit(node)

    def _condition_at(self, node: Node, name: str) -> None:
        child = node.child_by_field_name(name)
        if child is not None:
            self.condition(child)

    # -- what decides ----------------------------------------------------------------------------

    def _if_statement(self, node: Node) -> None:
        clause = node.child_by_field_name("condition")
        if clause is not None and not any(c.type == "constexpr" for c in node.children):
            self._clause(clause, may_declare=True)
        self._children(node, (clause,))

    def _while_statement(self, node: Node) -> None:
        clause = node.child_by_field_name("condition")
        if clause is not None:
            self._clause(clause, may_declare=False)
        self._children(node, (clause,))

    def _do_statement(self, node: Node) -> None:
        clause = node.child_by_field_name("condition")
        if clause is not None:
            self.condition(clause)
        self._children(node, (clause,))

    def _for_statement(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        if condition is not None and condition.type == "declaration":
            self._cannot_see(condition)
        elif condition is not None:
            self.condition(condition)
        self._children(node, (condition,))

    def _clause(self, clause: Node, *, may_declare: bool) -> None:
        """`(condition)` or `(begin; condition)` of an if or while; it may declare a variable."""
        value = clause.child_by_field_name("value")
        self._children(clause, (value,))
        if value is None:
            return
        if value.type != "declaration":
            self.condition(value)
            return
        self._children(value)
        name = declared_name(value.child_by_field_name("declarator"))
        if may_declare and name and clause.child_by_field_name("initializer") is None:
            self._wrap(value, "", f"; {self.found.name}<%d>(({name})?1:0)")
        else:
            self._cannot_see(value)

    def _conditional_expression(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self.condition(condition)
        self._children(node, (condition,))

    def _binary_expression(self, node: Node) -> None:
        if _operator(node) in _JOINS:
            self.condition(node)
            return
        if _operator(node) in _COMPARISONS:
            self._wrap(node, f"{self.found.name}_value<%d>(", ")")
        self._children(node)

    def _unary_expression(self, node: Node) -> None:
        if _operator(node) in _NEGATIONS:
            self.condition(node)
        else:
            self._children(node)

    def _switch_statement(self, node: Node) -> None:
        clause = node.child_by_field_name("condition")
        value = clause.child_by_field_name("value") if clause is not None else None
        body = node.child_by_field_name("body")
        if value is not None and body is not None:
            self._switch(value, list(_labels(body)))
        self._children(node)

    def _switch(self, value: Node, labels: list[Node]) -> None:
        if value.type == "declaration":
            self._cannot_see(value)
            return
        numbers = [self._new(label, f"case {self._written(label)}", value) for label in labels]
        numbers.append(self._new(value, f"default of switch ({self._written(value)})", value))
        listed = "".join(f", ({self._text(label)})" for label in labels)
        before = f" {self.found.name}_switch<{numbers[0].number}>(("
        self._edit(value, before, f"){listed})", tuple(numbers))

    def _gnu_asm_expression(self, node: Node) -> None:
        code = node.child_by_field_name("assembly_code")
        self._children(node, (code,))
        if code is None:
            return
        written = self._text(code).encode()
        found = list(_COMPARISON_IN_ASM.finditer(written))
        if len(found) < len(_COMPARES_IN_ASM.findall(written)):
            self._cannot_see(code)
            return
        for comparison in found:
            self._comparison_in_asm(code, comparison)

    def _comparison_in_asm(self, code: Node, found: re.Match[bytes]) -> None:
        """Has assembly report what it compares, right after it does."""
        text = found[0].decode(errors="replace").removesuffix(";")
        condition = self._new(code, _one_line(text), code)
        lines = found.string[: found.start()].count(b"\n")
        condition = replace(condition, line=condition.line + lines)
        guard, result = (found[name] or b"" for name in ("guard", "result"))
        reported, first = result.decode(), ""
        if found["of_predicates"]:
            reported = "astra_taken"
            first = f"selp.b32 {reported}, 1, 0, {result.decode()}; "
        before = f" {{ .reg .b32 astra_taken; {guard.decode()}{first}" if first else " { "
        report = f"{before}{guard.decode()}astra.cond {condition.number}, {reported}; }}"
        at = code.start_byte + self.shift + found.end()
        self.found.edits.append(_Edit(at, at, report, "", (condition,)))

    # -- what the compiler decides, and macros -----------------------------------------------------

    def _array_declarator(self, node: Node) -> None:
        self._children(node, (node.child_by_field_name("size"),))

    def _case_statement(self, node: Node) -> None:
        self._children(node, (node.child_by_field_name("value"),))

    def _preproc_if(self, node: Node) -> None:
        self._children(node, (node.child_by_field_name("condition"),))

    _preproc_elif = _preproc_if

    def _preproc_def(self, node: Node) -> None:
        """A macro's body is read as statements; what cannot be read and decides is not seen."""
        value, name = node.child_by_field_name("value"), text_of(node.child_by_field_name("name"))
        if value is None or self._tested_by_preprocessor(name):
            return
        body = text_of(value)
        tree = parse_comparisons(_BEFORE_BODY + body + _AFTER_BODY)
        if tree.has_error:
            if _DECIDES.search(body) and self._is_used(name):
                self._cannot_see(value)
            return
        shift = value.start_byte - len(_BEFORE_BODY)
        _Walk(self.found, self.data, shift, value.start_point[0], f"#{name}").visit(tree)

    _preproc_function_def = _preproc_def

    def _tested_by_preprocessor(self, name: str) -> bool:
        word = re.compile(rf"\b{re.escape(name)}\b")
        text = self.data.decode(errors="replace")
        return any(word.search(m[1]) for m in _TESTING_DIRECTIVE.finditer(text))

    def _is_used(self, name: str) -> bool:
        text = self.data.decode(errors="replace")
        return len(re.findall(rf"\b{re.escape(name)}\b", text)) > 1

    # -- what is noted -----------------------------------------------------------------------------

    def _text(self, node: Node) -> str:
        """A node as the source has it: the tree may have other signs of comparison."""
        start, end = node.start_byte + self.shift, node.end_byte + self.shift
        return self.data[start:end].decode(errors="replace")

    def _written(self, node: Node) -> str:
        return _one_line(self._text(node))

    def _new(self, node: Node, text: str, site: Node) -> Condition:
        number = self.found.count
        self.found.count += 1
        start = node.start_byte + self.shift
        line, column = node.start_point[0] + 1 + self.line, start - self.data.rfind(b"\n", 0, start)
        return Condition(number, line, column, text, self.macro or _function_of(site))

    def _wrap(self, node: Node, before: str, after: str) -> None:
        condition = self._new(node, self._written(node), node)
        before, after = (t.replace("%d", str(condition.number)) for t in (before, after))
        self._edit(node, f" {before}" if before else "", after, (condition,))

    def _edit(self, node: Node, before: str, after: str, conditions: tuple[Condition, ...]) -> None:
        start, end = node.start_byte + self.shift, node.end_byte + self.shift
        self.found.edits.append(_Edit(start, end, before, after, conditions))

    def _cannot_see(self, node: Node) -> None:
        condition = self._new(node, self._written(node), node)
        self.found.unseen.append(condition)


def _operator(node: Node) -> str:
    return text_of(node.child_by_field_name("operator"))


def _labels(body: Node) -> Iterator[Node]:
    """The values of a switch's labels, those of switches inside of it left out."""
    for child in body.named_children:
        if child.type == "switch_statement":
            continue
        if child.type == "case_statement":
            value = child.child_by_field_name("value")
            if value is not None:
                yield value
        yield from _labels(child)


def _function_of(node: Node) -> str:
    for above, _ in ancestors(node):
        if above.type == "function_definition":
            return declared_name(above.child_by_field_name("declarator"))
    return ""


def _one_line(text: str) -> str:
    without = re.sub(r"/\*.*?\*/|//[^\n]*|\\\n", " ", text, flags=re.DOTALL)
    return " ".join(without.split())
