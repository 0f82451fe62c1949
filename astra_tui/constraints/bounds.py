"""What a number of a launch plan can be, over all calls: intervals, wide where nothing is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

from astra_tui.model.launch import DEVICE_ATTRIBUTES, LaunchPlan, Let, Tune
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Conditional,
    Expression,
    Integer,
    Name,
)

Interval = tuple[float, float]
_ANY: Interval = (0.0, math.inf)
"""Sizes are not negative; what else a plan computes may be, and is not bounded here."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of a plan's expressions. Tuned constants have the value that they have now."""

    plan: LaunchPlan

    def product(self, sizes: tuple[Expression, ...]) -> Interval:
        """Of one to three sizes of a grid or block."""
        low, high = 1.0, 1.0
        for size in sizes:
            least, most = self.of(size)
            low, high = low * max(least, 1.0), high * max(most, 1.0)
        return low, high

    def of(self, expression: Expression) -> Interval:
        """The least and the largest value that an expression can have."""
        match expression:
            case Integer(value=value):
                return value, value
            case Name(id=name):
                return self._named(name)
            case Call(function="min", args=args):
                parts = [self.of(a) for a in args]
                return min(p[0] for p in parts), min(p[1] for p in parts)
            case Call(function="max", args=args):
                parts = [self.of(a) for a in args]
                return max(p[0] for p in parts), max(p[1] for p in parts)
            case Call(function="sizeof"):
                return 0.5, 16
            case Conditional(when_true=a, when_false=b):
                (al, ah), (bl, bh) = self.of(a), self.of(b)
                return min(al, bl), max(ah, bh)
            case Binary(operator=operator, left=left, right=right):
                return _binary(operator, self.of(left), self.of(right))
            case _:
                return -math.inf, math.inf

    def _named(self, name: str) -> Interval:
        for declared in self.plan.declarations:
            match declared:
                case Tune(name=known, value=value) if known == name:
                    return value, value
                case Let(name=known, value=value) if known == name:
                    return self.of(value)
        if name in DEVICE_ATTRIBUTES:
            value = DEVICE_ATTRIBUTES[name]
            return (value, value) if name == "warp_size" else _ANY
        return -math.inf, math.inf


def _binary(operator: str, left: Interval, right: Interval) -> Interval:
    (al, ah), (bl, bh) = left, right
    if operator == "+":
        return al + bl, ah + bh
    if operator == "-":
        return al - bh, ah - bl
    if min(al, bl) < 0:
        return -math.inf, math.inf
    if operator == "*":
        return al * bl, math.inf if math.inf in (ah, bh) and min(ah, bh) != 0 else ah * bh
    if operator == "//" and bl == bh > 0:
        return al // bl, ah // bl if ah < math.inf else math.inf
    if operator == "%" and bl == bh > 0:
        return 0, min(ah, bl - 1)
    return -math.inf, math.inf
