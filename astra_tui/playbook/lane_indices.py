"""How indices change from one lane of a pack to the next, and what makes a pack begin right."""

from __future__ import annotations

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.indices import IndexReader, Polynomial
from astra_tui.cuda_source.syntax import line_of, text_of
from astra_tui.cuda_source.types import INTEGER_TYPES

MAX_ELEMENTS = 16
"""A pack never has more elements; constants that it divides keep an index aligned."""


class NotWidenable(Exception):
    """Why a kernel's accesses stay as they are."""


def refusal(node: Node, why: str) -> NotWidenable:
    """The reason, with the line that is in the way."""
    return NotWidenable(f"line {line_of(node)}: {why}")


class LaneIndices:
    """The indices of one loop over packs, whose variable `index` counts elements."""

    def __init__(self, function: Function, index: str, reader: IndexReader, varying: set[str]):
        self.function = function
        self.index = index
        self.reader = reader
        self.varying = varying
        self.slopes: dict[str, int] = {index: 1}
        """By how much an index variable grows from one lane to the next."""
        self.divisible: dict[str, None] = {}
        """Integer parameters that have to be whole packs."""

    def slope(self, index: Polynomial) -> int | None:
        """By how much an index grows from lane to lane, None where that is not constant."""
        total = 0
        for monomial, coefficient in index.terms.items():
            moving = [a for a in monomial if self._moves(a)]
            if not moving:
                continue
            slopes = [self._atom_slope(a) for a in moving]
            if None in slopes:
                return None
            if all(s == 0 for s in slopes):
                continue
            if len(monomial) != 1:
                return None
            total += coefficient * (slopes[0] or 0)
        return total

    def _moves(self, atom: str) -> bool:
        names = self.reader.names_of.get(atom, frozenset({atom}))
        return bool(names & self.varying)

    def _atom_slope(self, atom: str) -> int | None:
        if atom == self.index:
            return 1
        division = self.reader.divisions.get(atom)
        if division is None or self.slope(division.numerator) != 1:
            return None
        # Within a pack, (i / d) stays and (i % d) grows by one, because d is whole packs.
        return 0 if division.operator == "/" else 1

    def stays_in_row(self, index: Polynomial, node: Node) -> bool:
        """Whether sizes can make an index grow by its slope in all of a pack; asks for them.

        A quotient stays, and a remainder grows by one, where no pack crosses from row to row.
        """
        found = [self.reader.divisions[a] for a in index.atoms() if a in self.reader.divisions]
        try:
            for division in (d for d in found if self.slope(d.numerator)):
                self.require_divisible(division.numerator, node)
                self.require_divisible(division.denominator, node)
        except NotWidenable:
            return False
        return True

    def require_divisible(self, index: Polynomial, node: Node) -> None:
        """Asks for what makes a polynomial a multiple of the pack's width."""
        for monomial, coefficient in index.terms.items():
            for each in monomial:
                division = self.reader.divisions.get(each)
                if division is not None and self._moves(each):
                    self.require_divisible(division.numerator, node)
                    self.require_divisible(division.denominator, node)
            if monomial and self._is_whole(monomial[0]) and len(monomial) == 1:
                continue
            if coefficient % MAX_ELEMENTS == 0:
                continue
            factors = [a for a in monomial if self._is_size(a)]
            if not factors:
                raise refusal(node, f"nothing makes {text_of(node)} begin at a whole pack")
            known = [a for a in factors if a in self.divisible]
            self.divisible[(known or factors)[-1]] = None

    def _is_whole(self, atom: str) -> bool:
        """Whether an atom is a multiple of the width because the loop's variable is."""
        if atom == self.index:
            return True
        division = self.reader.divisions.get(atom)
        return division is not None and division.operator == "%" and self._moves(atom)

    def _is_size(self, atom: str) -> bool:
        parameter = next((p for p in self.function.parameters if p.name == atom), None)
        if parameter is None or not parameter.is_scalar or parameter.type not in INTEGER_TYPES:
            return False
        return self.function.is_constant(parameter) and atom not in self.varying
