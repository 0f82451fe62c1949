"""`astra-tui bench`: kernel sources against each other on a GPU, checked before they are timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.check import check_source, find_source, print_check, read_text
from astra_tui.cli.command import OneOf, Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode, worst
from astra_tui.cli.failures import KernelFailed, UnavailableHere
from astra_tui.cli.flags import JSON, chosen_seed
from astra_tui.model.contents import content_hash
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.settings import AUTO_DEVICE, EMULATOR, check_device_name
from astra_tui.model.timing import WRONG_OUTPUT, Timing

if TYPE_CHECKING:
    from astra_tui.cli.answers import BenchComparison, BenchEnvironment, BenchSource
    from astra_tui.gpu.device import CudaDevice
    from astra_tui.gpu.messages import DeviceFacts
    from astra_tui.lab.check.oracle import Oracle
    from astra_tui.lab.compiler import Compiler
    from astra_tui.lab.on_gpu.bench import Bench
    from astra_tui.lab.on_gpu.measuring import Options as Protocols
    from astra_tui.lab.on_gpu.measuring import Progress
    from astra_tui.lab.on_gpu.opening import Gpu
    from astra_tui.lab.on_gpu.workload import Compiled
    from astra_tui.model.check import CheckReport
    from astra_tui.model.events import RoundsTimed
    from astra_tui.model.task import KernelTask, Workload

_COUNT = "without a GPU, memory traffic and instructions are counted: astra-tui counters"

PROTOCOLS = ("both", "paired", "paper")


@dataclass(frozen=True)
class _Wanted:
    """What is to be measured; the first source is the base of all others."""

    task: KernelTask
    named: str
    workloads: tuple[Workload, ...]
    sources: tuple[tuple[Path, str], ...]
    """Files with their texts; two at least."""
    protocol: str
    energy: bool

    @property
    def names(self) -> tuple[str, ...]:
        """How the sources are named in tables: without their folders unless that is ambiguous."""
        files = [file for file, _ in self.sources]
        names = Counter(file.name for file in set(files))
        return tuple(file.name if names[file.name] == 1 else str(file) for file in files)


@dataclass(frozen=True)
class _Opened:
    """A GPU with all that checks and timings need."""

    gpu: Gpu
    device: CudaDevice
    compiler: Compiler
    oracle: Oracle


@command(
    "time sources against each other on a GPU",
    "Every source is checked first; one that is wrong is not timed. The first is the base, the "
    "others are candidates; a single one is timed against itself, which shows what differences "
    "this machine can tell. docs/timing.md says what is measured.",
    argument("task", "TASK", "a task's name or folder"),
    argument("sources", "SOURCE.cu", "the base, then the candidates", nargs=-1, required=True),
    flag(
        "--workload",
        metavar="NAME",
        multiple=True,
        help="only this workload (default: all); may be repeated",
    ),
    flag(
        "--protocol",
        type=OneOf(("both", "paired", "paper")),
        default="both",
        help="paired graph replay, the Astra paper's host launches, or both (default)",
    ),
    flag(
        "--device",
        metavar="DEVICE",
        default="auto",
        help="auto (default): the first GPU; or cuda:1",
    ),
    flag("--energy", help="also measure the energy of a launch, in blocks of more than a second"),
    JSON,
)
def run(options: Options) -> int:
    """Checks the sources, times them, prints a table for each candidate, or one JSON object."""
    from astra_tui.cli.answers import BenchAnswer
    from astra_tui.model.check import Verdict

    wanted = _wanted(options)
    _refuse_emulator(options.device)
    with _open(wanted.task, options.device) as opened:
        environment = _environment(opened.gpu.facts, opened.compiler)
        reports = _checked(wanted, opened, quiet=options.json)
        timings: tuple[Timing, ...] = ()
        if all(r.verdict is Verdict.PASSED for r in reports):
            timings = _timed(wanted, opened)
    code = worst([r.verdict for r in reports])
    if any(_wrong_when_timed(t) for t in timings):
        code = ExitCode.FAILED
    comparisons = _comparisons(wanted, timings)
    if options.json:
        sources = tuple(map(_source_entry, reports))
        task, protocol = wanted.task.name, wanted.protocol
        plain.print_json(BenchAnswer(int(code), task, protocol, environment, sources, comparisons))
    elif comparisons:
        _print(wanted, environment, reports, comparisons)
    return code


# -- what is asked for -----------------------------------------------------------------------------


def _wanted(options: Options) -> _Wanted:
    """Raises UserError for a task, workload or file that is not there."""
    from astra_tui.model.task import find_task

    task = find_task(options.task)
    files = [find_source(task, name) for name in options.sources]
    sources = [(file, read_text(file)) for file in files]
    if len(sources) == 1:  # Against itself: what this machine can tell apart.
        sources *= 2
    workloads = _workloads(task, options.workload)
    return _Wanted(task, options.task, workloads, tuple(sources), options.protocol, options.energy)


def _workloads(task: KernelTask, names: Sequence[str]) -> tuple[Workload, ...]:
    known = {w.name: w for w in task.workloads}
    for name in names:
        if name not in known:
            raise UserError(f"{task.name} has no workload '{name}'", hint=nearest(name, known))
    return tuple(known[name] for name in dict.fromkeys(names)) or task.workloads


def _refuse_emulator(device: str) -> None:
    check_device_name(device)
    if device == EMULATOR:
        raise UnavailableHere(
            "the emulator gives no times",
            hint=_COUNT,
        )


# -- the GPU ---------------------------------------------------------------------------------------


@contextmanager
def _open(task: KernelTask, device: str) -> Iterator[_Opened]:
    """Raises UnavailableHere where there is no such GPU, or no compiler."""
    from astra_tui.cli.devices import open_compiler, open_device
    from astra_tui.lab.on_gpu.opening import open_oracle

    with ExitStack() as stack:
        compiler = stack.enter_context(open_compiler())
        try:
            name = "cuda" if device == AUTO_DEVICE else device
            opened = stack.enter_context(open_device(name, compiler))
        except UserError as error:
            text = f"nothing can be timed here: {error.message}"
            raise UnavailableHere(text, hint=_COUNT) from None
        assert opened.gpu is not None, "a device of this name is a GPU"
        oracle = stack.enter_context(open_oracle(task, opened.gpu))
        yield _Opened(opened.gpu, _cuda(opened.device), compiler, oracle)


def _cuda(device: object) -> CudaDevice:
    from astra_tui.gpu.device import CudaDevice

    assert isinstance(device, CudaDevice), "a device of this name is a GPU"
    return device


def _environment(facts: DeviceFacts, compiler: Compiler) -> BenchEnvironment:
    import astra_tui
    from astra_tui.cli.answers import BenchEnvironment
    from astra_tui.gpu.nvml import GpuReader

    with GpuReader(facts.uuid) as reader:
        identity = reader.identity()
    if identity.name is None:  # The driver tells the name where NVML tells nothing.
        identity = replace(identity, name=facts.name)
    return BenchEnvironment(
        device=f"cuda:{facts.ordinal}",
        gpu=identity,
        compiler=str(compiler.start()),
        arch=facts.arch,
        version=astra_tui.__version__,
    )


# -- checking and timing ---------------------------------------------------------------------------


def _checked(wanted: _Wanted, opened: _Opened, *, quiet: bool) -> tuple[CheckReport, ...]:
    """A report for each text; those that did not pass are printed unless `quiet`."""
    from astra_tui.lab.check.emulator_check import EmulatorCheck
    from astra_tui.lab.check.runner import Checker
    from astra_tui.lab.check.suite import build_suite
    from astra_tui.model.check import Verdict

    total = len(build_suite(wanted.task))
    files: dict[str, Path] = {}
    for file, text in wanted.sources:
        files.setdefault(text, file)
    reports = []
    with EmulatorCheck(wanted.task) as emulator_check:
        parts = wanted.task, opened.device, opened.compiler, opened.oracle
        checker = Checker(*parts, chosen_seed(None), emulator_check)
        for text, file in files.items():
            report = check_source(checker, file, text, None, total)
            reports.append(report)
            if report.verdict is not Verdict.PASSED and not quiet:
                print_check(wanted.task, wanted.named, report)
    return tuple(reports)


def _timed(wanted: _Wanted, opened: _Opened) -> tuple[Timing, ...]:
    """One timing a candidate. Raises KernelFailed where the GPU could not do it."""
    from astra_tui.lab.on_gpu.bench import Bench
    from astra_tui.lab.on_gpu.compiling import compile_source
    from astra_tui.lab.on_gpu.measuring import MeasurementFailed

    versions = [
        compile_source(wanted.task, opened.compiler, opened.device.attributes, text, str(file))
        for file, text in wanted.sources
    ]
    opened.device.close()  # The process that measures has the GPU to itself.
    gpu, options = opened.gpu, _options(wanted.protocol, wanted.energy)
    try:
        with Bench(wanted.task, gpu.facts, gpu.tools, opened.oracle, options) as bench:
            return tuple(_followed(bench, wanted, versions))
    except MeasurementFailed as error:
        raise KernelFailed(
            f"the measurement failed on workload {error}",
            hint="every source had passed its check; see which one it is with --workload",
        ) from None


def _followed(bench: Bench, wanted: _Wanted, versions: Sequence[Compiled]) -> Iterator[Timing]:
    """The timings; on the way it shows how far the bench is."""
    from astra_tui.lab.on_gpu.bench import WorkloadDone
    from astra_tui.plain.live_timing import TimingProgress

    hashes = [content_hash(text) for _, text in wanted.sources]
    base, *candidates = versions
    with TimingProgress(wanted.names[1:]) as progress:
        for event in bench.time(wanted.workloads, base, candidates):
            if isinstance(event, Timing):
                yield event
            elif isinstance(event, WorkloadDone):
                progress.done(event.candidate, event.timing)
            else:
                progress.rounds(event.candidate, _rounds_timed(event, hashes))


def _rounds_timed(progress: Progress, hashes: Sequence[str]) -> RoundsTimed:
    from astra_tui.model.events import RoundsTimed

    return RoundsTimed(
        candidate=hashes[1 + progress.candidate],
        base=hashes[0],
        workload=progress.workload,
        base_us=progress.base_us,
        candidate_us=progress.candidate_us,
        speedup=progress.speedup,
        rounds=progress.rounds,
    )


def _options(protocol: str, energy: bool) -> Protocols:
    from astra_tui.gpu.timing.verdict import LOOKS
    from astra_tui.lab.on_gpu.measuring import Options as Protocols

    if protocol == "paper":  # The paired rounds are still needed to see that the GPU is sound.
        return Protocols(warm=False, paper=True, energy=energy, round_limit=LOOKS[0])
    return Protocols(paper=protocol == "both", energy=energy)


def _wrong_when_timed(timing: Timing) -> bool:
    return any(d.kind == WRONG_OUTPUT for w in timing.workloads for d in w.caveats)


# -- output ----------------------------------------------------------------------------------------


def _comparisons(wanted: _Wanted, timings: Iterable[Timing]) -> tuple[BenchComparison, ...]:
    from astra_tui.cli.answers import BenchComparison
    from astra_tui.gpu.timing.verdict import minimum_detectable

    base, *candidates = (str(file) for file, _ in wanted.sources)
    return tuple(
        BenchComparison(base, candidate, minimum_detectable(timing.control), timing)
        for candidate, timing in zip(candidates, timings, strict=False)
    )


def _source_entry(report: CheckReport) -> BenchSource:
    from astra_tui.cli.answers import BenchSource

    return BenchSource(report.source, report.source_hash, report.verdict, report.message)


def _print(
    wanted: _Wanted,
    environment: BenchEnvironment,
    reports: Sequence[CheckReport],
    comparisons: Sequence[BenchComparison],
) -> None:
    from astra_tui.plain.timing import (
        gpu_words,
        print_environment,
        print_paper_timing,
        print_timing,
    )

    names = {str(file): n for (file, _), n in zip(wanted.sources, wanted.names, strict=True)}
    gpu = gpu_words(environment.device, environment.gpu)
    print_environment(
        f"{wanted.task.name}: {gpu}, {environment.compiler}, {environment.arch}",
        [f"{names[r.source]}: {r.message}" for r in reports],
        wanted.protocol,
    )
    base, *candidates = wanted.names
    for candidate, found in zip(candidates, comparisons, strict=True):
        if wanted.protocol == "paper":
            print_paper_timing(found.timing, base=base, candidate=candidate)
            continue
        detectable = found.minimum_detectable
        print_timing(found.timing, base=base, candidate=candidate, detectable=detectable)
