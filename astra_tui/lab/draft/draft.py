"""Puts a draft together: task.toml, a reference that fails until it is written, and baseline.cu."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from astra_tui.lab.compiler.standins import STAND_INS
from astra_tui.lab.draft.expressions import to_plan_expression
from astra_tui.lab.draft.guesses import Shape, dtype_of_cpp, guess_role, guess_shape
from astra_tui.lab.draft.reading import (
    HostLaunch,
    KernelParameter,
    KernelText,
    SourceText,
    read_source,
    split_arguments,
)
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place, UserError, nearest
from astra_tui.model.launch.expression_parser import ExpressionParser
from astra_tui.model.launch.plan import PlanError
from astra_tui.model.launch.scope import RESERVED_NAMES
from astra_tui.model.launch.tokens import tokenize
from astra_tui.model.task import Role

_DEFAULT_BLOCK = "256"
_TOLERANCES = {
    DType.FLOAT16: (1e-3, 1e-3),
    DType.BFLOAT16: (1e-2, 1.6e-2),
    DType.FLOAT32: (1e-5, 1e-5),
    DType.FLOAT64: (1e-12, 1e-12),
}


@dataclass
class Draft:
    """The files of a task, and what its author has to look at. Paths are relative to the folder."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    open_points: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Tensor:
    parameter: KernelParameter
    role: Role
    dtype: DType | None
    shape: Shape


def draft_task(name: str, text: str, file: str, kernel_name: str | None = None) -> Draft:
    """Drafts a task from the text of a source. Raises UserError when it holds no kernel."""
    source = read_source(text)
    kernel = _choose(source, file, kernel_name)
    return _Drafter(name, source, kernel, file).draft()


def _choose(source: SourceText, file: str, name: str | None) -> KernelText:
    kernels = {k.name: k for k in source.kernels}
    if not kernels:
        raise UserError("no __global__ function was found in this source", file=file)
    if name is not None:
        if name not in kernels:
            raise UserError(f"there is no kernel '{name}'", file=file, hint=nearest(name, kernels))
        return kernels[name]
    launched = [launch.kernel for launch in source.launches if launch.kernel in kernels]
    if len(kernels) > 1 and len(set(launched)) != 1:
        raise UserError(
            f"this source has {len(kernels)} kernels",
            file=file,
            hint="say which with --kernel: " + ", ".join(kernels),
        )
    return kernels[launched[0]] if launched else next(iter(kernels.values()))


