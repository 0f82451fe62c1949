"""Finds a task, and reads its task.toml strictly: errors name file, line, key and nearest name."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from astra_tui.model.device import ArgumentRole
from astra_tui.model.dtypes import FLOATS, NUMBERS, TENSOR_ONLY, DType, NumberKind
from astra_tui.model.errors import Place, nearest
from astra_tui.model.findings import ACCEPTABLE, Acceptance
from astra_tui.model.launch.expression import Expression, names_in
from astra_tui.model.launch.expression_parser import parse_expression
from astra_tui.model.launch.plan import PlanError
from astra_tui.model.launch.printer import print_expression
from astra_tui.model.launch.scope import ELEMENT_TYPE, RESERVED_NAMES, Scope, TensorType
from astra_tui.model.launch.validate import Kind, kind_of
from astra_tui.model.task.table import Table, TaskError, line_of, shown_path
from astra_tui.model.task.task import (
    NAME_RULE,
    Argument,
    Dimension,
    ExtraCase,
    KernelTask,
    Tolerance,
    Workload,
    is_task_name,
)
from astra_tui.model.task.upstream import load_upstream
from astra_tui.model.task_folders import list_tasks
from astra_tui.model.values import Distinct, ValueKind, Values, finite_number

MAX_FILE_BYTES = 1 << 20
MAX_SIZE = 1 << 31
MAX_SHOWN = 80

FLOOR_SIZES = (1, 2, 3, 7, 8, 31, 32, 33, 64, 111, 128, 257, 613)
"""Sizes to try for a dimension whose task names none: tiny, odd, prime, around a warp."""

_DTYPES: Mapping[str, DType | None] = {ELEMENT_TYPE: None, **{d.value: d for d in DType}}
_ROLES = {r.value: r for r in ArgumentRole if r is not ArgumentRole.WORKSPACE}
_SPECIAL = {"nan", "inf", "-inf"}
_PLANTED = {*_SPECIAL, "-0", "limit"}
_WHOLE_KINDS = (ValueKind.INTEGERS, ValueKind.ARANGE, ValueKind.OFFSETS)
_LARGEST_WHOLE = 2.0**53


def find_task(name: str) -> KernelTask:
    """Loads a task by path or name. Raises TaskError that names the nearest known one."""
    path = Path(name)
    if path.name == "task.toml":
        path = path.parent
    try:
        has_task, is_folder = (path / "task.toml").is_file(), path.is_dir()
    except OSError:  # a name that no file can have
        has_task = is_folder = False
    if has_task:
        return load_task(path)
    known = {found.name: found.folder for found in list_tasks()}
    if name in known:
        return load_task(known[name])
    if is_folder:
        return load_task(path)
    raise TaskError(f"there is no kernel task '{name}'", hint=nearest(name, known))


def load_task(folder: Path) -> KernelTask:
    """Loads the task in a folder. Raises TaskError when a file is missing or wrong."""
    file = folder / "task.toml"
    if not file.is_file():
        raise TaskError(
            "not a kernel task: this folder has no task.toml",
            file=str(folder),
            hint="make one with: astra-tui new FOLDER --from kernel.cu",
        )
    if file.stat().st_size > MAX_FILE_BYTES:
        raise TaskError(f"larger than {MAX_FILE_BYTES} bytes", file=str(file))
    task = parse_task(file.read_text(encoding="utf-8", errors="replace"), folder)
    for needed in (task.reference_file, task.baseline_file):
        if not needed.is_file():
            raise TaskError(f"{needed.name} is missing in its folder", file=str(file))
    return replace(task, upstream=load_upstream(folder))


def parse_task(text: str, folder: Path) -> KernelTask:
    """Parses the text of a task.toml that lies, or would lie, in `folder`."""
    file = str(folder / "task.toml")
    return _Loader(Table(_toml(text, file), (), file, text), folder).task()


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise TaskError("not valid TOML: nested too deeply", file=file) from None
    except tomllib.TOMLDecodeError as error:
        message, _, where = str(error).partition(" (at ")
        numbers = [int(n) for n in re.findall(r"\d+", where)]
        place = Place(*numbers) if len(numbers) == 2 else Place(text.count("\n") + 1)
        raise TaskError(f"not valid TOML: {message}", file=file, place=place) from None
    except ValueError:  # int() refuses thousands of digits
        raise TaskError("not valid TOML: a number has too many digits", file=file) from None


class _Loader:
    def __init__(self, top: Table, folder: Path):
        self.top = top
        self.folder = folder
        self.scope = Scope(frozenset(), {}, {})
        self.rows = ""
        self.drawable: dict[Expression, str] = {}
        """Conditions of the contract: inputs whose values follow dimensions have some."""

    def task(self) -> KernelTask:
        top = self.top
        name = top.take("name", str)
        if not is_task_name(name):
            top.fail(f"{name[:MAX_SHOWN]!r} is not a valid task name", "name", f"it is {NAME_RULE}")
        summary = top.take("summary", str)
        origin = top.take("origin", str, "")
        dtypes = self._dtypes()
        dims = self._dimensions(top.table("dims"))
        self.scope = Scope(frozenset(dims), {}, {})
        rows = top.take("rows", str, "")
        if rows and rows not in dims:
            top.fail(f"unknown dimension '{rows}'", "rows", nearest(rows, dims))
        self.rows = rows
        args = self._arguments(top.table("args"), dtypes)
        contract = top.table("contract", required=False)
        accepts_text = contract.strings("accepts", [])
        tensors = {n: TensorType(a.dtype, len(a.shape)) for n, a in args.items() if a.is_tensor}
        accepts = tuple(
            self._expression(contract, "accepts", text, Kind.TRUTH, tensors)
            for text in accepts_text
        )
        contract.close()
        accepts_text += tuple(self.drawable.values())
        accepts += tuple(self.drawable)
        cost = top.table("cost")
        bytes_moved = self._expression(cost, "bytes", cost.take("bytes", str), Kind.INTEGER)
        flops = self._expression(cost, "flops", cost.take("flops", str), Kind.INTEGER)
        cost.close()
        workloads = top.tables("workloads")
        task = KernelTask(
            name=name,
            summary=summary,
            origin=origin,
            dtypes=dtypes,
            rows=rows,
            dims=dims,
            args=args,
            accepts=accepts,
            accepts_text=accepts_text,
            tolerances=self._tolerances(dtypes, args),
            bytes_moved=bytes_moved,
            flops=flops,
            workloads=tuple(self._workload(t, dims, dtypes) for t in workloads),
            cases=self._cases(dims, args, dtypes),
            folder=self.folder,
            text=top.text,
            accepted=tuple(map(_acceptance, top.tables("accept"))),
            deterministic=top.take("deterministic", bool, False),
        )
        top.close()
        if not workloads:
            top.fail("no workload", hint="add [[workloads]] with dims = { ... }")
        for table, workload in zip(workloads, task.workloads, strict=True):
            self._check_workload(table, workload, task)
        if task.rows:
            self._check_rows(task)
        self._check_pairs(task)
        return task

    def _dtypes(self) -> tuple[DType, ...]:
        names = self.top.strings("dtypes")
        for name in names:
            if name in {dtype.value for dtype in TENSOR_ONLY}:
                self.top.fail(
                    f"{name} cannot be T: its elements share bytes",
                    "dtypes",
                    f'give the tensor dtype = "{name}"',
                )
            if name not in FLOATS:
                self.top.fail(f"unknown type '{name}'", "dtypes", nearest(name, FLOATS))
        if not names or len(set(names)) != len(names):
            self.top.fail("should list at least one type, each once", "dtypes")
        return tuple(FLOATS[name] for name in names)

    def _dimensions(self, table: Table) -> dict[str, Dimension]:
        dims = {}
        for name, entry in table.entries("dimension"):
            self._check_name(entry, name)
            sizes = entry.integers("sizes", FLOOR_SIZES)
            typical = entry.take("typical", int, max(s for s in (*sizes, 1) if s <= 128))
            dims[name] = Dimension(name, entry.take("about", str, ""), typical, sizes)
            entry.close()
            if not sizes:
                entry.fail("name at least one size to try, or leave the key out", "sizes")
            for size in sizes:
                _check_size(entry, "sizes", size)
            _check_size(entry, "typical", typical)
        if not dims:
            table.fail("an operator has at least one dimension")
        return dims

    def _arguments(self, table: Table, dtypes: tuple[DType, ...]) -> dict[str, Argument]:
        args = {}
        for name, entry in table.entries("argument"):
            self._check_name(entry, name)
            if name in self.scope.dims:
                entry.fail(f"'{name}' is a dimension already")
            if "role" not in entry.data:
                entry.fail("this argument has no role", hint="role = in, out, inout or scalar")
            role = entry.choice("role", _ROLES)
            if role is ArgumentRole.SCALAR:
                args[name] = self._scalar(name, role, entry)
            else:
                args[name] = self._tensor(name, role, entry, dtypes)
            entry.close()
        if not any(a.is_written for a in args.values()):
            table.fail("no argument is written", hint="the result has the role out or inout")
        return args

    def _tensor(
        self, name: str, role: ArgumentRole, entry: Table, dtypes: tuple[DType, ...]
    ) -> Argument:
        shape = tuple(
            self._expression(entry, "shape", text, Kind.INTEGER) for text in entry.strings("shape")
        )
        if not shape:
            entry.fail("a tensor has at least one size", "shape", "a number has the role scalar")
        dtype = entry.choice("dtype", _DTYPES, ELEMENT_TYPE)
        floating = dtype is None or dtype.is_float
        special = entry.strings("special", [])
        for value in special:
            if value not in _SPECIAL and finite_number(value) is None:
                entry.fail(f"unknown special value '{value}'", "special", nearest(value, _SPECIAL))
        types = (dtype,) if dtype is not None else dtypes
        _check_held(entry, "special", special, types)
        limit = entry.take("limit", float, math.inf)
        if not limit > 0 or (not floating and limit != math.inf):
            entry.fail("limit is a positive magnitude, for floating-point tensors", "limit")
        strided = entry.take("strided", bool, False)
        if strided and len(shape) < 2:
            entry.fail("only a tensor of two or more dimensions has rows to lie apart", "strided")
        stable = entry.take("stable", bool, False)
        if stable and role is not ArgumentRole.IN:
            entry.fail("only an argument that is read alone can be stable", "stable")
        values = self._values(entry, "values", _default_values(dtype), types)
        _check_rows(entry, values, types, limit, special)
        if set(special) - _SPECIAL and not (floating and values.kind is ValueKind.UNIFORM):
            text = "only a uniform input of floats has numbers outside of its range"
            entry.fail(text, "special", "others may hold any number as it is")
        if role is not ArgumentRole.OUT and (
            values.low_text or values.high_text or values.distinct or values.apart
        ):
            text = _has_values(values, tuple(map(print_expression, shape)))
            self.drawable[self._expression(entry, "values", text, Kind.TRUTH)] = text
        return Argument(
            name=name,
            role=role,
            about=entry.take("about", str, ""),
            dtype=dtype,
            stable=stable,
            shape=shape,
            values=values,
            limit=None if limit == math.inf else limit,
            special=special,
            strided=strided,
        )

    def _scalar(self, name: str, role: ArgumentRole, entry: Table) -> Argument:
        dtype = entry.choice("dtype", NUMBERS)
        choices = entry.numbers("choices")
        if not choices:
            entry.fail("name at least one value to pass", "choices")
        for value in choices:
            if not dtype.is_float:
                low, high = dtype.integer_range
                if not value.is_integer() or not low <= value <= high:
                    entry.fail(f"{value:g} is no {dtype.value}", "choices")
        between = entry.numbers("between", [])
        are_ends = len(between) == 2 and -math.inf < between[0] < between[1] < math.inf
        if between and not (dtype.is_float and are_ends):
            entry.fail("is a lower and a higher number, of a floating-point scalar", "between")
        return Argument(
            name=name,
            role=role,
            about=entry.take("about", str, ""),
            dtype=dtype,
            choices=choices,
            between=(between[0], between[1]) if between else None,
        )

    def _values(self, table: Table, key: str, default: Values, dtypes: tuple[DType, ...]) -> Values:
        if key not in table.data:
            table.known.add(key)
            return default
        entry = table.table(key)
        kind = entry.choice("kind", {k.value: k for k in ValueKind})
        low, low_text = self._bound(entry, "low", 0.0)
        high, high_text = self._bound(entry, "high", 1.0)
        distinct = Distinct.NONE
        if "distinct" in entry.data:
            distinct = entry.choice("distinct", {d.value: d for d in Distinct if d})
        values = Values(
            kind=kind,
            low=low,
            high=high,
            planted=entry.strings("planted", []),
            low_text=low_text,
            high_text=high_text,
            distinct=distinct,
            apart=entry.take("apart", int, 0),
        )
        if distinct and (kind is not ValueKind.INTEGERS or values.planted):
            entry.fail("only integers are distinct, and nothing is planted into them", "distinct")
        if values.apart < 0 or (values.apart and kind is not ValueKind.OFFSETS):
            entry.fail("offsets are 0 or more apart, and other values have no such key", "apart")
        for value in values.planted:
            if value not in _PLANTED:
                entry.fail(f"unknown special value '{value}'", "planted", nearest(value, _PLANTED))
        _check_held(entry, "planted", values.planted, dtypes)
        entry.close()
        if not low_text and not high_text:
            _check_range(entry, values)
        elif kind not in _WHOLE_KINDS:
            entry.fail("only whole numbers follow dimensions", "high" if high_text else "low")
        return values

    def _bound(self, entry: Table, key: str, default: float) -> tuple[float, str]:
        """One end of a range: a number, or the text of an expression over dimensions."""
        text = entry.data.get(key)
        if not isinstance(text, str):
            return entry.take(key, float, default), ""
        expression = self._expression(entry, key, entry.take(key, str), Kind.INTEGER)
        if self.rows in names_in(expression):
            entry.fail(
                f'"{text}" follows {self.rows}: rows whose values do are not independent',
                key,
                "take the key 'rows' out of the task",
            )
        return 0.0, text

    def _tolerances(
        self, dtypes: tuple[DType, ...], args: Mapping[str, Argument]
    ) -> dict[DType, Tolerance]:
        table = self.top.table("tolerance")
        found: dict[DType, Tolerance] = {}
        names: dict[str, DType] = {d.value: d for d in DType if d.kind is not NumberKind.BOOL}
        for name, entry in table.entries("tolerance"):
            if name not in names:
                entry.fail(f"unknown type '{name}'", hint=nearest(name, names))
            dtype = names[name]
            found[dtype] = self._tolerance(dtype, entry)
            entry.close()
            for key in ("atol", "rtol", "relative_l2", "cancelled"):
                if not 0 <= getattr(found[dtype], key) < math.inf:
                    entry.fail("a tolerance is a finite number, 0 or more", key)
        for argument in args.values():
            for dtype in (argument.dtype,) if argument.dtype else dtypes:
                if argument.is_written and dtype.is_float and dtype not in found:
                    table.fail(
                        f"no tolerance for {dtype.value}, the type of {argument.name}",
                        hint=f"add [tolerance.{dtype.value}] with atol, rtol and source",
                    )
        return found

    def _tolerance(self, dtype: DType, entry: Table) -> Tolerance:
        """Of whole numbers there is `atol` alone."""
        if not dtype.is_float:
            return Tolerance(entry.take("atol", float), 0.0, 0.0, entry.take("source", str))
        return Tolerance(
            atol=entry.take("atol", float),
            rtol=entry.take("rtol", float),
            relative_l2=entry.take("relative_l2", float, dtype.common_tolerance[2]),
            source=entry.take("source", str),
            cancelled=entry.take("cancelled", float, 0.0),
        )

    def _workload(
        self, table: Table, dims: Mapping[str, Dimension], dtypes: tuple[DType, ...]
    ) -> Workload:
        sizes = self._sizes(table, dims)
        dtype = table.choice("dtype", {d.value: d for d in dtypes}, dtypes[0].value)
        name = table.take("name", str, "x".join(str(size) for size in sizes.values()))
        weight = table.take("weight", float, 1.0)
        if not 0 < weight < math.inf:
            table.fail("should be above 0", "weight", "leave out a workload that does not count")
        table.close()
        return Workload(name, sizes, dtype, weight)

    def _cases(
        self,
        dims: Mapping[str, Dimension],
        args: Mapping[str, Argument],
        dtypes: tuple[DType, ...],
    ) -> tuple[ExtraCase, ...]:
        cases: dict[str, ExtraCase] = {}
        for table in self.top.tables("cases"):
            case = self._case(table, dims, args, dtypes)
            if case.name in cases:
                table.fail(f"two cases are named '{case.name}'", "name", "names tell cases apart")
            cases[case.name] = case
        return tuple(cases.values())

    def _case(
        self,
        table: Table,
        dims: Mapping[str, Dimension],
        args: Mapping[str, Argument],
        dtypes: tuple[DType, ...],
    ) -> ExtraCase:
        values = table.table("values", required=False)
        overrides = {}
        for name, _ in values.entries("the values of"):
            if name not in args or not args[name].is_read:
                readable = [a.name for a in args.values() if a.is_read]
                values.fail("no such input", name, nearest(name, readable))
            of_type = args[name].dtype
            types = (of_type,) if of_type is not None else dtypes
            overrides[name] = self._values(values, name, Values(), types)
        known = [d.value for d in dtypes]
        names = table.strings("dtypes", known)
        for dtype in names:
            if dtype not in known:
                table.fail(f"the task has no type '{dtype}'", "dtypes", nearest(dtype, known))
        if not names:
            table.fail("should list at least one type, or be left out", "dtypes")
        case = ExtraCase(
            name=table.take("name", str),
            why=table.take("why", str),
            dims=self._sizes(table, dims),
            values=overrides,
            dtypes=tuple(d for d in dtypes if d.value in names),
        )
        table.close()
        return case

    def _sizes(self, table: Table, dims: Mapping[str, Dimension]) -> dict[str, int]:
        given = table.table("dims")
        for name in given.data:
            if name not in dims:
                given.fail("unknown dimension", name, nearest(name, dims))
        sizes = {name: given.take(name, int) for name in dims}
        for name, size in sizes.items():
            _check_size(given, name, size)
        return sizes

    def _expression(
        self,
        table: Table,
        key: str,
        text: str,
        kind: Kind,
        tensors: Mapping[str, TensorType] | None = None,
    ) -> Expression:
        """Parses an expression over dimensions, and the layout of `tensors`.

        Errors name the key and the place.
        """
        path = (*table.path, key)
        try:
            expression = parse_expression(text, self._place(path, text))
            found = kind_of(expression, replace(self.scope, tensors=tensors or {}))
        except PlanError as error:
            raise TaskError(
                f'{shown_path(path)}: "{text}": {error.message}',
                file=table.file,
                place=error.place,
                hint=error.hint,
            ) from None
        if found is not kind:
            hint = "use // for integer division" if found is Kind.FLOAT else ""
            table.fail(f'"{text}" is {found.value}; it has to be {kind.value}', key, hint)
        return expression

    def _place(self, path: tuple[str | int, ...], text: str) -> Place:
        """Where the text of a value begins: at its key's line, or on a line below in a list."""
        first = max(line_of(self.top.text, path), 1)
        lines = self.top.text.split("\n")
        for number, line in enumerate(lines[first - 1 :], first):
            column = max(line.find(f'"{text}"'), line.find(f"'{text}'"))
            if column >= 0:
                return Place(number, column + 2)
        return Place(first, 1)

    def _check_name(self, entry: Table, name: str) -> None:
        if not name.isidentifier() or not name.isascii():
            entry.fail(f"'{name}' is no valid name", hint="use letters, digits and underscores")
        if name in RESERVED_NAMES:
            entry.fail(
                f"'{name}' has a meaning of its own in launch plans or in Python",
                hint=f"choose another name, such as {name}_",
            )

    def _check_workload(self, table: Table, workload: Workload, task: KernelTask) -> None:
        """Names are unique, the contract holds, and every size and cost can be computed."""
        first = next(w for w in task.workloads if w.name == workload.name)
        if first is not workload:
            table.fail(f"two workloads are named '{workload.name}'", hint="give one a name = ...")
        dims, dtype = workload.dims, workload.dtype
        try:
            broken = task.violated(dims, dtype) or task.broken(
                task.bindings(dims, dtype, task.placements(dims, dtype, within_contract=False))
            )
            if broken:
                table.fail(f"workload {workload.name} breaks the contract: {broken}")
            task.elements(dims, dtype)
            task.compulsory_bytes(dims, dtype)
            task.compulsory_flops(dims, dtype)
        except PlanError as error:
            raise TaskError(
                f"workload {workload.name}: {error.message}", file=table.file, place=error.place
            ) from None

    def _check_rows(self, task: KernelTask) -> None:
        """Rows can be permuted only if every written tensor has them as its first dimension."""
        for argument in task.outputs:
            first = argument.shape[0]
            if getattr(first, "id", None) != task.rows:
                self.top.fail(
                    f"{argument.name} does not have {task.rows} as its first size", "rows"
                )

    def _check_pairs(self, task: KernelTask) -> None:
        """The contract has to keep elements together that share a byte."""
        typical = {name: dim.typical for name, dim in task.dims.items()}
        tried = [w.dims for w in task.workloads]
        for name, dim in task.dims.items():
            tried += [typical | {name: s} for s in (*dim.sizes, dim.typical, dim.typical + 1)]
        for dims in tried:
            if task.violated(dims, task.dtypes[0]):
                continue
            cut = task.cut_item(dims, task.dtypes[0])
            if cut is not None and cut.dtype is not None:
                sizes = ", ".join(f"{n} = {size}" for n, size in dims.items())
                self.top.fail(
                    f"{cut.name} holds {cut.dtype.per_item} elements of {cut.dtype.value} in a "
                    f"byte, and the contract accepts {sizes}, where a row ends inside of one",
                    hint='have the contract exclude it, such as accepts = ["d % 2 == 0"]',
                )


