"""What an exported package asks of the CUDA driver: symbols, parameter bytes, launch sizes."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from astra_tui.export.artefact import template
from tests.export.sessions import write_files

STREAM = 0x1234
ADDRESS = 0x7F0000000010

PARAMETERS = (
    ("pointer", "", 0),
    ("integer", "int32", 8),
    ("integer", "uint64", 16),
    ("float", "float32", 24),
    ("float", "float16", 28),
    ("float", "bfloat16", 30),
    ("bool", "bool", 32),
    ("struct", "", 40),
    ("pointer", "", 72),
)
MANIFEST = {
    "archs": ["sm_80", "sm_90a"],
    "kernels": {
        "k<float>": {
            "symbol": "_Z1kIfEvPf",
            "bytes": 80,
            "parameters": [{"kind": k, "dtype": d, "offset": o} for k, d, o in PARAMETERS],
        },
        "gone": {"symbol": "missing", "bytes": 0, "parameters": []},
    },
}

SCRIPT = """
import json, sys, types
package = types.ModuleType("package")
package.__path__ = [sys.argv[1]]
sys.modules["package"] = package
from pathlib import Path
from package import _driver, _host

kernels = _driver.Kernels(Path(sys.argv[1]))
numbers = json.loads(sys.argv[2])
whole = _host.struct(
    16, ("int8", -3), None, _host.struct(1, ("bfloat16", 1 + 2**-8 + 2**-40)), _host.Buffer("x")
)
args = (_host.Buffer("x", -48), *numbers, whole, None)
attributes = (tuple(a) if isinstance(a, list) else a for a in json.loads(sys.argv[6]))
sizes = (7, 2, 1), (32, 4, 1), 50000
wanted = _host.Launch(sys.argv[3], *sizes, args if numbers else (), *attributes)
try:
    ready = kernels.prepare([wanted, wanted], ("y", "x"), 0)
    ready[0]([0, int(sys.argv[4])], int(sys.argv[5]))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