class _Drafter:
    def __init__(self, name: str, source: SourceText, kernel: KernelText, file: str):
        self.source = source
        self.kernel = kernel
        self.file = file
        self.result = Draft(name)
        self.launch: HostLaunch | None = next(
            (x for x in source.launches if x.kernel == kernel.name), None
        )
        self.element = self._element_type()
        self.dims = self._dimensions()
        self.tensors = [self._tensor(p) for p in kernel.parameters if p.is_pointer]
        self.scalars = [
            p for p in kernel.parameters if not p.is_pointer and p.name not in self._renamed
        ]

    def ask(self, text: str) -> None:
        """Adds an open point."""
        self.result.open_points.append(text)

    def draft(self) -> Draft:
        self.result.files["baseline.cu"] = self._baseline()
        self.result.files["task.toml"] = "\n".join(self._task()) + "\n"
        self.result.files["reference.py"] = "\n".join(self._reference()) + "\n"
        return self.result

    # -- what the source says --------------------------------------------------------------------

    def _element_type(self) -> DType:
        """What `T` is: the type a template is launched with, else the most common element type."""
        for (kind, _), given in zip(self.kernel.template, self._given_template(), strict=False):
            found = dtype_of_cpp(given)
            if kind == "typename" and found is not None:
                return found
        pointees = [dtype_of_cpp(p.type) for p in self.kernel.parameters if p.is_pointer]
        floats = [d for d in pointees if d is not None and d.is_float]
        if floats:
            return max(floats, key=floats.count)
        return DType.FLOAT16 if self.kernel.template else DType.FLOAT32

    def _given_template(self) -> tuple[str, ...]:
        return self.launch.template_args if self.launch else ()

    def _dimensions(self) -> tuple[str, ...]:
        """Integer parameters, and host integers that only the grid knows, such as a row count."""
        self._renamed: dict[str, str] = {}
        dims = []
        for parameter in self.kernel.parameters:
            dtype = dtype_of_cpp(parameter.type)
            if not parameter.is_pointer and dtype is not None and not dtype.is_float:
                if dtype is DType.BOOL:
                    continue
                name = self._free_name(parameter.name)
                self._renamed[parameter.name] = name
                dims.append(name)
        for extra in self._grid_only_integers():
            if extra not in dims:
                dims.insert(0, self._free_name(extra))
        if not dims:
            dims.append("n")
            self.ask("the kernel takes no size; the draft assumes one dimension n")
        return tuple(dims)

    def _grid_only_integers(self) -> Iterator[str]:
        if self.launch is None:
            return
        passed = set(self.launch.arguments)
        text = " ".join(self._configuration_text())
        for name in self.launch.host_integers:
            if name not in passed and re.search(rf"\b{name}\b", text):
                yield name

    def _configuration_text(self) -> Iterator[str]:
        assert self.launch is not None
        for item in self.launch.configuration[:2]:
            for part in self.launch.host_values.get(item, (item,)):
                yield to_plan_expression(part, self.launch.host_values, self.source.constants)

    def _free_name(self, name: str) -> str:
        return f"{name}_" if name in RESERVED_NAMES else name

    def _tensor(self, parameter: KernelParameter) -> _Tensor:
        types = {name for kind, name in self.kernel.template if kind == "typename"}
        dtype = None if parameter.type in types else dtype_of_cpp(parameter.type)
        if dtype is None and parameter.type not in types:
            self.ask(
                f"{parameter.name} points to {parameter.type}: say which element type it holds"
            )
        role, sure = guess_role(self.kernel, parameter.name, parameter.is_const)
        shape = guess_shape(self.kernel, parameter.name, self.dims)
        words = "" if sure else " (nothing in the body shows it)"
        self.ask(
            f"{parameter.name}: role {role.value}{words}, shape [{', '.join(shape.sizes)}]"
            + ("" if shape.certain else " is a guess")
        )
        return _Tensor(parameter, role, None if dtype is self.element else dtype, shape)

    # -- baseline.cu -----------------------------------------------------------------------------

    def _baseline(self) -> str:
        kept = self._kept_pieces()
        includes = [text for text, is_include in kept if is_include]
        rest = [text for text, is_include in kept if not is_include]
        plan = "\n".join(f"   {line}" for line in self._plan())
        head = f"// From {Path(self.file).name}; host code left out.\n"
        return "\n".join(
            [head, *includes, "", f"/* @launch\n{plan}\n*/", "", "\n\n".join(rest), ""]
        )

    def _kept_pieces(self) -> list[tuple[str, bool]]:
        available = set(STAND_INS) | {"cuda_runtime.h", "cuda.h"}
        kept: list[tuple[str, bool]] = []
        dropped: list[str] = []
        device_text = " ".join(p.text for p in self.source.pieces if p.kind == "kept")
        for piece in self.source.pieces:
            if piece.kind == "include":
                usable = piece.name in available or re.match(
                    r"cuda|cub/|mma\.h|cooperative", piece.name
                )
                if usable:
                    kept.append((piece.text.strip(), True))
                else:
                    dropped.append(f"#include of {piece.name}")
            elif piece.kind == "host" or (
                piece.kind == "plain function"
                and not re.search(rf"\b{piece.name}\s*\(", device_text)
            ):
                label = piece.name + "()" if piece.name else piece.text.split("\n")[0][:50]
                dropped.append(f"{label} (line {piece.line})")
            else:
                kept.append((re.sub(r'\bextern\s+"C"\s+', "", piece.text).rstrip(), False))
        if dropped:
            self.ask("left out as host code: " + ", ".join(dropped))
        return kept

    def _plan(self) -> Iterator[str]:
        template = self._plan_template()
        grid, block, shared = self._geometry()
        line = f"{self.kernel.name}{template} grid={grid} block={block}"
        if shared != "0":
            line += f" shared={shared}"
        yield line
        yield f"    args=({', '.join(self._plan_argument(p) for p in self.kernel.parameters)})"

    def _plan_template(self) -> str:
        given = self._given_template()
        if not self.kernel.template:
            return ""
        items = []
        for number, (kind, name) in enumerate(self.kernel.template):
            text = given[number] if number < len(given) else ""
            if kind == "typename":
                items.append("T" if not text or dtype_of_cpp(text) is not None else f'"{text}"')
                continue
            value = to_plan_expression(text, self._values(), self.source.constants) if text else ""
            if not value or not self._parses(value):
                self.ask(f"template parameter {name}: the draft passes 1")
                value = "1"
            items.append(value)
        return f"<{', '.join(items)}>"

    def _values(self) -> dict[str, tuple[str, ...]]:
        return self.launch.host_values if self.launch else {}

    def _geometry(self) -> tuple[str, str, str]:
        if self.launch is None:
            self.ask(
                "no <<<...>>> launch was found: grid, block and shared memory in baseline.cu are "
                "placeholders"
            )
            return f"ceil_div({' * '.join(self.dims)}, {_DEFAULT_BLOCK})", _DEFAULT_BLOCK, "0"
        parts = [*self.launch.configuration, "1", "1", "0"]
        grid = self._sizes(parts[0], "grid", f"ceil_div({' * '.join(self.dims)}, {_DEFAULT_BLOCK})")
        block = self._sizes(parts[1], "block", _DEFAULT_BLOCK)
        shared = "0"
        if len(self.launch.configuration) > 2:
            shared = self._sizes(parts[2], "shared memory", "0")
        return grid, block, shared

    def _sizes(self, text: str, what: str, fallback: str) -> str:
        inner = re.match(r"^dim3\s*[({](.*)[)}]$", text.strip(), re.DOTALL)
        given = split_arguments(inner[1]) if inner else self._values().get(text.strip(), (text,))
        found = [
            self._renamed_names(to_plan_expression(g, self._values(), self.source.constants))
            for g in given
        ]
        if not all(map(self._parses, found)):
            assert self.launch is not None
            self.ask(
                f"{what}: '{', '.join(given)}' (line {self.launch.line}) could not be rewritten; "
                f"the draft says {fallback}"
            )
            return fallback
        return found[0] if len(found) == 1 else f"({', '.join(found)})"

    def _renamed_names(self, text: str) -> str:
        """Host names of what is passed for a kernel parameter, under the parameter's name."""
        if self.launch is None:
            return text
        for parameter, passed in zip(self.kernel.parameters, self.launch.arguments, strict=False):
            if re.fullmatch(r"\w+", passed) and parameter.name in self._renamed:
                text = re.sub(rf"\b{passed}\b", self._renamed[parameter.name], text)
        return text

    def _parses(self, text: str) -> bool:
        """Whether a text is an expression of the plan's language over the draft's dimensions."""
        try:
            parser = ExpressionParser(tokenize(text, Place(1, 1)), "")
            parser.expression()
        except PlanError:
            return False
        names = set(re.findall(r"[A-Za-z_]\w*", text))
        return parser.token.kind == "newline" and names <= {*self.dims, *RESERVED_NAMES}

    def _plan_argument(self, parameter: KernelParameter) -> str:
        if "stride" in parameter.name.lower() and not parameter.is_pointer:
            self.ask(f"{parameter.name} is passed as a dimension; stride(tensor, 0) may be meant")
        return self._renamed.get(parameter.name, self._free_name(parameter.name))

    # -- task.toml -------------------------------------------------------------------------------

    def _task(self) -> Iterator[str]:
        rows = self.dims[0] if self._rows_are_independent() else ""
        yield f'name = "{self.result.name}"'
        yield 'summary = "say in one line what the operator computes"'
        yield f'origin = "{Path(self.file).name}, kernel {self.kernel.name}"'
        yield f'dtypes = ["{self.element.value}"]'
        if rows:
            yield f'rows = "{rows}"  # confirm: no row depends on another'
        for name in self.dims:
            yield f"\n[dims.{name}]"
            yield 'about = ""'
            yield f"typical = {16 if name == rows else 256}"
            sizes = [0, 1, 2, 7, 19, 83] if name == rows else [1, 2, 7, 32, 33, 111, 256, 613, 1024]
            yield f"sizes = {sizes}"
        for tensor in self.tensors:
            yield f"\n[args.{self._free_name(tensor.parameter.name)}]"
            yield f'role = "{tensor.role.value}"  # confirm'
            if tensor.dtype is not None:
                yield f'dtype = "{tensor.dtype.value}"'
            shape = ", ".join(f'"{s}"' for s in tensor.shape.sizes)
            yield f"shape = [{shape}]  # confirm"
            if tensor.dtype is not None and not tensor.dtype.is_float and tensor.role is Role.IN:
                self.ask(f"{tensor.parameter.name} holds integers: say which range is valid")
                yield 'values = { kind = "integers", low = 0.0, high = 100.0 }  # confirm'
        for scalar in self.scalars:
            dtype = dtype_of_cpp(scalar.type) or DType.FLOAT32
            yield f"\n[args.{self._free_name(scalar.name)}]"
            yield 'role = "scalar"'
            yield f'dtype = "{dtype.value}"'
            yield "choices = [1.0]  # confirm"
            self.ask(f"{scalar.name}: which values are passed in practice?")
        yield from self._judgement()

    def _judgement(self) -> Iterator[str]:
        sizes = ", ".join(f'"{d} >= {0 if d == self.dims[0] else 1}"' for d in self.dims)
        yield f"\n[contract]\naccepts = [{sizes}]"
        written = {
            t.dtype or self.element for t in self.tensors if t.role in (Role.OUT, Role.INOUT)
        }
        for dtype in sorted((d for d in written if d.is_float), key=lambda d: d.value):
            atol, rtol = _TOLERANCES[dtype]
            yield f"\n[tolerance.{dtype.value}]"
            yield f"atol = {atol}"
            yield f"rtol = {rtol}"
            yield 'source = "a common choice for this type; confirm"'
        yield "\n[cost]"
        yield f'bytes = "{self._bytes()}"'
        yield f'flops = "{" * ".join(self.dims)}"  # confirm; only the roofline uses it'
        self.ask("tolerances, bytes and flops are derived; confirm them")
        yield "\n[[workloads]]"
        yield f"dims = {{ {', '.join(f'{d} = 1024' for d in self.dims)} }}"
        self.ask("workloads: the sizes that matter to you")

    def _rows_are_independent(self) -> bool:
        written = [t for t in self.tensors if t.role in (Role.OUT, Role.INOUT)]
        return (
            bool(written)
            and len(self.dims) > 1
            and all(t.shape.sizes[0] == self.dims[0] for t in written)
        )

    def _bytes(self) -> str:
        parts = []
        for tensor in self.tensors:
            size = f"sizeof({tensor.dtype.value if tensor.dtype else 'T'})"
            factor = "2 * " if tensor.role is Role.INOUT else ""
            parts.append(f"{factor}{' * '.join(tensor.shape.sizes)} * {size}")
        return " + ".join(parts) or "0"

    # -- reference.py ----------------------------------------------------------------------------

    def _reference(self) -> Iterator[str]:
        read = [self._free_name(t.parameter.name) for t in self.tensors if t.role is not Role.OUT]
        written = [
            self._free_name(t.parameter.name)
            for t in self.tensors
            if t.role in (Role.OUT, Role.INOUT)
        ]
        numbers = [self._free_name(s.name) for s in self.scalars]
        arguments = [f"{n}: torch.Tensor" for n in read] + [f"{n}: float" for n in numbers]
        name = self.result.name
        yield f'"""Float64 reference of {name}. It decides what is right: keep it simple."""'
        yield ""
        yield "import torch"
        yield ""
        yield ""
        yield f"def reference({', '.join(arguments)}) -> dict[str, torch.Tensor]:"
        yield '    """Inputs are float64 tensors; dimensions can be asked for by name as well."""'
        returned = ", ".join(f'"{name}": ...' for name in written)
        yield f"    raise NotImplementedError('write the reference: return {{{returned}}}')"
        self.ask("reference.py: write what the operator computes, in float64")
