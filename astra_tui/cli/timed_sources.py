"""Sources on an open GPU, checked before they are timed: for commands and for the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui.cli.click_command import flag
from astra_tui.cli.commands.check import check_source, print_check
from astra_tui.cli.exit_codes import UnavailableHere
from astra_tui.cli.flags import chosen_seed
from astra_tui.model.errors import UserError
from astra_tui.model.settings import AUTO_DEVICE, EMULATOR, check_device_name

if TYPE_CHECKING:
    from astra_tui.cli.json_answers import BenchEnvironment, BenchSource
    from astra_tui.gpu.device import CudaDevice
    from astra_tui.gpu.messages import DeviceFacts
    from astra_tui.lab.check.oracle import Oracle
    from astra_tui.lab.compiler import Compiler
    from astra_tui.lab.on_gpu.opening import Gpu
    from astra_tui.model.check import CheckReport
    from astra_tui.model.gpu import GpuIdentity
    from astra_tui.model.task import KernelTask, Workload
    from astra_tui.model.timing import Timing
    from astra_tui.sessions.comparison import Sides

_COUNT = "without a GPU, memory traffic and instructions are counted: astra-tui counters"

WORKLOADS = flag(
    "--workload",
    metavar="NAME",
    multiple=True,
    help="only this workload (default: all); may be repeated",
)
GPU = flag(
    "--device",
    metavar="DEVICE",
    default="auto",
    help="auto (default): the first GPU; or cuda:1",
)


@dataclass(frozen=True)
class OpenGpu:
    """A GPU with all that checks and timings need."""

    gpu: Gpu
    device: CudaDevice
    compiler: Compiler
    oracle: Oracle

    @property
    def environment(self) -> BenchEnvironment:
        """On what is measured."""
        return environment_of(self.gpu.facts, self.gpu.identify(), self.compiler.identify())


def chosen_workloads(task: KernelTask, names: Sequence[str]) -> tuple[Workload, ...]:
    """The named workloads, or all. Raises UserError for one that the task does not have."""
    return tuple(map(task.workload, dict.fromkeys(names))) or task.workloads


def refuse_emulator(device: str) -> None:
    """Raises UnavailableHere where times are asked of the emulator."""
    check_device_name(device)
    if device == EMULATOR:
        raise UnavailableHere(
            "the emulator gives no times",
            hint=_COUNT,
        )


def gpu_for_timing(device: str) -> str:
    """The GPU that a name means. Raises UnavailableHere where there is none."""
    from astra_tui.lab.devices import choose_device

    try:
        return choose_device("cuda" if device == AUTO_DEVICE else device).name
    except UserError as error:
        raise _nothing_timed(error) from None


def _nothing_timed(error: UserError) -> UnavailableHere:
    return UnavailableHere(f"nothing can be timed here: {error.message}", hint=_COUNT)


@contextmanager
def open_for_timing(task: KernelTask, device: str) -> Iterator[OpenGpu]:
    """Raises UnavailableHere where there is no such GPU, or no compiler."""
    from astra_tui.cli.devices import open_compiler, open_device
    from astra_tui.lab.on_gpu.opening import open_oracle

    with ExitStack() as stack:
        compiler = stack.enter_context(open_compiler(task))
        try:
            name = "cuda" if device == AUTO_DEVICE else device
            opened = stack.enter_context(open_device(name, compiler))
        except UserError as error:
            raise _nothing_timed(error) from None
        assert opened.gpu is not None, "a device of this name is a GPU"
        oracle = stack.enter_context(open_oracle(task, opened.gpu))
        yield OpenGpu(opened.gpu, _cuda(opened.device), compiler, oracle)


def _cuda(device: object) -> CudaDevice:
    from astra_tui.gpu.device import CudaDevice

    assert isinstance(device, CudaDevice), "a device of this name is a GPU"
    return device


def environment_of(facts: DeviceFacts, identity: GpuIdentity, compiler: str) -> BenchEnvironment:
    """On what is measured."""
    import astra_tui
    from astra_tui.cli.json_answers import BenchEnvironment

    return BenchEnvironment(
        device=f"cuda:{facts.ordinal}",
        gpu=identity,
        compiler=compiler,
        arch=facts.arch,
        version=astra_tui.__version__,
    )


def checked(
    task: KernelTask,
    named: str,
    sources: Sequence[tuple[Path, str]],
    opened: OpenGpu,
    *,
    quiet: bool,
) -> tuple[CheckReport, ...]:
    """A report for each text; those that did not pass are printed unless `quiet`."""
    from astra_tui.lab.check.emulator_check import EmulatorCheck
    from astra_tui.lab.check.runner import Checker
    from astra_tui.lab.check.suite import build_suite
    from astra_tui.model.check import CheckVerdict

    total = len(build_suite(task))
    files: dict[str, Path] = {}
    for file, text in sources:
        files.setdefault(text, file)
    reports = []
    with EmulatorCheck(task) as emulator_check:
        parts = task, opened.device, opened.compiler, opened.oracle
        checker = Checker(*parts, chosen_seed(None), emulator_check)
        for text, file in files.items():
            report = check_source(checker, file, text, None, total)
            reports.append(report)
            if report.verdict is not CheckVerdict.PASSED and not quiet:
                print_check(task, named, report)
    return tuple(reports)


def source_entry(report: CheckReport) -> BenchSource:
    """A source and the verdict of its check, for JSON."""
    from astra_tui.cli.json_answers import BenchSource

    return BenchSource(report.source, report.source_hash, report.verdict, report.message)


async def time_sides(
    sides: Sides, *, task: str | None = None, trust: bool = False, device: str = AUTO_DEVICE
) -> tuple[Timing | None, str]:
    """One timing of the second against the first, or why there is none.

    `task` is the folder or name of theirs, where it is not the one that the sessions name;
    `trust` takes a folder that only they name. Raises UserError.
    """
    import asyncio

    from astra_tui.cli.session_lookup import local_task
    from astra_tui.engine.lab import Lab, LabFailed
    from astra_tui.engine.rerun import check, named_source, time_pair
    from astra_tui.lab.devices import choose_device

    first, second = sides
    if first.trust.altered or second.trust.altered:
        return None, "nothing of a session that was altered is run"
    if first.compared.task_hash != second.compared.task_hash:
        return None, "the sessions ran on different tasks"
    if first.compared.candidate == second.compared.candidate:
        return None, "both are the same source"
    chosen = await asyncio.to_thread(choose_device, device)
    if chosen.name == EMULATOR:
        return None, "there is no GPU, and the emulator gives no times"
    _, found = await asyncio.to_thread(local_task, first.state, first.folder, task, trust=trust)
    lab = Lab(found, chosen.name)
    base, candidate = (named_source(s.source, s.compared.candidate) for s in sides)
    try:
        for side, source in ((first, base), (second, candidate)):
            checked = await check(lab, source, side.state.cases)
            if not checked.passed:
                return None, f"{side.name} does not pass its check: {checked.report.message}"
        return await time_pair(lab, base, candidate), ""
    except (UserError, LabFailed) as error:
        return None, str(error)
    finally:
        lab.close()
