"""Kernels that Python code of a package generates: compiled by Triton or CuTe-DSL, without a GPU.

The generator's packages come from the package index, by the pins in `generators.toml`. They run in
a process that reaches nothing but the temporary folder that they are unpacked to (`generator.py`).
"""

from __future__ import annotations

import base64
import platform
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePosixPath

import msgspec

from astra_tui.lab.cache import ContentCache, content_key
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.model.launch import DEVICE_ATTRIBUTES
from astra_tui.model.pin import Pin
from astra_tui.model.task.yardstick import Generated, Generator, Variant, Yardstick
from astra_tui.packages import Packages
from astra_tui.packages.pip import Progress
from astra_tui.processes.tool import run_tool

SECONDS = 600.0
_CACHE_VERSION = "1"
_PINS = Path(__file__).with_name("generators.toml")
_PROGRAM = Path(__file__).with_name("generator.py")
_ENDINGS = (".py", ".so", ".bc", ".dist-info/METADATA", ".dist-info/entry_points.txt")
_ASSEMBLER = "triton/backends/nvidia/bin/"


class GeneratedKernel(msgspec.Struct, frozen=True):
    """One kernel: machine code, PTX, and numbers that its launch names."""

    cubin: bytes
    ptx: str
    numbers: dict[str, int]


class _Package(msgspec.Struct, frozen=True):
    """A package of a generator: wheels for Linux, SHA-256 by tags."""

    name: str
    version: str
    licence: str
    released: str
    wheels: dict[str, str]

    def pin(self, tags: str) -> Pin:
        file = f"{self.name.replace('-', '_')}-{self.version}-{tags}.whl"
        day = date.fromisoformat(self.released)
        return Pin(self.name, self.version, file, self.wheels[tags], self.licence, day)


class _Answer(msgspec.Struct, frozen=True):
    kernels: tuple[_Made, ...] = ()
    problem: str = ""


class _Made(msgspec.Struct, frozen=True):
    cubin: str
    ptx: str
    numbers: dict[str, int]


def generator_pins(generator: Generator) -> tuple[Pin, ...]:
    """The packages of a generator for this Python. Raises UserError where there are none."""
    minor = sys.version_info.minor
    pins = []
    for package in _packages(generator):
        found = [tags for tags in package.wheels if sys.platform == "linux" and _fits(tags, minor)]
        if not found:
            raise UserError(
                f"{package.name} is not pinned for Python 3.{minor} on this machine",
                hint="use Python 3.11 to 3.14 on Linux x86-64; a cache that was built there serves",
            )
        pins.append(package.pin(found[0]))
    return tuple(pins)


def generate(
    packages: Packages,
    yardstick: Yardstick,
    code: Generated,
    variants: Sequence[Variant],
    progress: Progress | None = None,
) -> dict[Variant, GeneratedKernel]:
    """The kernels of a yardstick, one for each variant.

    What is in the cache needs neither its package nor the generator. Raises UserError.
    """
    cache, found = ContentCache("yardsticks"), {}
    for variant in variants:
        content = cache.get(_key(yardstick, code, variant))
        if content is not None:
            found[variant] = msgspec.msgpack.decode(content, type=GeneratedKernel)
    missing = [variant for variant in variants if variant not in found]
    if missing:
        made = _Generation(packages, yardstick, code, progress).kernels(missing)
        for variant, kernel in zip(missing, made, strict=True):
            cache.put(_key(yardstick, code, variant), msgspec.msgpack.encode(kernel))
            found[variant] = kernel
    return found


def _key(yardstick: Yardstick, code: Generated, variant: Variant) -> str:
    """The generator by its versions: its wheels differ from one Python to the next."""
    versions = (f"{p.name} {p.version}" for p in _packages(code.by))
    given = (part for pair in sorted(code.stand_ins.items()) for part in pair)
    constants = (f"{name} {value}" for name, value in variant.constants)
    package, dtype = yardstick.package.sha256, variant.dtype.value if variant.dtype else ""
    head = ("generated", _CACHE_VERSION, package, yardstick.arch, code.text, dtype)
    return content_key(*head, *versions, "--", *given, "--", *code.numbers, "--", *constants)


