"""The shape of a tensor, from the indices with which a kernel touches it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from astra_tui.cuda_source.polynomial import constant, of_atom, without
from astra_tui.drafting.accesses import Access
from astra_tui.drafting.body import Bound
from astra_tui.drafting.polynomial import (
    Atom,
    Monomial,
    Polynomial,
    greatest_divisor,
    quotient,
    rounds_up,
)

Limits = tuple[Polynomial | None, ...]


@dataclass(frozen=True)
class Geometry:
    """How many blocks and threads there are along each axis; None where it is not known."""

    grid: Limits
    block: Limits
    order: tuple[str, ...] = ()
    """The names of sizes as they should follow each other where nothing says how."""


@dataclass(frozen=True)
class Gather:
    """A dimension that is indexed with numbers out of another tensor."""

    numbers: str
    limit: Polynomial | None


@dataclass(frozen=True)
class Shape:
    """The sizes of a tensor, outermost first; a size of None has still to get a name."""

    sizes: tuple[Polynomial | None, ...]
    gather: Gather | None = None
    multiples: tuple[tuple[Polynomial, Polynomial], ...] = ()
    """What has to be a multiple of what, for the sizes to hold."""
    rival: tuple[Polynomial, ...] = ()
    """The sizes that another access says as surely, where neither has room for both."""

    def rank(self) -> tuple[int, int, int]:
        """What makes one shape more likely than another for the same tensor."""
        known = sum(size is not None for size in self.sizes)
        plain = sum(
            size is not None and min(size.terms.values(), default=1) > 0 for size in self.sizes
        )
        return known == len(self.sizes), plain == len(self.sizes), len(self.sizes)

    def covers(self, other: Shape) -> bool:
        """Whether it is as likely, and surely no smaller along any axis."""
        pairs = zip(self.sizes, other.sizes, strict=False)
        more = [a - b for a, b in pairs if a is not None and b is not None]
        is_sure = all(factor >= 0 for each in more for factor in each.terms.values())
        return self.rank() == other.rank() and len(more) == len(self.sizes) and is_sure


def shape_of(accesses: Iterable[Access], geometry: Geometry) -> Shape | None:
    """The likeliest shape of the tensor that these accesses touch."""
    best: Shape | None = None
    for access in accesses:
        found = _Reading(access, geometry).shape()
        if found is None:
            continue
        if best is None or found.rank() > best.rank() or found.covers(best):
            best = found
        elif found.rank() == best.rank() and not best.covers(found):
            best = replace(best, rival=tuple(s for s in found.sizes if s is not None))
    return best


class _Reading:
    """What one access says."""

    def __init__(self, access: Access, geometry: Geometry):
        self.access = access
        self.geometry = geometry
        self.multiples: list[tuple[Polynomial, Polynomial]] = []
        self.is_open = False
        """Whether it is not known how many items there are."""
        self.index = self._with_guards_whole(access.index)
        if access.width > 1:
            self.index += of_atom(Atom("lane", str(access.width)))
        if access.lanes is not None:
            self.index = self._with_items_whole(self.index, access.lanes)
        self.index = self._simplified(self.index)

    def _with_guards_whole(self, index: Polynomial) -> Polynomial:
        """The index with each guarded sum of products of unknowns in it as one atom.

        `(i * threads + thread) * 8 < d` says enough of such a sum, whatever it is made of.
        """
        for sum_, limit in self.access.bounds:
            tangled = any(len(m) > 1 and not all(a.is_size for a in m) for m in sum_.terms)
            times = _factor(index, sum_) if tangled and _is_known(limit) else None
            if times is None:
                continue
            rest = index - sum_ * times
            if self.access.width > 1 and times == constant(1):
                self.multiples.append((limit, constant(self.access.width)))
                lanes = constant(self.access.width)
                index = rest + of_atom(Atom("guarded", sum_.text(), 1, (limit, lanes)))
            else:
                index = rest + times * of_atom(Atom("guarded", sum_.text(), parts=(limit,)))
        return index

    def _with_items_whole(self, index: Polynomial, lanes: Polynomial) -> Polynomial:
        """The index with the items of an unknown number of lanes as one atom: all their elements.

        `thread * lanes`, with as many threads as items, stays below the size of a row.
        """
        if any(len(m) == 1 and m[0].kind == "guarded" for m in index.terms):
            return index  # A condition says where the items end.
        terms = {m: f for m, f in index.terms.items() if Polynomial({m: f}).divided(lanes)}
        items = Polynomial(terms).divided(lanes)
        most = self.extent(items) if items is not None else None
        if most is None:
            self.is_open = True
            return index
        limit = self._simplified(most * lanes)
        whole = Atom("guarded", Polynomial(terms).text(), parts=(limit,))
        return index - Polynomial(terms) + of_atom(whole)

    def shape(self) -> Shape | None:
        if (not self.access.width and self.access.lanes is None) or self.is_open:
            return None
        levels = self._levels()
        if levels is None:
            return None
        sizes: list[Polynomial | None] = []
        for (inner, below), (outer, _) in pairwise(levels):
            ratio = self.extent(below) if is_stride(outer) else outer.divided(inner)
            if ratio is None:
                return None
            sizes.insert(0, ratio)
        last, top = levels[-1]
        first = levels[0][0]
        if first != constant(1):
            sizes.append(first)
        extent = self.extent(top)
        gather = _gather(top, self.access.bounds)
        if extent is None and gather is None:
            return None
        if len(levels) == 1 and extent is not None and last == constant(1):
            extent += self._offset()
            return Shape(tuple(_split(extent, self.geometry.order)), gather, tuple(self.multiples))
        return Shape((extent, *sizes), gather, tuple(self.multiples))

    def _offset(self) -> Polynomial:
        """What an index has of sizes alone: `n` of `i + n`."""
        terms = self.index.terms.items()
        return Polynomial({m: f for m, f in terms if m and all(a.is_size for a in m)})

    def _levels(self) -> list[tuple[Polynomial, Polynomial]] | None:
        """Strides with the sums that are multiplied by them, the innermost first."""
        groups: dict[Monomial, Polynomial] = {}
        for monomial, factor in self.index.terms.items():
            strides = tuple(a for a in monomial if is_stride(of_atom(a)))
            size_part = strides or tuple(a for a in monomial if a.is_size)
            rest = tuple(a for a in monomial if a not in size_part)
            if sum(not a.is_size for a in rest) > 1 or (not rest and factor < 0):
                return None
            term = Polynomial({rest: factor})
            groups[size_part] = groups.get(size_part, Polynomial()) + term
        found: list[tuple[Polynomial, Polynomial]] = []
        more = _take_strides_of_sums(groups)
        for sizes, total in groups.items():
            if total.number is None:
                found.extend(self._split_group(sizes, total, more.get(sizes, 0)))
        if not found:
            return [(constant(1), self.index)] if self.index.number is not None else None
        return sorted(found, key=lambda level: _magnitude(level[0]))

    def _split_group(
        self, sizes: Monomial, total: Polynomial, more: int
    ) -> Iterator[tuple[Polynomial, Polynomial]]:
        stride = Polynomial({sizes: 1}) + constant(more)
        factors = [f for m, f in total.terms.items() if m]
        step = greatest_divisor(factors)
        if not sizes:
            yield from self._split_plain(total)
        elif step > 1:
            whole = {m: f // step for m, f in total.terms.items() if m}
            yield stride * constant(step), Polynomial(whole)
        else:
            yield stride, total

    def _split_plain(self, total: Polynomial) -> Iterator[tuple[Polynomial, Polynomial]]:
        """Takes `64 * row + column` apart where the column is known to stay below 64."""
        top = max(f for m, f in total.terms.items() if m)
        high = Polynomial({m: f for m, f in total.terms.items() if m and f == top})
        low = total - high
        is_vector = all(atom.kind == "lane" for atom in low.atoms())
        is_open = not is_vector and self._guarded(total) is None
        most = self.extent(low) if low.terms and is_open else None
        limit = most.number if most is not None else None
        if limit is not None and limit <= top and top > 1:
            yield constant(1), low
            yield constant(top), Polynomial(dict.fromkeys(high.terms, 1))
            return
        yield constant(1), total

    # -- how large a sum can get -----------------------------------------------------------------

    def extent(self, total: Polynomial) -> Polynomial | None:
        """The smallest limit that a sum is known to stay below."""
        found = self._extent(total)
        return None if found is None else self._simplified(found)

    def _extent(self, total: Polynomial) -> Polynomial | None:
        guarded = self._guarded(total)
        if guarded is not None:
            return guarded
        most = constant(1)
        for monomial, factor in total.terms.items():
            others = [a for a in monomial if not a.is_size]
            if not others:
                most += Polynomial({monomial: factor})
                continue
            limit = self._limit(others[0]) if len(others) == 1 and factor > 0 else None
            if limit is None:
                return None
            sizes = Polynomial({tuple(a for a in monomial if a.is_size): factor})
            most += sizes * (limit - constant(1))
        return most

    def _guarded(self, total: Polynomial) -> Polynomial | None:
        """The limit that a condition around the access sets for exactly this sum."""
        lanes = Polynomial(
            {m: f for m, f in total.terms.items() if any(a.kind == "lane" for a in m)}
        )
        plain = total - lanes
        for sum_, limit in self.access.bounds:
            offset = (plain - sum_).number
            if sum_.terms and offset is not None and offset >= 0 and _is_known(limit):
                if lanes.terms:
                    self.multiples.append((limit, constant(self.access.width)))
                    return limit
                return limit + constant(offset)
            # `8 * i < n` keeps i below n / 8, rounded up.
            step = greatest_divisor(list(sum_.terms.values())) if sum_.terms else 1
            whole = sum_.divided(constant(step)) if step > 1 and not lanes.terms else None
            if whole == plain and _is_known(limit):
                return quotient(limit + constant(step - 1), constant(step))
        return None

    def _limit(self, atom: Atom) -> Polynomial | None:
        guarded = self._guarded(of_atom(atom)) if atom.kind != "lane" else None
        if guarded is not None:
            return guarded
        match atom.kind:
            case "lane":
                return constant(int(atom.text))
            case "thread":
                return _along(self.geometry.block, atom.axis)
            case "block":
                return _along(self.geometry.grid, atom.axis)
            case "guarded":
                # With lanes after it the last item begins a whole item before the limit.
                limit, *lanes = atom.parts
                return limit - lanes[0] + constant(1) if lanes else limit
            case "remainder":
                return atom.parts[1] if _is_known(atom.parts[1]) else None
            case "quotient":
                above, divisor = self._extent(atom.parts[0]), atom.parts[1]
                if above is None:
                    return None
                # The largest value is one below the limit.
                exact = above.divided(divisor)
                return exact or quotient(above - constant(1) + divisor, divisor)
            case _:
                return None

    def _simplified(self, total: Polynomial) -> Polynomial:
        """`8 * (n // 8)` is n, for an n that is a multiple of 8."""
        found = Polynomial()
        for monomial, factor in total.terms.items():
            term = Polynomial({monomial: factor})
            for atom in monomial:
                if atom.kind in ("value", "quotient") and len(atom.parts) == 2:
                    rest = Polynomial({tuple(a for a in monomial if a is not atom): factor})
                    times = rest.divided(atom.parts[1])
                    whole = _size_part(atom.parts[0])
                    is_exact = not rounds_up(*atom.parts)
                    if times is not None and whole is not None and is_exact:
                        self.multiples.append((whole, atom.parts[1]))
                        term = times * atom.parts[0]
                        break
            found += term
        return found


def _take_strides_of_sums(groups: dict[Monomial, Polynomial]) -> dict[Monomial, int]:
    """What is added to a size to make the stride: 1 for `row * (n + 1) + i`, which in an index is
    `row * n + row + i`. The terms of such rows are taken out of the sum without a size.
    """
    found: dict[Monomial, int] = {}
    for sizes, total in groups.items():
        plain = groups.get((), Polynomial())
        rows = {m: f for m, f in total.terms.items() if m}
        whole = {divmod(plain.terms.get(m, 0), f) for m, f in rows.items()} if sizes else set()
        if len(whole) == 1:
            ((times, left_over),) = whole
            if times > 0 and not left_over:
                found[sizes] = times
                groups[()] = plain - Polynomial(rows) * constant(times)
    return found


def _factor(index: Polynomial, sum_: Polynomial) -> Polynomial | None:
    """The product that a sum is multiplied with in an index, None where it is not there whole."""
    first, number = next(iter(sum_.terms.items()))
    for monomial, factor in index.terms.items():
        rest = without(monomial, first)
        if rest is None or factor % number or not all(atom.is_size for atom in rest):
            continue
        times = Polynomial({rest: factor // number})
        left = index - sum_ * times
        if not any(term in left.terms for term in (sum_ * times).terms):
            return times
    return None


def _along(limits: Limits, axis: int) -> Polynomial | None:
    return limits[axis] if axis < len(limits) else constant(1)


def _size_part(value: Polynomial) -> Polynomial | None:
    """The sizes of `block * stride`, and a sum of sizes as it is: what has to be a multiple."""
    if _is_known(value):
        return value
    if len(value.terms) != 1:
        return None
    ((monomial, factor),) = value.terms.items()
    sizes = tuple(atom for atom in monomial if atom.is_size)
    return Polynomial({sizes: factor}) if sizes else None


def _is_known(value: Polynomial) -> bool:
    return all(atom.is_size for atom in value.atoms())


def _magnitude(stride: Polynomial) -> tuple[bool, int, int, int]:
    monomial, factor = max(stride.terms.items(), key=lambda term: len(term[0]))
    axes = [int(m[1]) for atom in monomial if (m := re.match(r"stride\(\w+, (\d)", atom.text))]
    return bool(axes), -min(axes, default=0), len(monomial), factor


def is_stride(value: Polynomial) -> bool:
    """Whether a sum is the distance between rows that the caller passes."""
    return any(atom.text.startswith("stride(") for atom in value.atoms())


def _split(extent: Polynomial, order: tuple[str, ...]) -> Iterator[Polynomial]:
    """A product of sizes, one by one."""
    if len(extent.terms) == 1:
        ((monomial, factor),) = extent.terms.items()
        if factor == 1 and len(monomial) > 1:
            known = {name: place for place, name in enumerate(order)}
            yield from map(of_atom, sorted(monomial, key=lambda a: known.get(a.text, -1)))
            return
    yield extent


def _gather(top: Polynomial, bounds: tuple[Bound, ...]) -> Gather | None:
    """The tensor whose elements choose along the outermost dimension, if one does."""
    loads = [a for a in top.atoms() if a.kind == "load"]
    if len(top.terms) != 1 or len(loads) != 1:
        return None
    limits = [limit for sum_, limit in bounds if sum_ == top and _is_known(limit)]
    return Gather(loads[0].text.partition("[")[0], limits[0] if limits else None)
