"""Reads yardsticks.toml, as strictly as task.toml: errors name file, line, key and nearest name.

It is a file of its own because a task's hash covers what correctness means, and what others ship
changes every month.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place, nearest
from astra_tui.model.launch import PlanError, validate_plan
from astra_tui.model.pin import Pin, is_safe
from astra_tui.model.task.table import Table, TaskError
from astra_tui.model.task.task import KernelTask
from astra_tui.model.task.upstream import take_pin
from astra_tui.model.task.yardstick import (
    Code,
    Generated,
    Generator,
    MachineCode,
    OutOfReach,
    ParameterType,
    ParameterTypes,
    ShippedSource,
    Yardstick,
)

MAX_FILE_BYTES = 1 << 20
_MAX_DEPTH = 4
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ARCH = re.compile(r"sm_\d{2,3}[af]?")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$.]*", re.ASCII)
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_FLAG = re.compile(
    r"--use_fast_math|--fmad=(?:true|false)|--std=c\+\+(?:17|20)|-D[A-Za-z_]\w*(?:=\w+)?"
)


def load_yardsticks(task: KernelTask) -> tuple[Yardstick, ...]:
    """The yardsticks of a task; none where it has no yardsticks.toml. Raises TaskError."""
    file = task.yardsticks_file
    if not file.is_file():
        return ()
    if file.stat().st_size > MAX_FILE_BYTES:
        raise TaskError(f"larger than {MAX_FILE_BYTES} bytes", file=str(file))
    return parse_yardsticks(file.read_text(encoding="utf-8", errors="replace"), task)


def parse_yardsticks(text: str, task: KernelTask) -> tuple[Yardstick, ...]:
    """Parses the text of a task's yardsticks.toml. Raises TaskError."""
    file = str(task.yardsticks_file)
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        line = re.search(r"line (\d+)", str(error))
        place = Place(int(line[1])) if line else Place()
        raise TaskError(f"not valid TOML: {error}", file=file, place=place) from None
    return _Loader(Table(data, (), file, text), task).yardsticks()


