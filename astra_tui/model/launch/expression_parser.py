"""Reads expressions by precedence climbing over the tokens of a plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn, TypeVar

from astra_tui.model.errors import Place, nearest
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
from astra_tui.model.launch.plan import PlanError
from astra_tui.model.launch.scope import FUNCTIONS, MAX_INTEGER
from astra_tui.model.launch.tokens import Token, tokenize

Item = TypeVar("Item")

MAX_DEPTH = 32
MAX_OPERATORS = 128

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_SUM, _PRODUCT = ("+", "-"), ("*", "/", "//", "%")
_WORDS = {"if", "else", "and", "or", "not", "when", "otherwise"}
_MAX_DIGITS = 20


def parse_expression(text: str, start: Place | None = None) -> Expression:
    """Parses a text that is one expression. Raises PlanError, with places counted from `start`."""
    parser = ExpressionParser(tokenize(text, start or Place(1, 1)), "")
    expression = parser.expression()
    if [t.kind for t in parser.tokens[parser.index :]] != ["newline", "end"]:
        parser.fail(f"expected the end of the expression, found {parser.shown()}")
    return expression


class ExpressionParser:
    """A cursor over tokens that reads expressions; the plan's parser extends it."""

    def __init__(self, tokens: list[Token], file: str):
        self.tokens = tokens
        self.file = file
        self.index = 0
        self.depth = 0
        self.operators = 0

    # -- the cursor ----------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        """The token under the cursor."""
        return self.tokens[self.index]

    def advance(self) -> Token:
        """Returns the token under the cursor and steps over it."""
        token = self.token
        if token.kind != "end":
            self.index += 1
        return token

    def at(self, *texts: str) -> bool:
        """Whether the token under the cursor is one of these words or operators."""
        return self.token.kind in ("operator", "name") and self.token.text in texts

    def accept(self, text: str) -> bool:
        """Steps over a word or operator if it is the next one."""
        found = self.at(text)
        if found:
            self.advance()
        return found

    def expect(self, text: str, after: str) -> Token:
        """Steps over a word or operator that has to be the next one."""
        if not self.at(text):
            self.fail(f"expected '{text}' {after}, found {self.shown()}")
        return self.advance()

    def shown(self) -> str:
        """The token under the cursor, in words for a message."""
        if self.token.kind == "end":
            return "the end of the plan"
        return "the end of the line" if self.token.kind == "newline" else f"'{self.token.text}'"

    def fail(self, message: str, hint: str = "", place: Place | None = None) -> NoReturn:
        """Raises a PlanError at a place, by default at the cursor."""
        raise PlanError(message, file=self.file, place=place or self.token.place, hint=hint)

    # -- expressions ---------------------------------------------------------------------------

    def expression(self, left: Expression | None = None, *, template: bool = False) -> Expression:
        """Reads one expression; `left` is an operand already read.

        Inside template brackets (`template`) a bare comparison would end the list, so it has to
        stand in parentheses there.
        """
        if self.depth == 0 and left is None:
            self.operators = 0
        self._go_deeper(self.token.place)
        value = self._disjunction(left, template)
        if self.at("if"):
            place = self.advance().place
            condition = self._disjunction(None, template)
            self.expect("else", "to complete 'a if condition else b'")
            value = Conditional(condition, value, self.expression(template=template), place)
        self.depth -= 1
        return value

    def integer(self, token: Token) -> int:
        """The value of an integer token, which has to fit in 64 bits."""
        base = 16 if token.text[:2] in ("0x", "0X") else 10
        digits = token.text[2 if base == 16 else 0 :].replace("_", "").lstrip("0") or "0"
        # int() refuses very long texts with an error of its own.
        if len(digits) > _MAX_DIGITS or int(digits, base) > MAX_INTEGER:
            shown = token.text if len(token.text) <= 2 * _MAX_DIGITS else "this number"
            self.fail(f"{shown} does not fit in 64 bits", place=token.place)
        return int(digits, base)

    def _real(self, token: Token) -> float:
        value = float(token.text)
        if not math.isfinite(value):
            self.fail(f"{token.text} does not fit in double precision", place=token.place)
        return value

    def enclosed(
        self, read: Callable[[], Item], opening: str = "(", closing: str = ")"
    ) -> tuple[Item, ...]:
        """Reads `(a, b, ...)`, possibly empty or with a trailing comma."""
        self.expect(opening, "here")
        items: list[Item] = []
        while not self.at(closing):
            items.append(read())
            if not self.accept(","):
                break
        self.expect(closing, f"to close the '{opening}'")
        return tuple(items)

    def _disjunction(self, left: Expression | None, template: bool) -> Expression:
        value = self._conjunction(left, template)
        while self.at("or"):
            place = self._operator().place
            value = Binary("or", value, self._conjunction(None, template), place)
        return value

    def _conjunction(self, left: Expression | None, template: bool) -> Expression:
        value = self._negation(left, template)
        while self.at("and"):
            place = self._operator().place
            value = Binary("and", value, self._negation(None, template), place)
        return value

    def _negation(self, left: Expression | None, template: bool) -> Expression:
        if left is None and self.at("not"):
            place = self.advance().place
            self._go_deeper(place)
            value = Unary("not", self._negation(None, template), place)
            self.depth -= 1
            return value
        return self._comparison(left, template)

    def _comparison(self, left: Expression | None, template: bool) -> Expression:
        place = self.token.place
        first = self._sum(left)
        links: list[tuple[str, Expression]] = []
        while not template and self.at(*COMPARISONS):
            operator = self.advance().text
            links.append((operator, self._sum(None)))
        return Compare(first, tuple(links), place) if links else first

    def _sum(self, left: Expression | None) -> Expression:
        value = self._product(left)
        while self.at(*_SUM):
            token = self._operator()
            value = Binary(token.text, value, self._product(None), token.place)
        return value

    def _product(self, left: Expression | None) -> Expression:
        value = self._unary() if left is None else left
        while self.at(*_PRODUCT):
            token = self._operator()
            value = Binary(token.text, value, self._unary(), token.place)
        return value

    def _unary(self) -> Expression:
        if self.at("-"):
            place = self.advance().place
            self._go_deeper(place)
            value = Unary("-", self._unary(), place)
            self.depth -= 1
            return value
        return self._primary()

    def _primary(self) -> Expression:
        token = self.token
        if token.kind == "integer":
            self.advance()
            return Integer(self.integer(token), token.place)
        if token.kind == "real":
            self.advance()
            return Real(self._real(token), token.place)
        if token.kind == "name" and token.text not in _WORDS:
            self.advance()
            return self._call(token) if self.at("(") else Name(token.text, token.place)
        if self.at("("):
            items = self.enclosed(self.expression)
            if len(items) != 1:
                self.fail("a list of values cannot stand here", place=token.place)
            return items[0]
        return self.fail(f"expected a value, found {self.shown()}")

    def _call(self, function: Token) -> Expression:
        if function.text not in FUNCTIONS:
            self.fail(
                f"unknown function '{function.text}'",
                hint=nearest(function.text, FUNCTIONS),
                place=function.place,
            )
        return Call(function.text, self.enclosed(self.expression), function.place)

    def _operator(self) -> Token:
        """Steps over an operator. A chain of them is a deep tree, so their number is limited."""
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            self.fail(f"this expression has more than {MAX_OPERATORS} operators")
        return self.advance()

    def _go_deeper(self, place: Place) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"this expression is nested more than {MAX_DEPTH} deep", place=place)
