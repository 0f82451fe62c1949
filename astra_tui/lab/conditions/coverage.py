"""Which side of each condition of a source some case has taken, kernel by kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from astra_tui.lab.compiler import Compiler
from astra_tui.lab.conditions.source import Condition, Instrumented, instrument
from astra_tui.model.check import ConditionResult
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import Sides

_TRIES = 3
"""How often a source is compiled, each time without the conditions that the compiler refused."""

_SIDES = ((True, 2), (False, 1))


@dataclass(frozen=True)
class Reporting:
    """A source whose conditions report their sides, compiled for the emulator."""

    source: Instrumented
    compilation: Compilation


def compile_reporting(
    compiler: Compiler, text: str, expressions: tuple[str, ...]
) -> Reporting | None:
    """Compiles a source so that its conditions report; None for a source without conditions.

    Conditions on lines that do not compile so are left as they are, and are named as unseen.
    """
    dropped: frozenset[int] = frozenset()
    for _ in range(_TRIES):
        source = instrument(text, dropped)
        if not source.conditions:
            break
        compilation = compiler.compile_to_ptx(source.text, expressions, source.header)
        if compilation.ok:
            return Reporting(source, compilation)
        lines = {d.line for d in compilation.errors if d.line}
        if lines <= dropped:
            break
        dropped |= lines
    every = instrument(text)
    unseen = (*every.unseen, *every.conditions)
    if not unseen:
        return None
    nothing = Instrumented(text, "", (), unseen)
    return Reporting(nothing, compiler.compile(text, expressions))


@dataclass(frozen=True)
class OpenSide:
    """One side of a condition in one kernel that nothing has taken yet."""

    kernel: str
    number: int
    side: bool


class Coverage:
    """The sides that were taken so far, by kernel and condition."""

    def __init__(self, source: Instrumented):
        self.source = source
        self.by_number = {c.number: c for c in source.conditions}
        self.possible: dict[str, Mapping[int, int]] = {}
        self.taken: dict[OpenSide, str] = {}
        """By side, the case that took it first."""
        self._bits: dict[str, dict[int, int]] = {}
        """The same by kernel and condition, as in `Sides.taken`."""

    def note(self, sides: Mapping[str, Sides], case: str) -> bool:
        """Adds what one run saw; whether that was something new."""
        before = len(self.taken)
        for kernel, seen in sides.items():
            self.possible[kernel] = seen.possible
            known = self._bits.setdefault(kernel, {})
            for number, bits in seen.taken.items():
                if not bits & ~known.get(number, 0):
                    continue
                known[number] = known.get(number, 0) | bits
                for side, bit in _SIDES:
                    if bits & bit:
                        self.taken.setdefault(OpenSide(kernel, number, side), case)
        return len(self.taken) > before

    @property
    def noted(self) -> tuple[int, int]:
        """How many kernels and sides were noted so far."""
        return len(self.possible), len(self.taken)

    def since(self, kernels: int, sides: int) -> dict[str, Sides]:
        """What was noted after the first so many kernels and sides, kernel by kernel."""
        bits: dict[str, dict[int, int]] = {name: {} for name in list(self.possible)[kernels:]}
        for side in list(self.taken)[sides:]:
            of_kernel = bits.setdefault(side.kernel, {})
            of_kernel[side.number] = of_kernel.get(side.number, 0) | (2 if side.side else 1)
        return {kernel: Sides(self.possible[kernel], seen) for kernel, seen in bits.items()}

    def may_take(self, kernels: Iterable[str]) -> bool:
        """Whether another run of these kernels could take a side that none has taken."""
        if not self.source.conditions:
            return False
        return any(k not in self.possible or self._is_open(k) for k in kernels)

    def _is_open(self, kernel: str) -> bool:
        known = self._bits[kernel]
        return any(bits & ~known.get(n, 0) for n, bits in self.possible[kernel].items())

    def taken_by(self, side: OpenSide) -> str:
        """The case that took a side first, or ""."""
        return self.taken.get(side, "")

    def open(self) -> list[OpenSide]:
        """The sides that no run took, although the compiler left them."""
        return [
            OpenSide(kernel, number, side)
            for kernel, possible in self.possible.items()
            for number, bits in sorted(possible.items())
            for side, bit in _SIDES
            if bits & bit and OpenSide(kernel, number, side) not in self.taken
        ]

    def unseen(self) -> list[ConditionResult]:
        """The conditions that report in no kernel."""
        return [_result(condition, "", True) for condition in self.source.unseen]

    def result(self, side: OpenSide) -> ConditionResult:
        """An open side, as the report has it."""
        return _result(self.by_number[side.number], side.kernel, side.side)


def _result(condition: Condition, kernel: str, side: bool) -> ConditionResult:
    return ConditionResult(
        kernel=kernel,
        line=condition.line,
        column=condition.column,
        text=condition.text,
        function=condition.function,
        side=side,
        key=condition.key,
    )
