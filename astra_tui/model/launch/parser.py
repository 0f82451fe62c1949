"""Reads the text of a launch plan into data. The grammar is in docs/launch-plan.md."""

from __future__ import annotations

from collections.abc import Callable

from astra_tui.model.dtypes import NUMBERS, PLAN_TYPES
from astra_tui.model.errors import Place, nearest
from astra_tui.model.launch.expression import Expression
from astra_tui.model.launch.expression_parser import ExpressionParser, Item
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
    Step,
    Struct,
    TemplateArgument,
    Tune,
    Verbatim,
    Workspace,
)
from astra_tui.model.launch.scope import ELEMENT_TYPE, RESERVED_NAMES
from astra_tui.model.launch.tokens import Token, tokenize

MAX_STEPS = 64
MAX_ALIGNMENT = 128
"""The largest alignment that a structure may ask for, in bytes."""

_FIELDS = ("grid", "block", "cluster", "shared", "args", "pdl")
_UNSUPPORTED_FIELDS = {
    "cooperative": "cooperative launches (grid-wide sync) are not supported; use several launches",
    "stream": "launches run in order on one stream that the harness chooses",
    "smem": "write shared=BYTES for dynamic shared memory",
}
_DECLARATIONS = ("workspace", "tune", "let")
_DTYPES = {ELEMENT_TYPE, *PLAN_TYPES}
_MEMBER_TYPES = {ELEMENT_TYPE, *NUMBERS}


def parse_plan(text: str, start: Place | None = None, file: str = "") -> LaunchPlan:
    """Parses the text of a launch plan (without the comment marks).

    Raises PlanError with line and column, counted from `start`, the place of the first character.
    """
    start = start or Place(1, 1)
    return _PlanParser(tokenize(text, start, file), file).plan(start)


