"""Opens what a command needs to run kernels: the compiler, and the device that `--device` names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from astra_tui.cli.exit_codes import UnavailableHere
from astra_tui.model.settings import check_device_name

if TYPE_CHECKING:
    from astra_tui.cli.click_command import Options
    from astra_tui.lab.compiler import Compiler
    from astra_tui.lab.compiler.headers import HeaderTree
    from astra_tui.lab.devices import DeviceChoice, Opened
    from astra_tui.model.task import KernelTask
    from astra_tui.workers import Workers


@contextmanager
def open_device(name: str, compiler: Compiler) -> Iterator[Opened]:
    """The device by name; the compiler compiles for it from now on.

    Raises UserError for a device that is not there, UnavailableHere without a compiler.
    """
    from astra_tui.lab import devices

    check_device_name(name)
    with devices.open_device(name, compiler) as opened:
        yield opened


@contextmanager
def asked_workers(options: Options, *, live: bool = False) -> Iterator[Workers | None]:
    """The workers that flags ask for, None where none are; at the end it says what each did.

    With `live` a terminal shows meanwhile what each is at. Raises UserError, also from the block
    where all workers are lost.
    """
    from astra_tui import plain

    if not (options.workers or options.scheduler):
        yield None
        return
    from astra_tui.plain.console import drawn_lines, live_display
    from astra_tui.present.devices import status_lines
    from astra_tui.workers import WorkersAsked, WorkersFailed, open_workers

    asked = WorkersAsked.read(options.workers, options.scheduler)
    assert asked is not None
    try:
        with open_workers(asked) as workers:
            plain.note("\n".join(status_lines(workers.status)))
            drawn = drawn_lines(lambda: status_lines(workers.status))
            with live_display(drawn) if live else nullcontext():
                yield workers
            plain.note("\n".join(status_lines(workers.status)))
    except WorkersFailed as error:
        raise UnavailableHere(str(error), hint="see docs/workers.md") from None


def choose_device(name: str, workers: Workers | None) -> DeviceChoice:
    """The device that a name means, here or on workers. Raises UserError where there is none."""
    from astra_tui.lab import devices

    return devices.choose_device(name) if workers is None else workers.device(name)


@contextmanager
def open_compiler(task: KernelTask | None = None) -> Iterator[Compiler]:
    """The compiler, for sources of a task where one is given, whose upstream files are fetched.

    Raises UnavailableHere from the block when there is none, UserError for files that cannot be
    had.
    """
    from astra_tui.lab.compiler import Compiler, CompilerUnavailable

    upstream = fetch_upstream(task) if task is not None else None
    try:
        with Compiler(upstream=upstream) as compiler:
            yield compiler
    except CompilerUnavailable as error:
        reason = str(error).strip().splitlines()[-1]
        raise UnavailableHere(
            f"the compiler does not work here: {reason}", hint="see: astra-tui doctor"
        ) from None


def fetch_upstream(task: KernelTask) -> HeaderTree | None:
    """What sources of a task may include; says so where a package is downloaded for that.

    Raises UserError.
    """
    if task.upstream is None:
        return None
    from astra_tui import plain
    from astra_tui.lab.upstream import must_fetch, task_headers
    from astra_tui.plain.output import Steps

    package = must_fetch(task)
    if package is None:
        return task_headers(task)
    count = len(task.upstream.files)
    plain.note(f"fetching {package} ({package.file}) for {count} upstream files of {task.name}")
    with Steps() as shown:
        return task_headers(task, progress=shown.begin(f"fetching {package}"))