class _Loader:
    def __init__(self, top: Table, task: KernelTask):
        self.top = top
        self.task = task

    def yardsticks(self) -> tuple[Yardstick, ...]:
        pins = self._packages(self.top.table("packages"))
        found: dict[str, Yardstick] = {}
        for entry in self.top.tables("yardsticks"):
            yardstick = self._yardstick(entry, pins)
            entry.close()
            if yardstick.name in found:
                entry.fail(f"two yardsticks are named '{yardstick.name}'", "name")
            self._check_launch(entry, yardstick)
            found[yardstick.name] = yardstick
        self.top.close()
        return tuple(found.values())

    def _packages(self, table: Table) -> dict[str, Pin]:
        pins = {}
        for name, entry in table.entries("package"):
            pins[name] = take_pin(entry, name)
        return pins

    def _yardstick(self, entry: Table, pins: Mapping[str, Pin]) -> Yardstick:
        name = entry.take("name", str)
        if not _NAME.fullmatch(name):
            entry.fail(
                f"{name[:80]!r} is not a name: small letters, digits and underscores", "name"
            )
        arch = entry.take("arch", str)
        if not _ARCH.fullmatch(arch):
            entry.fail(f"{arch[:80]!r} is no architecture such as sm_90a", "arch")
        code = self._code(entry)
        is_launched = not isinstance(code, OutOfReach)
        return Yardstick(
            name=name,
            about=entry.take("about", str),
            package=entry.choice("package", pins),
            arch=arch,
            launch=entry.take("launch", str) if is_launched else "grid=1 block=1 args=()",
            requires=entry.take("requires", str, ""),
            parameters=(
                _parameters(entry, entry.take("parameters", list), 1) if is_launched else ()
            ),
            pdl=entry.take("pdl", bool, False),
            code=code,
        )

    def _code(self, entry: Table) -> Code:
        readers: dict[str, Callable[[Table], Code]] = {
            "machine_code": self._machine_code,
            "source": self._source,
            "generated": self._generated,
            "out_of_reach": self._out_of_reach,
        }
        kinds = [key for key in readers if key in entry.data]
        if len(kinds) != 1:
            entry.fail(f"should have one of {', '.join(f'[yardsticks.{key}]' for key in readers)}")
        code = entry.table(kinds[0])
        found = readers[kinds[0]](code)
        code.close()
        return found

    def _out_of_reach(self, code: Table) -> OutOfReach:
        return OutOfReach(code.take("reason", str), self._dtypes(code))

    def _dtypes(self, code: Table) -> tuple[DType, ...]:
        names = code.strings("dtypes", [d.value for d in self.task.dtypes])
        return tuple(self._dtype(code, "dtypes", n) for n in names)

    def _machine_code(self, code: Table) -> MachineCode:
        symbols = code.table("symbols")
        found = {}
        for name in symbols.data:
            dtype = self._dtype(symbols, name, name)
            found[dtype] = symbols.take(name, str)
            if not _SYMBOL.fullmatch(found[dtype]):
                symbols.fail("should be the mangled name of a kernel", name)
        if not found:
            symbols.fail("names no kernel", hint='write: float16 = "_Z..."')
        return MachineCode(_path(code, "file", code.take("file", str)), found)

    def _source(self, code: Table) -> ShippedSource:
        stand_ins = code.table("stand_ins", required=False)
        headers = {_path(stand_ins, n, n): stand_ins.take(n, str) for n in stand_ins.data}
        flags = code.strings("flags", [])
        for flag in flags:
            if not _FLAG.fullmatch(flag):
                code.fail(
                    f"the flag {flag[:80]!r} is refused", "flags", f"allowed: {_FLAG.pattern}"
                )
        kernel = code.take("kernel", str)
        if not kernel.strip() or not kernel.isprintable():
            code.fail("should be one line of C++ that names a kernel", "kernel")
        return ShippedSource(
            text=code.take("text", str),
            kernel=kernel,
            include=tuple(_path(code, "include", n) for n in code.strings("include")),
            flags=flags,
            stand_ins=headers,
            dtypes=self._dtypes(code),
        )

    def _generated(self, code: Table) -> Generated:
        generators = {g.value: g for g in Generator}
        constants = code.strings("constants", [])
        for name in constants:
            if name not in self.task.dims:
                hint = nearest(name, self.task.dims)
                code.fail(f"the task has no dimension '{name}'", "constants", hint)
        numbers = code.strings("numbers", [])
        for name in numbers:
            if not _NAME.fullmatch(name):
                code.fail(f"{name[:80]!r} is not a name", "numbers")
        stand_ins = code.table("stand_ins", required=False)
        for name in stand_ins.data:
            if not _MODULE.fullmatch(name):
                stand_ins.fail(f"{name[:80]!r} is not the name of a module", name)
        return Generated(
            by=code.choice("by", generators),
            text=code.take("text", str),
            constants=constants,
            numbers=numbers,
            stand_ins={n: stand_ins.take(n, str) for n in stand_ins.data},
            dtypes=self._dtypes(code),
        )

    def _dtype(self, table: Table, key: str, name: str) -> DType:
        known = {d.value: d for d in self.task.dtypes}
        if name not in known:
            table.fail(f"the task has no type '{name}'", key, nearest(name, known))
        return known[name]

    def _check_launch(self, entry: Table, yardstick: Yardstick) -> None:
        """The plan is valid for the task, and passes what the parameters take."""
        try:
            plan = yardstick.plan(True)
            validate_plan(plan, self.task.scope)
        except PlanError as error:
            in_condition = yardstick.requires and error.place.line == 1 + len(yardstick.numbers)
            entry.fail(error.message, "requires" if in_condition else "launch", error.hint)
        taken, passed = len(yardstick.leaves()), len(next(plan.launches()).args)
        if taken != passed:
            entry.fail(f"the launch passes {passed} values, the parameters take {taken}", "launch")


def _parameters(entry: Table, items: list[Any], depth: int) -> ParameterTypes:
    types = {t.value: t for t in ParameterType}
    found: list[ParameterType | ParameterTypes] = []
    for item in items:
        if isinstance(item, list) and item and depth < _MAX_DEPTH:
            found.append(_parameters(entry, item, depth + 1))
        elif isinstance(item, str) and item in types:
            found.append(types[item])
        else:
            hint = nearest(item, types) if isinstance(item, str) else "a list is a structure"
            entry.fail(f"{str(item)[:80]!r} is no parameter type", "parameters", hint)
    return tuple(found)


def _path(table: Table, key: str, path: str) -> str:
    if not is_safe(path) and path != ".":
        table.fail(f"{path[:80]!r} is no path inside of a package", key)
    return path