def _check_held(table: Table, key: str, names: Iterable[str], dtypes: tuple[DType, ...]) -> None:
    """Whether all types of an argument have the special values that it names."""
    for dtype in dtypes:
        for name in names:
            if name in _SPECIAL and dtype.is_float and name not in dtype.specials:
                kind = "NaN" if name == "nan" else "infinity"
                table.fail(f"{dtype.value} has no {kind}", key)


def _acceptance(table: Table) -> Acceptance:
    """One ruling of an engineer: what is accepted, where, and the reason."""
    reason = table.take("reason", str)
    if not reason.strip():
        table.fail("say why this is accepted: every report shows it", "reason")
    kinds = {kind.value: kind for kind in ACCEPTABLE}
    accepted = Acceptance(
        reason=reason,
        finding=table.choice("finding", kinds) if "finding" in table.data else None,
        condition=table.take("condition", str, ""),
        source=table.take("source", str, ""),
        function=table.take("function", str, ""),
        text=table.take("text", str, ""),
    )
    table.known.add("finding")
    table.close()
    if (accepted.finding is None) == (not accepted.condition.strip()):
        table.fail("names either a finding or a condition", hint='finding = "global_race"')
    return accepted


def _check_rows(
    entry: Table, values: Values, dtypes: tuple[DType, ...], limit: float, special: tuple[str, ...]
) -> None:
    """Whether rows whose numbers follow from each other can be drawn for an argument."""
    kind = values.kind
    if not kind.is_of_rows:
        return
    if any(dtype.is_float is not (kind is ValueKind.DISTRIBUTION) for dtype in dtypes):
        whole = "whole numbers" if kind is ValueKind.OFFSETS else "floating-point numbers"
        entry.fail(f"{kind.value} are {whole}", "values")
    if values.planted or special or limit != math.inf:
        entry.fail(f"nothing is planted into {kind.value}, nor do they have a limit", "values")
    if kind is ValueKind.DISTRIBUTION and (values.low, values.high) != (0.0, 1.0):
        entry.fail("a distribution has neither low nor high: its rows sum to 1", "values")


