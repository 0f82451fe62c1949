"""Division of a thread's flat index by a size that is known at launch: a product and a shift.

Granlund and Montgomery, "Division by invariant integers using multiplication", 1994: with
m = ceil(2^s / d), floor(n / d) is (n * m) >> s for all n up to 2^b, where 2^s is at least 2^b * d.
With b = 27 the product stays below 2^64, for divisors below 2^10 with s = 37 and below 2^20 with
s = 47.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.model.launch import Let
from astra_tui.model.launch.expression import (
    Call,
    Compare,
    Conditional,
    Expression,
    Integer,
    Name,
)

_MOST = 1 << 27
"""Numbers that are divided are smaller."""
_SMALL, _LARGE = 1 << 10, 1 << 20
_SHIFTS = (37, 47)


@dataclass(frozen=True)
class Divisor:
    """A size by which kernels divide, as lets of a launch plan."""

    size: Let
    shift: Let
    magic: Let

    @classmethod
    def of(cls, size: Expression, name: str, taken: set[str]) -> Divisor:
        """The lets for a size; their names are taken then."""
        across = Let(fresh_name(name, taken), size)
        small = Compare(Name(across.name), (("<", Integer(_SMALL)),))
        shift, power = (
            Conditional(small, Integer(low), Integer(high))
            for low, high in (_SHIFTS, (1 << _SHIFTS[0], 1 << _SHIFTS[1]))
        )
        least = Call("max", (Name(across.name), Integer(1)))
        return cls(
            across,
            Let(fresh_name("shift", taken), shift),
            Let(fresh_name("magic", taken), Call("ceil_div", (power, least))),
        )

    @property
    def lets(self) -> tuple[Let, ...]:
        """What the plan declares."""
        return self.size, self.shift, self.magic

    @property
    def args(self) -> tuple[Expression, ...]:
        """What a launch passes for `parameters`."""
        return tuple(Name(let.name) for let in self.lets)

    @property
    def parameters(self) -> tuple[str, ...]:
        """What a kernel takes besides."""
        return (
            f"unsigned {self.size.name}",
            f"int {self.shift.name}",
            f"unsigned long long {self.magic.name}",
        )

    def quotient(self, number: str) -> str:
        """The C++ expression for a number of 32 bits divided by the size."""
        return f"(unsigned)({number} * {self.magic.name} >> {self.shift.name})"

    def conditions(self, total: Expression) -> list[Expression]:
        """When it is exact, for numbers below a total."""
        return [
            Compare(Name(self.size.name), (("<", Integer(_LARGE)),)),
            Compare(total, (("<=", Integer(_MOST)),)),
        ]
