"""`astra-tui sass`: the machine code of a source, with source lines, and a diff of two."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.commands.check import find_source, read_text
from astra_tui.cli.exit_codes import ExitCode, UnavailableHere
from astra_tui.cli.flags import JSON
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.sass import Disassembled, Disassembly, SassDiff

if TYPE_CHECKING:
    from astra_tui.cli.json_answers import SassAnswer, SassEntry
    from astra_tui.model.task import KernelTask, Workload
    from astra_tui.present.document import Block


@command(
    "show the machine code of a source with its lines",
    "It is compiled for sm_90a and disassembled by nvdisasm; no GPU is needed. Counts are of "
    "instructions in the code, not of executions.",
    argument("task", "TASK", "a task's name or folder"),
    argument("source", "SOURCE.cu", "the source to disassemble"),
    flag("--against", metavar="SOURCE.cu", help="show what changed since this one"),
    flag("--kernel", metavar="NAME", help="this kernel alone, by its C++ name"),
    flag("--workload", metavar="NAME", help="the kernels of this workload (default: the first)"),
    flag("--histogram", help="counts by class alone, without the listing"),
    JSON,
    example="astra-tui sass silu_and_mul tuned.cu --against baseline.cu",
)
def run(options: Options) -> int:
    """Prints histogram and listing, or how they differ from another version's, or JSON."""
    from astra_tui.cli.json_answers import SassAnswer
    from astra_tui.model.task import find_task

    task = find_task(options.task)
    workload = task.workload(options.workload)
    names = [options.source, *([options.against] if options.against else [])]
    versions = _disassembled(task, workload, [find_source(task, name) for name in names])
    diff = _diff(versions)
    if options.kernel:
        versions, diff = _only(options.kernel, versions, diff)
    answer = SassAnswer(task.name, workload.name, tuple(map(_entry, versions)), diff)
    plain.print_answer(answer, options.json, lambda: _blocks(answer, versions, options.histogram))
    return ExitCode.OK if all(v.compilation.ok for v in versions) else ExitCode.COMPILE_ERROR


def _disassembled(task: KernelTask, workload: Workload, files: list[Path]) -> list[Disassembled]:
    """Each source with its machine code. Raises UnavailableHere when that cannot be had."""
    from astra_tui.cli.devices import open_compiler
    from astra_tui.lab.check.execution import read_source
    from astra_tui.lab.check.kernels import compile_workload
    from astra_tui.lab.explain.sass import disassemble

    versions: list[Disassembled] = []
    with open_compiler(task) as compiler:
        for file in files:
            source = read_source(task, read_text(file), str(file))
            compilation = compile_workload(task, source, workload, compiler)
            if compilation.ok:
                disassembly = disassemble(compilation)
                _require(disassembly)
            else:
                problem = "the source does not compile"
                disassembly = Disassembly((), compilation.arch, problem=problem)
            versions.append(Disassembled(str(file), source.text, compilation, disassembly))
    return versions


def _require(disassembly: Disassembly) -> None:
    if not disassembly.available:
        raise UnavailableHere(
            f"there is no machine code to show: {disassembly.problem}", hint=disassembly.remedy
        )


def _diff(versions: Sequence[Disassembled]) -> SassDiff | None:
    """The step from the version of `--against` to the first one."""
    from astra_tui.lab.explain.sass import compare

    if len(versions) < 2 or not all(v.compilation.ok for v in versions):
        return None
    after, before = versions
    return compare(before.disassembly.kernels, after.disassembly.kernels)


def _only(
    wanted: str, versions: Sequence[Disassembled], diff: SassDiff | None
) -> tuple[list[Disassembled], SassDiff | None]:
    """What is about one kernel; with a diff, its counterpart stays too. Raises UserError."""
    names = {k.name for v in versions for k in v.disassembly.kernels}
    names = {name for name in names if wanted in (name, _template(name))}
    if not names and all(v.compilation.ok for v in versions):
        known = [_template(k.name) for v in versions for k in v.disassembly.kernels]
        raise UserError(
            f"no kernel '{wanted}' is launched",
            file=versions[0].file,
            hint=nearest(wanted, known),
        )
    if diff is not None:
        pairs = tuple(k for k in diff.kernels if names & {k.before, k.after})
        names |= {name for pair in pairs for name in (pair.before, pair.after)}
        only_before, only_after = (
            tuple(n for n in side if n in names) for side in (diff.only_before, diff.only_after)
        )
        diff = SassDiff(pairs, only_before, only_after)
    return [_with_kernels(v, names) for v in versions], diff


def _template(kernel: str) -> str:
    return kernel.partition("<")[0]


def _with_kernels(version: Disassembled, names: Collection[str]) -> Disassembled:
    kernels = tuple(k for k in version.disassembly.kernels if k.name in names)
    disassembly = replace(version.disassembly, kernels=kernels)
    return replace(version, disassembly=disassembly)


def _entry(version: Disassembled) -> SassEntry:
    from astra_tui.cli.json_answers import SassEntry

    return SassEntry(
        source=version.file,
        compiled=version.compilation.ok,
        compiler=version.compilation.compiler,
        diagnostics=version.compilation.diagnostics,
        disassembly=version.disassembly,
    )


def _blocks(
    answer: SassAnswer, versions: Sequence[Disassembled], histogram_only: bool
) -> list[Block]:
    from astra_tui.present.checks import compile_error_blocks
    from astra_tui.present.sass import sass_blocks

    broken = [v for v in versions if not v.compilation.ok]
    if broken:
        errors = (compile_error_blocks(v.file, v.compilation) for v in broken)
        return [block for error in errors for block in error]
    title = f"{answer.task}, workload {answer.workload}"
    return sass_blocks(title, versions, answer.diff, histogram_only)
