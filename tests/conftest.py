"""Shared fixtures: a real compiler, the real emulator, and a cache that lives next to the tests."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import hypothesis
import psutil
import pytest

# No time limits: a busy machine would trip them.
hypothesis.settings.register_profile("any load", deadline=None)
hypothesis.settings.load_profile("any load")

ROOT = Path(__file__).resolve().parents[1]

# A suite that runs in the background ignores these, and what it starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP):
    signal.signal(_number, signal.SIG_DFL)

# The same cases every time, so that expected values are computed once; tests of seeds choose some.
os.environ.setdefault("ASTRA_TUI_SEED", "0")
os.environ["ASTRA_TUI_MEMORY"] = "off"
os.environ.setdefault("ASTRA_TUI_CACHE", str(ROOT / ".astra" / "test-cache"))
# As the program's own processes have it: on small tensors, threads of torch spend most of their
# time waiting for each other, which takes the processors from other tests.
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

OWN_SOURCES = sorted(f for own in ROOT.glob("kernels/*/tuned.cu") for f in own.parent.glob("*.cu"))
"""Those of the bundled tasks whose sources are ours; `tests/upstream` has the others."""

LONGEST = {
    ROOT / "tests" / f for f in ("tui/test_terminal.py", "web/test_serve.py", "zoo/test_audit.py")
}
"""Files whose tests take ten seconds and more, most of them waiting."""

from astra_tui.emulator.device import Emulator  # noqa: E402
from astra_tui.engine.lab import Lab  # noqa: E402
from astra_tui.lab.check.oracle import Oracle  # noqa: E402
from astra_tui.lab.check.oracle_worker import evaluate, load_reference  # noqa: E402
from astra_tui.lab.check.runner import Checker  # noqa: E402
from astra_tui.lab.compiler import Compiler  # noqa: E402
from astra_tui.model.task import KernelTask, load_task  # noqa: E402
from astra_tui.processes.child import Child, child_environment  # noqa: E402
from tests.engine.scripted import run_three_rounds  # noqa: E402
from tests.lab_answers import LabAnswers  # noqa: E402
from tests.quick import SMALL_WORKLOAD, write_quick_task  # noqa: E402
from tests.warm import warm  # noqa: E402

MadeOnce: TypeAlias = Callable[[str, Callable[[Path], object]], Path]
"""Takes a name and what makes a folder of that name."""

CheckerOf: TypeAlias = Callable[[KernelTask], Checker]


class OracleHere(Oracle):
    """The reference in this process, so that torch is imported once for all tasks: for tests that
    are not about the process in which it runs.
    """

    def start(self) -> None:
        """There is nothing to start."""

    @cached_property
    def _reference(self) -> Callable[..., Any]:
        return load_reference(self.task.reference_file)

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"outputs": evaluate(self._reference, message)}


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that has ended may go at any moment, also while it is asked."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The first of several processes collects alone: the others load what it has compiled."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    with Path(__file__).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest begin first: begun last, all other processes would wait for them."""
    items.sort(key=lambda item: item.path not in LONGEST)


def pytest_collection_finish() -> None:
    """What has been collected stays to the end: a fifth of the screen's tests went to the garbage
    collector, which looked through all of it again and again.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def compiler() -> Iterator[Compiler]:
    """One real NVRTC process for the whole session."""
    with Compiler() as opened:
        yield opened


@pytest.fixture(scope="session")
def checker_of(compiler: Compiler) -> CheckerOf:
    """The checker of a task on the emulator: the inputs, the proofs and the baseline's errors that
    it knows are there for all tests.
    """

    @cache
    def of(folder: Path, _hash: str) -> Checker:
        task = load_task(folder)
        return Checker(task, Emulator(), compiler, OracleHere(task))

    return lambda task: of(task.folder, task.hash)


@pytest.fixture(scope="session")
def tasks() -> dict[str, KernelTask]:
    """The bundled kernel tasks whose sources are ours, by name; `tests/upstream` has the others."""
    return {p.parent.name: load_task(p.parent) for p in sorted(ROOT.glob("kernels/*/tuned.cu"))}


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """Has a folder made by whichever process of this run needs it first, for all to read."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    shared.mkdir(exist_ok=True)

    def folder_of(name: str, make: Callable[[Path], object]) -> Path:
        folder, done = shared / name, shared / f"{name}.made"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return folder_of