print(json.dumps(_driver.attributes(0)))
"""

Lines = list[tuple[str, int, int]]


def launched(
    scripted_driver: Path,
    folder: Path,
    numbers: list[Any],
    kernel: str = "k<float>",
    *,
    attributes: tuple[Any, ...] | None = None,
    major: int = 9,
) -> tuple[list[str], Lines]:
    """What a launch prints, and what the driver was asked; None for a plan without attributes."""
    write_files(
        folder / "package",
        {
            "_driver.py": template("_driver.py", attributes=attributes is not None),
            "_host.py": template("_host.py", attributes=attributes is not None),
            "manifest.json": json.dumps(MANIFEST),
            "sm_80.cubin": b"old",
            "sm_90a.cubin": b"new",
        },
    )
    log = folder / "log"
    log.touch()
    arguments = [str(folder / "package"), json.dumps(numbers), kernel, str(ADDRESS), str(STREAM)]
    arguments += [json.dumps(attributes or [])]
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(scripted_driver),
        "SCRIPTED_CUDA_LOG": str(log),
        "SCRIPTED_CUDA_MAJOR": str(major),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    asked = [line.split() for line in log.read_text().splitlines()]
    return done.stdout.splitlines(), [(word, int(a), int(b)) for word, a, b in asked]


def test_a_launch(scripted_driver: Path, tmp_path: Path) -> None:
    numbers = [-5, 1 << 63, 0.1, 0.1, 0.1, True]
    printed, asked = launched(scripted_driver, tmp_path, numbers)
    assert [line for line in asked if line[0] != "byte"] == [
        ("current", 0, 0),
        ("load", ord("n"), 0),  # sm_90a, not sm_80
        ("_Z1kIfEvPf", 0, 0),
        ("allow", 8, 50000),  # once for two launches
        ("launch", 3, STREAM),
        ("grid", 7, 2001),
        ("block", 32, 4001),
        ("shared", 50000, 1),
        ("extra", 1, 2),
        ("bytes", 80, 1),
    ]
    packed = bytes(byte for word, byte, _ in asked if word == "byte")
    half, bfloat = 0x2E66, 0x3DCD  # 0.1, rounded to nearest
    expected = struct.pack("<QixxxxQfHH?7x", ADDRESS - 48, -5, 1 << 63, 0.1, half, bfloat, True)
    rounded_once = 0x3F81  # the nearest float32 is a tie, which would go down to 1.0
    expected += struct.pack("<b7xQH6xQQ", -3, 0, rounded_once, ADDRESS, 0)
    assert packed == expected
    assert len(printed) == 1


NUMBERS: list[Any] = [1, 1, 0.5, 0.5, 0.5, True]


@pytest.mark.parametrize(
    ("pdl", "major", "early"), [(True, 9, True), (False, 9, False), (True, 8, False)]
)
def test_a_programmatic_dependent_launch(
    scripted_driver: Path, tmp_path: Path, pdl: bool, major: int, early: bool
) -> None:
    _, asked = launched(scripted_driver, tmp_path / "pdl", NUMBERS, attributes=(pdl,), major=major)
    _, plain = launched(scripted_driver, tmp_path / "plain", NUMBERS, major=major)
    assert [line for line in asked if line[0] == "attribute"] == [("attribute", 6, 1)] * early
    assert [line for line in asked if line[0] != "attribute"] == plain


def test_a_launch_in_clusters(scripted_driver: Path, tmp_path: Path) -> None:
    given = (True, (4, 2, 1))
    _, asked = launched(scripted_driver, tmp_path / "8", NUMBERS, attributes=given)
    cluster = ("attribute", 4, 4002001)
    assert [line for line in asked if line[0] == "attribute"] == [("attribute", 6, 1), cluster]
    _, asked = launched(scripted_driver, tmp_path / "16", NUMBERS, attributes=(False, (16, 1, 1)))
    assert ("attribute", 4, 16001001) in asked
    assert ("allow", 14, 1) in asked


@pytest.mark.parametrize(
    ("place", "value", "dtype"), [(0, 1 << 31, "int32"), (1, -1, "uint64"), (5, 2, "bool")]
)
def test_a_number_that_does_not_fit(
    scripted_driver: Path, tmp_path: Path, place: int, value: int, dtype: str
) -> None:
    numbers = [*NUMBERS[:place], value, *NUMBERS[place + 1 :]]
    printed, asked = launched(scripted_driver, tmp_path, numbers)
    assert printed[0] == f"PlanFault: {value} does not fit in {dtype}"
    assert "launch" not in {word for word, _, _ in asked}


def test_errors_of_the_driver_and_kernels_that_are_not_there(
    scripted_driver: Path, tmp_path: Path
) -> None:
    printed, _ = launched(scripted_driver, tmp_path / "a", [], "gone")
    assert printed[0] == "DriverError: cuModuleGetFunction: scripted (500)"
    printed, _ = launched(scripted_driver, tmp_path / "b", [], "unknown")
    assert printed[0] == "Refused: unknown is not among the compiled kernels"


def test_numbers_of_attributes_are_the_drivers_own(scripted_driver: Path, tmp_path: Path) -> None:
    from cuda.bindings import driver as cuda

    from astra_tui.gpu.process.bindings import _ATTRIBUTES

    printed, _ = launched(scripted_driver, tmp_path, NUMBERS)
    names = cuda.CUdevice_attribute
    wanted = {
        name: 1000 + int(getattr(names, f"CU_DEVICE_ATTRIBUTE_{word}"))
        for name, word in _ATTRIBUTES.items()
    }
    assert json.loads(printed[-1]) == wanted
    dynamic = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert int(dynamic) == 8
    early = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    assert int(early) == 6
    assert int(cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) == 4
    function = cuda.CUfunction_attribute
    assert int(function.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) == 14


@pytest.mark.parametrize(
    ("archs", "capability", "chosen"),
    [
        (["sm_80", "sm_90a"], (9, 0), "sm_90a"),
        (["sm_80", "sm_90a"], (8, 9), "sm_80"),
        (["sm_80", "sm_86"], (8, 9), "sm_86"),
        (["sm_100", "sm_120"], (12, 1), "sm_120"),
        (["sm_80", "sm_90a"], (10, 0), None),
        (["sm_86"], (8, 0), None),
    ],
)
def test_which_code_a_device_gets(
    archs: list[str], capability: tuple[int, int], chosen: str | None, tmp_path: Path
) -> None:
    script = (
        "import sys, types; p = types.ModuleType('package'); p.__path__ = [sys.argv[1]]; "
        "sys.modules['package'] = p; from package._driver import choose_arch, Refused\n"
        "try: print(choose_arch(sys.argv[2].split(), int(sys.argv[3]), int(sys.argv[4])))\n"
        "except Refused: print(None)"
    )
    files = {name: template(name) for name in ("_driver.py", "_host.py")}
    write_files(tmp_path, files)
    arguments = [str(tmp_path), " ".join(archs), *map(str, capability)]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(chosen)
