"""The command on a scripted GPU: python -m tests.cli.scripted_gpu COMMAND ...

Processes, frames and statistics are the real ones, and so is the compiler; in the place of machine
code it gives a script, in which every kernel computes silu_and_mul of float16 in as many
microseconds as its source says in a line such as `// scripted: 50 us`, or for each value of a
`tune` constant in one such as `// scripted by threads: 64=50 128=40`. On a GPU of the other kind a
line such as `// scripted elsewhere: 60 us` goes before both.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import msgspec
import pytest

from astra_tui.cli import main
from astra_tui.engine import lab
from astra_tui.gpu import gpu_process
from astra_tui.gpu.gpu_process import Found
from astra_tui.lab import compiler, devices
from astra_tui.lab.compiler import Build
from astra_tui.lab.on_gpu import doctor, opening
from astra_tui.model.compilation import Compilation
from astra_tui.model.digest import content_hash
from astra_tui.processes.child import Child
from tests.gpu.kernels import MODULE, scripted_tools
from tests.gpu.script import (
    ILLEGAL_ADDRESS,
    OTHER_KIND,
    Script,
    Scripted,
    facts_here,
    machine_here,
)
from tests.warm import ROOT

_TIME = re.compile(r"// scripted: (\d+) us")
_ELSEWHERE = re.compile(r"// scripted elsewhere: (\d+) us")
_BY = re.compile(r"// scripted by (\w+):((?: \d+=\d+)+)")
_LATER = re.compile(r"// scripted: (\w+) after (\d+) launches")


class ScriptedCompiler(compiler.Compiler):
    """NVRTC in front, scripts behind."""

    def compile(self, source: str, *arguments: Any, **named: Any) -> Compilation:
        """As the real one, but for the machine code, and for a variable in the PTX by which sources
        that take other times are told to be other code.
        """
        compiled = super().compile(source, *arguments, **named)
        kernel = _scripted(source)
        cubin = Script({k.symbol: kernel for k in compiled.kernels}).cubin()
        mark = f".global .align 1 .b8 scripted_{content_hash(repr(kernel))}[1];\n"
        ptx = f"{compiled.ptx}\n{mark}" if compiled.ptx else ""
        return msgspec.structs.replace(compiled, cubin=cubin, ptx=ptx)

    def build(self, source: str, *arguments: Any, **named: Any) -> Build:
        """As the real one, but for what the machine code does."""
        built = super().build(source, *arguments, **named)
        script = Script({symbol: _scripted(source) for symbol in built.symbols.values()})
        return msgspec.structs.replace(built, cubin=script.behind(built.cubin))


def _scripted(source: str) -> Scripted:
    time, later = _TIME.search(source), _LATER.search(source)
    us = float(time[1]) if time else 50.0
    if by := _BY.search(source):
        tune = re.search(rf"tune {by[1]} = (\d+)", source)
        times = dict(pair.split("=") for pair in by[2].split())
        us = float(times.get(tune[1], us)) if tune else us
    if (elsewhere := _ELSEWHERE.search(source)) and facts_here().name == OTHER_KIND:
        us = float(elsewhere[1])
    if later and later[1] == "dies":
        return Scripted("silu", us, error=ILLEGAL_ADDRESS, spared=int(later[2]))
    if later:
        return Scripted(later[1], us, {"diligent": int(later[2])})
    return Scripted("silu", us)


def plug_in(patch: pytest.MonkeyPatch) -> None:
    """From now on this process finds the scripted GPU."""

    def scripted_child(_module: str, **options: Any) -> Child:
        return Child(MODULE, **options)

    def scripted_lab(_module: str, arguments: tuple[str, ...], name: str) -> Child:
        return Child("tests.gpu_tools.scripted_worker", arguments, name)

    def found() -> Found:
        return Found((facts_here(),))

    patch.setenv("PYTHONPATH", str(ROOT))
    patch.setattr(gpu_process, "Child", scripted_child)
    patch.setattr(lab, "Child", scripted_lab)
    patch.setattr(opening, "find_devices", found)
    patch.setattr(devices, "find_devices", found)
    patch.setattr(doctor, "find_devices", found)
    patch.setattr(opening, "compile_tools", lambda _compiler, _arch: scripted_tools(machine_here()))
    patch.setattr(compiler, "Compiler", ScriptedCompiler)
    patch.setattr(doctor, "Compiler", ScriptedCompiler)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patched:
        plug_in(patched)
        sys.exit(main())