@pytest.fixture(scope="session")
def quick_task(made_once: MadeOnce) -> KernelTask:
    """silu_and_mul cut down, see `tests/quick.py`."""
    return load_task(made_once("quick", write_quick_task) / "silu_and_mul")


@pytest.fixture(scope="session")
def small_task(made_once: MadeOnce) -> KernelTask:
    """The same with small sizes alone, for tests that run every workload whole."""
    folder = made_once("small", lambda f: write_quick_task(f, SMALL_WORKLOAD))
    return load_task(folder / "silu_and_mul")


@pytest.fixture(scope="session")
def three_rounds(made_once: MadeOnce, quick_task: KernelTask) -> Path:
    """A saved session on the emulator: a better, a wrong and a worse candidate."""
    name = "silu_and_mul-20260101-120000"
    return made_once("sessions", lambda f: run_three_rounds(f / name, quick_task)) / name


@pytest.fixture(scope="module")
def warm_processes() -> Iterator[None]:
    """What the program starts as its own is forked off a process that has it imported: for files of
    tests that are not about how processes start, or whose children they are.
    """
    with pytest.MonkeyPatch.context() as patch:
        warm(patch)
        yield


@pytest.fixture(scope="session")
def idle_lab_processes() -> Iterator[dict[object, list[Child]]]:
    """What `kept_labs` keeps."""
    idle: dict[object, list[Child]] = {}
    yield idle
    for children in idle.values():
        for child in children:
            child.close()


@pytest.fixture
def kept_labs(
    idle_lab_processes: dict[object, list[Child]],
    monkeypatch: pytest.MonkeyPatch,
    warm_processes: None,
) -> None:
    """A lab takes over the idle processes of the labs of earlier tests, as a session's next
    candidate does: for tests that are not about the start or the end of one.
    """
    new, close = Lab._new, Lab.close

    def of(lab: Lab) -> list[Child]:
        key = lab.task.folder, lab.task.hash, lab.device, *child_environment().items()
        return idle_lab_processes.setdefault(key, [])

    def take(lab: Lab) -> Child:
        kept = of(lab)
        return kept.pop() if kept else new(lab)

    def keep(lab: Lab) -> None:
        running = [child for child in lab._free if child.running]
        lab._free = [child for child in lab._free if child not in running]
        of(lab).extend(running)
        close(lab)

    monkeypatch.setattr(Lab, "_new", take)
    monkeypatch.setattr(Lab, "close", keep)


@pytest.fixture(scope="session")
def lab_answers(made_once: MadeOnce) -> LabAnswers:
    """What `known_answers` keeps."""
    return LabAnswers(made_once("answers", lambda _: None))


@pytest.fixture
def known_answers(
    kept_labs: None, lab_answers: LabAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lab on the emulator answers as one of an earlier test did that was asked just the same:
    for tests of what is made of the answers, where the first is of a lab at work.
    """
    lab_answers.recall(monkeypatch)


@pytest.fixture
def lab_at_work(known_answers: None, lab_answers: LabAnswers, tmp_path: Path) -> Iterator[None]:
    """All that this test asks first is answered by a lab at work: for tests that stop one."""
    before = lab_answers.folder
    lab_answers.folder = tmp_path / "answers"
    lab_answers.folder.mkdir()
    yield
    lab_answers.folder = before


@pytest.fixture
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ASTRA_TUI_CACHE", str(folder))
    return folder
