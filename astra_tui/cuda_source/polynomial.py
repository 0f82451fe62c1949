"""Sums of products with whole factors, over atoms that are not taken apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

MAX_TERMS = 64


class Comparable(Hashable, Protocol):
    """What can be an atom: it has an order and a text."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether it comes first in a product."""
        ...


A = TypeVar("A", bound=Comparable)


class Polynomial(Generic[A]):
    """A sum of products of atoms. Immutable; equal when the terms are."""

    def __init__(self, terms: Mapping[tuple[A, ...], int] | None = None):
        self.terms = {m: f for m, f in (terms or {}).items() if f}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __repr__(self) -> str:
        return self.text()

    def __add__(self, other: Polynomial[A]) -> Polynomial[A]:
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return Polynomial(terms)

    def __neg__(self) -> Polynomial[A]:
        return Polynomial({m: -f for m, f in self.terms.items()})

    def __sub__(self, other: Polynomial[A]) -> Polynomial[A]:
        return self + -other

    def __mul__(self, other: Polynomial[A]) -> Polynomial[A]:
        terms: dict[tuple[A, ...], int] = {}
        for a, f in self.terms.items():
            for b, g in other.terms.items():
                monomial = product_of((*a, *b))
                terms[monomial] = terms.get(monomial, 0) + f * g
        return Polynomial(terms)

    @property
    def is_small(self) -> bool:
        """Whether it is small enough to continue with."""
        return len(self.terms) <= MAX_TERMS and all(abs(f) < 1 << 62 for f in self.terms.values())

    @property
    def number(self) -> int | None:
        """The value, when there are no atoms."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    def atoms(self) -> Iterator[A]:
        """Every atom, in order, some more than once."""
        for monomial in self.terms:
            yield from monomial

    def without(self, atom: A) -> tuple[int | None, Polynomial[A]]:
        """The coefficient of an atom, None where it is no whole number, and the rest."""
        rest = {m: c for m, c in self.terms.items() if atom not in m}
        own = {m: c for m, c in self.terms.items() if atom in m}
        coefficient = own.pop((atom,), 0)
        return (None if own else coefficient), Polynomial(rest)

    def divided(self, by: Polynomial[A]) -> Polynomial[A] | None:
        """The quotient when it is exact and `by` is a single product, else None."""
        if len(by.terms) != 1:
            return None
        ((divisor, number),) = by.terms.items()
        found: dict[tuple[A, ...], int] = {}
        for monomial, factor in self.terms.items():
            rest = without(monomial, divisor)
            if rest is None or factor % number:
                return None
            found[rest] = factor // number
        return Polynomial(found)

    def text(self) -> str:
        """The sum as it is written in a plan, if its atoms are."""
        if not self.terms:
            return "0"
        ordered = sorted(self.terms.items(), key=lambda item: (-len(item[0]), item[1] < 0))
        found = ""
        for monomial, factor in ordered:
            number = [str(abs(factor))] if abs(factor) != 1 or not monomial else []
            part = " * ".join((*number, *map(str, monomial)))
            if not found:
                found = part if factor > 0 else f"-{part}"
            else:
                found += f" {'+' if factor > 0 else '-'} {part}"
        return found


def constant(value: int) -> Polynomial[Any]:
    """A number."""
    return Polynomial({(): value})


def of_atom(atom: A) -> Polynomial[A]:
    """A single atom."""
    return Polynomial({(atom,): 1})


def product_of(atoms: Iterable[A]) -> tuple[A, ...]:
    """A product of atoms in its canonical order."""
    return tuple(sorted(atoms))


def without(monomial: tuple[A, ...], divisor: tuple[A, ...]) -> tuple[A, ...] | None:
    """A product without some of its factors, or None when it does not have them all."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)