def _packages(generator: Generator) -> tuple[_Package, ...]:
    listed = tomllib.loads(_PINS.read_text(encoding="utf-8"))[generator]
    return msgspec.convert(listed, tuple[_Package, ...])


def _fits(tags: str, minor: int) -> bool:
    """Whether this CPython can load a wheel of these tags."""
    interpreter, abi, platforms = tags.split("-")
    if platforms != "any" and not platforms.endswith(f"_{platform.machine()}"):
        return False
    if abi == "abi3":
        return int(interpreter.removeprefix("cp3")) <= minor
    return interpreter in ("py3", f"cp3{minor}")


@dataclass(frozen=True)
class _Generation:
    """One run of a generator, in a folder of its own."""

    packages: Packages
    yardstick: Yardstick
    code: Generated
    progress: Progress | None

    def kernels(self, variants: Sequence[Variant]) -> tuple[GeneratedKernel, ...]:
        """In the order of the variants. Raises UserError."""
        package, by = self.yardstick.package, self.code.by.value
        try:
            with tempfile.TemporaryDirectory(prefix="astra-tui-") as folder:
                place = Path(folder).resolve()
                self._lay_out(place)
                answer = self._asked(variants, place)
        except OSError as error:
            what = f"{package}: the kernel cannot be generated"
            raise OutOfResources.or_bad_input(error, what, self.packages.folder) from None
        if answer.problem:
            raise UserError(f"{package}: {by} gives no kernel: {answer.problem}")
        return tuple(self._kernel(made) for made in answer.kernels)

    def _lay_out(self, place: Path) -> None:
        """Unpacks what the process needs. The kernel's package without any `__init__.py`.

        Those import all of the package and what that needs; without them its folders are packages
        too.
        """
        for pin in generator_pins(self.code.by):
            self.packages.fetch(pin, self.progress).unpack(place / "generator", _is_used)
        package = self.packages.fetch(self.yardstick.package, self.progress)
        package.unpack(place / "package", _is_module)
        for program in (place / "generator" / _ASSEMBLER).glob("*"):
            program.chmod(0o500)
        (place / "stand_ins").mkdir()
        for name, text in self.code.stand_ins.items():
            file = place.joinpath("stand_ins", *name.split(".")).with_suffix(".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def _asked(self, variants: Sequence[Variant], place: Path) -> _Answer:
        request = {
            "program": str(Path(__file__).resolve().parents[3]),
            "by": self.code.by,
            "arch": self.yardstick.arch,
            "attributes": dict(DEVICE_ATTRIBUTES),
            "torch_types": [dtype.torch for dtype in DType],
            "text": self.code.text,
            "variants": [{"dtype": v.dtype, "dims": dict(v.constants)} for v in variants],
        }
        (place / "request.json").write_bytes(msgspec.json.encode(request))
        command = [sys.executable, "-I", "-S", str(_PROGRAM), str(place)]
        ran = run_tool(command, place, SECONDS, self.code.by.value)
        if ran.problem:
            return _Answer(problem=ran.problem)
        try:
            answer = msgspec.json.decode((place / "answer.json").read_bytes(), type=_Answer)
        except msgspec.DecodeError as error:
            return _Answer(problem=f"its answer cannot be read: {error}")
        complete = answer.problem or len(answer.kernels) == len(variants)
        return answer if complete else _Answer(problem="it answered for other shapes")

    def _kernel(self, made: _Made) -> GeneratedKernel:
        if set(made.numbers) != set(self.code.numbers):
            given, named = (
                ", ".join(names) or "none" for names in (made.numbers, self.code.numbers)
            )
            raise UserError(f"generate() gives the numbers {given}, yardsticks.toml names {named}")
        return GeneratedKernel(base64.b64decode(made.cubin), made.ptx, made.numbers)


def _is_used(name: str) -> bool:
    return name.endswith(_ENDINGS) or name.startswith(f"{_ASSEMBLER}ptxas")


def _is_module(name: str) -> bool:
    return name.endswith(".py") and PurePosixPath(name).name != "__init__.py"
