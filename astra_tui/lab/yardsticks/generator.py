"""Compiles kernels by Triton or CuTe-DSL without a GPU, in a process that closed itself before.

Started by `generated.py` as `python -I -S generator.py FOLDER`, so that no package of the user's
is seen. All that it reads and writes, but for Python itself, is in FOLDER: the generator's packages
in `generator`, the kernel's package in `package`, modules that stand in for others in `stand_ins`,
and `request.json`, which `answer.json` answers.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import traceback
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Dims = Mapping[str, int]
FILE_LIMIT = 64 << 20


def main() -> None:
    """Answers the request in the folder that argv names."""
    folder = Path(sys.argv[1])
    request = json.loads((folder / "request.json").read_bytes())
    sys.path.insert(0, request["program"])
    from astra_tui.processes.confine import confine, limit_files, program_roots

    sys.path.pop(0)
    limit_files(FILE_LIMIT)
    confine(program_roots(), workshop=folder)
    answer = folder / "answer.json"
    try:
        answer.write_text(json.dumps({"kernels": _kernels(folder, request)}))
    except Exception as error:
        answer.write_text(json.dumps({"problem": _problem(error)}))
    sys.stdout.flush()
    os._exit(0)  # What a generator has set up needs no tearing down.


def _kernels(folder: Path, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    sys.path[:0] = [str(path) for path in _search_path(folder / "generator")]
    generator = _GENERATORS[request["by"]](folder, request["arch"])
    if not (folder / "stand_ins" / "torch.py").exists():
        sys.modules["torch"] = _torch(
            request["arch"], request["attributes"], request["torch_types"]
        )
    sys.path[:0] = [str(folder / "stand_ins"), str(folder / "package")]
    names: dict[str, Any] = {"__name__": "yardstick"}
    exec(compile(request["text"], "yardsticks.toml", "exec"), names)
    return [
        generator.compiled(names["generate"], variant["dtype"], variant["dims"])
        for variant in request["variants"]
    ]


def _search_path(packages: Path) -> list[Path]:
    """The folder, and the one in it that CuTe-DSL's wheels have instead of a package."""
    return [packages / "nvidia_cutlass_dsl" / "dsl_packages", packages]


class _Generator(ABC):
    """Triton or CuTe-DSL, told what to compile for, since there is no GPU to ask."""

    def __init__(self, folder: Path, arch: str):
        self.folder = folder
        self.arch = arch
        self.capability = _capability(arch)

    def compiled(self, generate: Callable[..., Any], dtype: str, dims: Dims) -> dict[str, Any]:
        """A kernel's machine code, its PTX, and numbers for its launch."""
        made, numbers = generate(dtype, **dims)
        cubin, ptx = self.code(made)
        return {
            "cubin": base64.b64encode(cubin).decode(),
            "ptx": ptx,
            "numbers": {name: int(value) for name, value in numbers.items()},
        }

    @abstractmethod
    def code(self, made: Any) -> tuple[bytes, str]:
        """The machine code and the PTX of what was compiled last."""


class _Triton(_Generator):
    def __init__(self, folder: Path, arch: str):
        super().__init__(folder, arch)
        os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
        os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # It would name files in this folder.
        from triton.backends.compiler import GPUTarget
        from triton.runtime import driver

        major, minor = self.capability
        target = GPUTarget("cuda", major * 10 + minor, 32)
        driver.set_active(
            types.SimpleNamespace(
                get_current_target=lambda: target,
                get_current_device=lambda: 0,
                get_current_stream=lambda _device=0: 0,
            )
        )

    def code(self, made: Any) -> tuple[bytes, str]:
        if made.metadata.num_ctas > 1:
            raise ValueError(f"it is launched in clusters of {made.metadata.num_ctas} blocks")
        for scratch in ("global_scratch_size", "profile_scratch_size"):
            if getattr(made.metadata, scratch, 0):
                raise ValueError(f"it needs Triton's own buffers ({scratch})")
        return made.asm["cubin"], made.asm["ptx"]


class _CuteDsl(_Generator):
    def __init__(self, folder: Path, arch: str):
        super().__init__(folder, arch)
        self.kept = folder / "kept"
        self.kept.mkdir()
        os.environ["CUTE_DSL_ARCH"] = arch
        os.environ["CUTE_DSL_KEEP"] = "cubin,ptx"
        os.environ["CUTE_DSL_DUMP_DIR"] = str(self.kept)
        os.environ["CUTE_DSL_CACHE_DIR"] = str(folder / "cache")
        import cutlass.cute  # noqa: F401
        import tvm_ffi  # noqa: F401 - now, as it asks a torch that it finds for more than there is.

    def code(self, made: Any) -> tuple[bytes, str]:
        del made
        (cubin,), (ptx,) = (list(self.kept.glob(f"*.{suffix}")) for suffix in ("cubin", "ptx"))
        found = cubin.read_bytes(), ptx.read_text()
        for file in self.kept.iterdir():
            file.unlink()
        return found


_GENERATORS: dict[str, type[_Generator]] = {"triton": _Triton, "cute_dsl": _CuteDsl}


def _capability(arch: str) -> tuple[int, int]:
    """As in sm_90a: 9 and 0."""
    number = int(arch.removeprefix("sm_").rstrip("af"))
    return number // 10, number % 10


def _torch(arch: str, attributes: Mapping[str, int], dtypes: Sequence[str]) -> types.ModuleType:
    """What packages ask of torch as they compile: names of types, and facts of the GPU."""

    class Type:
        def __init__(self, name: str):
            self.name = name

        def __repr__(self) -> str:
            return f"torch.{self.name}"

    Type.__name__, Type.__module__ = "dtype", "torch"  # Triton knows torch's types by these.
    major, minor = capability = _capability(arch)
    properties = types.SimpleNamespace(
        major=major,
        minor=minor,
        warp_size=attributes["warp_size"],
        multi_processor_count=attributes["sm_count"],
        shared_memory_per_block_optin=attributes["max_shared_memory_per_block"],
        shared_memory_per_multiprocessor=attributes["max_shared_memory_per_sm"],
        L2_cache_size=attributes["l2_cache_bytes"],
    )
    torch: Any = types.ModuleType("torch")
    for name in dtypes:
        setattr(torch, name, Type(name))
    torch.dtype = Type
    torch.Tensor = type("Tensor", (), {"__module__": "torch"})
    torch.device = type("device", (), {"__module__": "torch"})
    torch.cuda = types.SimpleNamespace(
        is_available=lambda: True,
        current_device=lambda: 0,
        get_device_properties=lambda _device=None: properties,
        get_device_capability=lambda _device=None: capability,
    )
    module: types.ModuleType = torch
    return module


def _problem(error: Exception) -> str:
    """The error in a line, with the place in the innermost file of a package."""
    *_, last = traceback.extract_tb(error.__traceback__)
    name = type(error).__name__
    return f"{name}: {' '.join(str(error).split())} ({Path(last.filename).name}:{last.lineno})"


if __name__ == "__main__":
    main()