class _PlanParser(ExpressionParser):
    def plan(self, place: Place) -> LaunchPlan:
        declarations: list[Declaration] = []
        steps: list[Step] = []
        self._skip_newlines()
        while self.token.kind != "end":
            if len(steps) + len(declarations) == MAX_STEPS:
                self.fail(f"a plan has at most {MAX_STEPS} declarations and steps")
            if self.at(*_DECLARATIONS) and not steps:
                declarations.append(self._declaration())
            else:
                steps.append(self._step())
            self._skip_newlines()
        if not steps:
            self.fail(
                "the launch plan launches nothing",
                "write: my_kernel<T> grid=... block=... args=(...)",
            )
        return LaunchPlan(tuple(declarations), tuple(steps), place)

    # -- declarations --------------------------------------------------------------------------

    def _declaration(self) -> Declaration:
        keyword = self.advance()
        name = self._new_name(keyword.text)
        match keyword.text:
            case "workspace":
                return self._workspace(name, keyword.place)
            case "tune":
                return self._tune(name, keyword.place)
            case _:
                self.expect("=", "after the name")
                value = self.expression()
                self._end_of_statement()
                return Let(name, value, keyword.place)

    def _workspace(self, name: str, place: Place) -> Workspace:
        self.expect(":", "after the workspace's name")
        if self.token.text not in _DTYPES:
            shown, hint = self.shown(), nearest(self.token.text.strip(), _DTYPES)
            self.fail(f"expected a type, found {shown}", hint)
        dtype = self.advance()
        self.expect("[", "before the workspace's sizes")
        sizes = [self.expression()]
        while self.accept(","):
            sizes.append(self.expression())
        self.expect("]", "after the workspace's sizes")
        self._end_of_statement()
        return Workspace(name, dtype.text, tuple(sizes), place)

    def _tune(self, name: str, place: Place) -> Tune:
        value = self._signed_integer() if self.accept("=") else None
        self.expect("in", "before the values to try")
        choices = [self._signed_integer()]
        while self.accept(","):
            choices.append(self._signed_integer())
        self._end_of_statement()
        value = choices[0] if value is None else value
        if value not in choices:
            self.fail(f"{name} = {value} is not among the values to try", place=place)
        if len(set(choices)) != len(choices):
            self.fail(f"the values to try for {name} repeat", place=place)
        return Tune(name, value, tuple(choices), place)

    def _signed_integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        if self.token.kind != "integer":
            self.fail(f"expected a whole number, found {self.shown()}")
        return sign * self.integer(self.advance())

    def _new_name(self, keyword: str) -> str:
        if self.token.kind != "name":
            self.fail(f"expected a name after '{keyword}', found {self.shown()}")
        token = self.advance()
        if token.text in RESERVED_NAMES:
            self.fail(
                f"'{token.text}' has a meaning of its own; choose another name", place=token.place
            )
        return token.text

    # -- steps ---------------------------------------------------------------------------------

    def _step(self) -> Step:
        if self.at("when"):
            return self._dispatch()
        if self.at("otherwise"):
            self.fail("'otherwise' needs a 'when' before it")
        return self._launch_or_refuse()

    def _dispatch(self) -> Dispatch:
        place = self.token.place
        branches: list[Branch] = []
        while self.at("when", "otherwise"):
            if len(branches) == MAX_STEPS:
                self.fail(f"a plan has at most {MAX_STEPS} branches")
            head = self.advance()
            self._join_condition()
            condition = self.expression() if head.text == "when" else None
            self.expect(":", f"after '{head.text}'")
            branches.append(Branch(condition, self._body(head), head.place))
            self._skip_newlines()
            if condition is None:
                break
        return Dispatch(tuple(branches), place)

    def _join_condition(self) -> None:
        """A condition may continue over several lines, up to its colon."""
        index = self.index
        while self.tokens[index].text not in (":", "when", "otherwise", "=", ""):
            index += 1
        if self.tokens[index].text == ":":
            inner = [t for t in self.tokens[self.index : index] if t.kind != "newline"]
            self.tokens[self.index : index] = inner

    def _body(self, head: Token) -> tuple[Launch | Refuse, ...]:
        """Launches on the head's own line, or on the lines below that are indented further."""
        items: list[Launch | Refuse] = []
        if self.token.kind != "newline":
            items.append(self._launch_or_refuse())
        self._skip_newlines()
        while self.token.kind != "end" and self.token.place.column > head.place.column:
            if self.at("when", "otherwise"):
                self.fail("branches do not nest", "join the conditions with 'and'")
            items.append(self._launch_or_refuse())
            self._skip_newlines()
        if not items:
            self.fail(
                f"nothing follows '{head.text} ...:'",
                "indent its launches further than the line of the condition",
                head.place,
            )
        return tuple(items)

    def _launch_or_refuse(self) -> Launch | Refuse:
        if self.at(*_DECLARATIONS):
            self.fail("declarations come before the first launch and the first 'when'")
        if not self.at("refuse"):
            return self._launch()
        place = self.advance().place
        if self.token.kind != "string":
            self.fail('expected a reason in quotes: refuse "d must be even"')
        reason = self.advance()
        self._end_of_statement()
        return Refuse(reason.text[1:-1], place)

    def _launch(self) -> Launch:
        place = self.token.place
        kernel = self._kernel_name()
        template_args = self._template_arguments()
        fields, args = self._fields(kernel)
        for required in ("grid", "block", "args"):
            if required not in fields and (required != "args" or args is None):
                self.fail(f"the launch of {kernel} has no {required}=", place=place)
        shared, pdl = fields.get("shared"), fields.get("pdl")
        return Launch(
            kernel,
            template_args,
            fields["grid"],
            fields["block"],
            args or (),
            shared[0] if shared else None,
            pdl[0] if pdl else None,
            place,
            fields.get("cluster", ()),
        )

    def _kernel_name(self) -> str:
        parts = [self._kernel_name_part()]
        while self.accept("::"):
            parts.append(self._kernel_name_part())
        return "::".join(parts)

    def _kernel_name_part(self) -> str:
        if self.token.kind != "name":
            self.fail(f"expected the name of a kernel, found {self.shown()}")
        return self.advance().text

    def _template_arguments(self) -> tuple[TemplateArgument, ...]:
        if not self.accept("<"):
            return ()
        items: list[TemplateArgument] = []
        while not self.at(">"):
            if self.token.kind == "string":
                token = self.advance()
                items.append(Verbatim(token.text[1:-1], token.place))
            else:
                items.append(self.expression(template=True))
            if not self.accept(","):
                break
        if not self.accept(">"):
            self.fail(
                f"expected '>' to close the template arguments, found {self.shown()}",
                "a comparison stands in parentheses, other C++ text in quotes",
            )
        return tuple(items)

    def _fields(
        self, kernel: str
    ) -> tuple[dict[str, tuple[Expression, ...]], tuple[KernelArgument, ...] | None]:
        """The fields of a launch but `args=`, and the arguments."""
        fields: dict[str, tuple[Expression, ...]] = {}
        args: tuple[KernelArgument, ...] | None = None
        while self._at_field():
            self._skip_newlines()
            key = self.advance()
            if key.text in _UNSUPPORTED_FIELDS:
                self.fail(f"{key.text}= is refused", _UNSUPPORTED_FIELDS[key.text], key.place)
            if key.text not in _FIELDS:
                self.fail(f"unknown field '{key.text}='", nearest(key.text, _FIELDS), key.place)
            if key.text in fields or (key.text == "args" and args is not None):
                self.fail(f"{key.text}= stands twice in the launch of {kernel}", place=key.place)
            self.advance()
            if key.text == "args":
                args = self._values(self._argument)
                continue
            values = self._values(self.expression)
            limit = {"grid": 3, "block": 3, "cluster": 3, "shared": 1, "pdl": 1}.get(key.text)
            if limit is not None and not 1 <= len(values) <= limit:
                takes = "1 value" if limit == 1 else f"1 to {limit} values"
                self.fail(f"{key.text}= takes {takes}, not {len(values)}", place=key.place)
            fields[key.text] = values
        self._end_of_statement()
        return fields, args

    def _at_field(self) -> bool:
        """Whether `name =` follows, on this line or after line ends."""
        index = self.index
        while self.tokens[index].kind == "newline":
            index += 1
        name, equals = self.tokens[index], self.tokens[min(index + 1, len(self.tokens) - 1)]
        return name.kind == "name" and equals.kind == "operator" and equals.text == "="

    def _values(self, read: Callable[[], Item]) -> tuple[Item | Expression, ...]:
        """One value, or a parenthesised list of them."""
        if not self.at("("):
            return (read(),)
        items = self.enclosed(read)
        followed = self.token.kind == "operator" or self.at("if", "and", "or")
        if len(items) == 1 and followed and isinstance(items[0], Expression):
            return (self.expression(items[0]),)
        return items

    # -- arguments -----------------------------------------------------------------------------

    def _argument(self) -> KernelArgument:
        return self._struct() if self._at_struct() else self.expression()

    def _at_struct(self) -> bool:
        following = self.tokens[min(self.index + 1, len(self.tokens) - 1)]
        return self.at("{") or (self.at("alignas") and following.text == "(")

    def _struct(self) -> Struct:
        place = self.token.place
        alignment = self._alignas() if self.at("alignas") else 1
        self._go_deeper(place)
        members = self.enclosed(self._member, "{", "}")
        self.depth -= 1
        return Struct(members, alignment, place)

    def _alignas(self) -> int:
        self.advance()
        self.expect("(", "after 'alignas'")
        place = self.token.place
        alignment = self._signed_integer()
        if not 1 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
            self.fail(f"alignas() takes a power of two up to {MAX_ALIGNMENT}", place=place)
        self.expect(")", "after the alignment")
        return alignment

    def _member(self) -> Member | Struct | Expression:
        if self._at_struct():
            return self._struct()
        following = self.tokens[self.index + 1] if self.token.kind == "name" else self.token
        typed = self.token.text in _MEMBER_TYPES and following.text not in (",", "}")
        if self.token.kind == "name" and typed:
            dtype = self.advance()
            return Member(dtype.text, self.expression(), dtype.place)
        return self.expression()

    # -- line ends -----------------------------------------------------------------------------

    def _skip_newlines(self) -> None:
        while self.token.kind == "newline":
            self.advance()

    def _end_of_statement(self) -> None:
        if self.token.kind not in ("newline", "end"):
            hint = ""
            if self.token.kind == "name":
                hint = "fields are " + ", ".join(f"{name}=" for name in _FIELDS)
            elif self.at(","):
                hint = "several values stand in parentheses; no comma stands between fields"
            self.fail(f"expected the end of the line, found {self.shown()}", hint)