def _has_values(values: Values, shape: tuple[str, ...]) -> str:
    """The condition under which whole numbers can be drawn for a tensor of some shape."""
    low, high = values.low_text or str(math.ceil(values.low)), values.high_text
    span = f"{high} - ({low}) + 1" if high else f"{math.floor(values.high) + 1} - ({low})"
    sizes = [f"({size})" for size in shape]
    match values.distinct:
        case Distinct.NONE if values.apart:
            count = f"({sizes[-1]} - 1) * {values.apart} + 1"
        case Distinct.NONE:
            count = "1"
        case Distinct.TENSOR:
            count = " * ".join(sizes)
        case Distinct.ROWS:
            count = sizes[-1]
    text = " or ".join((*(f"{size} == 0" for size in sizes), f"{span} >= {count}"))
    return print_expression(parse_expression(text))


def _check_size(table: Table, key: str, size: int) -> None:
    if not 0 <= size <= MAX_SIZE:
        table.fail(f"a size of {size} is out of range", key, f"sizes go from 0 to {MAX_SIZE}")


def _check_range(table: Table, values: Values) -> None:
    """Whether numbers can be drawn from a distribution."""
    low, high = values.low, values.high
    if values.kind is ValueKind.CONSTANT:
        return
    for key, value in (("low", low), ("high", high)):
        if not math.isfinite(value):
            table.fail(f"{value} is no finite number", key, "only a constant may be infinite")
        if values.kind in _WHOLE_KINDS and abs(value) > _LARGEST_WHOLE:
            table.fail(f"{value:g} is too large for {values.kind.value}", key)
    if values.kind in (ValueKind.UNIFORM, ValueKind.INTEGERS, ValueKind.OFFSETS):
        if low > high:
            table.fail(f"low = {low:g} is above high = {high:g}")
        if math.isinf(high - low):
            table.fail("low and high are too far apart")
    elif high < 0:
        table.fail(f"high = {high:g} cannot be negative for {values.kind.value}", "high")


def _default_values(dtype: DType | None) -> Values:
    if dtype is None or dtype.is_float:
        return Values()
    return Values(kind=ValueKind.INTEGERS, low=0, high=1 if dtype.kind is NumberKind.BOOL else 100)
