"""Exports a session's winner, and checks the export before it is called done."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace as replace_fields

from astra_tui.export import (
    DeliveryReport,
    ExportReport,
    ExportStep,
    Files,
    Format,
    Framework,
    StepOutcome,
    Subject,
    Winner,
    export_files,
    package_name,
)
from astra_tui.export.cases import all_cases, full_size_cases
from astra_tui.export.checks import ExportChecks, Tools
from astra_tui.export.delivery import ARCHS, adapter_of
from astra_tui.export.delivery_trial import AdapterTrial
from astra_tui.export.dossier import dossier
from astra_tui.export.formats import readme
from astra_tui.lab.check.execution import Source, read_source
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.check.kernels import kernels_to_compile
from astra_tui.lab.check.layout import layouts_of, plan_layouts
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.devices import open_device
from astra_tui.lab.on_gpu.opening import open_oracle
from astra_tui.lab.upstream import contents_of, task_headers
from astra_tui.model.compilation import Compilation
from astra_tui.model.digest import short
from astra_tui.model.dtypes import TENSOR_ONLY
from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.model.launch import DEVICE_ATTRIBUTES
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask
from astra_tui.sessions.store import place_for

OTHER_ARCHS = ("sm_80", "sm_100", "sm_120")
"""Compiled into a PyTorch package in addition to the architecture that is checked."""

_WITHOUT_WAITING = """#if __CUDA_ARCH__ < 900
#define cudaGridDependencySynchronize() ((void)0)
#define cudaTriggerProgrammaticLaunchCompletion() ((void)0)
#endif
"""
"""Before a source, for architectures older than programmatic dependent launch: there each launch
waits for those before it, so that a kernel has nothing to wait for."""

README = "README.md"

_NOT_ASKED = "it was not asked for: --no-check"


@contextmanager
def open_exporter(
    task: KernelTask,
    device: str,
    compiler: Compiler,
    *,
    trust: bool = False,
    fresh_seed: int = 0,
) -> Iterator[Exporter]:
    """Opens oracle and device; `trust` lets the candidate's text be run as host code as well.

    What is exported is checked with the session's drawn cases, and with those of `fresh_seed`.

    Raises UserError for a device that is not there, CompilerUnavailable.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(open_device(device, compiler))
        oracle = stack.enter_context(open_oracle(task, opened.gpu))
        checker = Checker(task, opened.device, compiler, oracle, fresh_seed)
        gpu = opened.gpu.facts.uuid if opened.gpu is not None else ""
        tools = Tools.found(gpu, trust=trust)
        yield Exporter(checker, tools)


@dataclass(frozen=True)
class Exporter:
    """Writes and checks exports of one task on one device."""

    checker: Checker
    tools: Tools

    def subject(self, winner: Winner) -> Subject:
        """A winner with its kernels compiled. Raises PlanError, and UserError for another task."""
        task, compiler = self.checker.task, self.checker.compiler
        source = _source(winner, task)
        require_addresses(task)
        cases = (*all_cases(winner, task, winner.seed), *full_size_cases(task))
        attributes = getattr(self.checker.device, "attributes", DEVICE_ATTRIBUTES)
        kernels = kernels_to_compile(task, source, cases, attributes)
        samples = tuple(
            Bindings(
                case.dtype,
                case.dims,
                plan_layouts(layouts_of(task, case)),
                scalars_of(task, case),
                attributes,
            )
            for case in cases
        )
        compilation = compiler.compile(winner.text, kernels)
        if not compilation.ok:
            raise UserError(
                f"the candidate does not compile here: {compilation.errors[0].message}",
                file=source.file,
            )
        return Subject(
            winner, task, source.plan, samples, (compilation,), _included(task, compiler, winner)
        )

    def export(self, winner: Winner, to: Format, out: Path, *, check: bool = True) -> ExportReport:
        """Writes an export into a folder that is not there yet, or is empty.

        It is checked next to it first, and only moved there when no check failed.
        """
        _require_new(out)
        subject = self._subject(winner, to)
        files = export_files(subject, to)
        with _draft(out, files) as draft:
            steps = self._steps(subject, to, draft) if check else (_unasked(),)
            files = _explained(draft, files, subject, to, steps)
            report = _report(subject, to, out, files, steps)
            if not report.failed:
                _move(draft, out)
        return report

    def deliver(
        self,
        winner: Winner,
        to: Framework,
        state: SessionState,
        out: Path,
        python: str,
        *,
        check: bool = True,
        prove: bool = False,
    ) -> DeliveryReport:
        """Writes an adapter for a framework into a folder that is not there yet, or is empty.

        `python` is the interpreter that has the framework, in which the adapter is tried and, with
        `prove`, its use is proved.
        """
        _require_new(out)
        adapter = adapter_of(self._for_archs(self.subject(winner), ARCHS), to, state)
        package = {f"{package_name(adapter.task)}/{n}": c for n, c in adapter.package.items()}
        steps: tuple[ExportStep, ...] = (_unasked(),)
        if check:
            with _draft(out, package) as draft:
                trial = AdapterTrial(adapter, draft, python, bool(self.tools.gpu))
                steps = (*self._steps(adapter.subject, Format.TORCH, draft), trial.hook())
                steps = (*steps, *((trial.proof(),) if prove else ()))
        files = adapter.files(steps)
        report = DeliveryReport(
            framework=to,
            pinned=adapter.target.pinned,
            api=adapter.api,
            switch=adapter.switch,
            session=winner.session,
            task=adapter.task.name,
            candidate=winner.candidate,
            archs=adapter.archs,
            measured=adapter.measured,
            folder=str(out),
            files=tuple(sorted(files)),
            steps=steps,
        )
        if report.failed:
            return replace_fields(report, folder="")
        with _draft(out, files) as draft:
            _move(draft, out)
        return report

    def files(self, winner: Winner, to: Format) -> Files:
        """What an export consists of; nothing is written or checked."""
        return export_files(self._subject(winner, to), to)

    def _subject(self, winner: Winner, to: Format) -> Subject:
        subject = self.subject(winner)
        return self._for_archs(subject, OTHER_ARCHS) if to is Format.TORCH else subject

    def _steps(self, subject: Subject, to: Format, draft: Path) -> tuple[ExportStep, ...]:
        with tempfile.TemporaryDirectory(prefix="astra-export-") as scratch:
            checks = ExportChecks(subject, self.checker, self.tools, draft, Path(scratch))
            return tuple(checks.run(to))

    def _for_archs(self, subject: Subject, archs: Sequence[str]) -> Subject:
        """The kernels for the architectures that they compile for, the checked one first."""
        (first,) = subject.compilations
        compiled: list[Compilation] = [first]
        for arch in archs:
            if arch.rstrip("a") == first.arch.rstrip("a"):
                continue
            names = tuple(k.expression for k in first.kernels)
            other = self.checker.compiler.compile(subject.winner.text, names, arch)
            if not other.ok and subject.pdl:
                text = _WITHOUT_WAITING + subject.winner.text
                other = self.checker.compiler.compile(text, names, arch)
            if other.ok:
                compiled.append(other)
        return replace(subject, compilations=tuple(compiled))


def export_text(winner: Winner, task: KernelTask, to: Format, out: Path) -> ExportReport:
    """Writes a source or a patch without a compiler, and so without a check."""
    _require_new(out)
    plan = _source(winner, task).plan
    included = _included(task, Compiler(upstream=task_headers(task)), winner)
    subject = Subject(winner, task, plan, upstream=included)
    files = export_files(subject, to)
    with _draft(out, files) as draft:
        files = _explained(draft, files, subject, to, (_unasked(),))
        _move(draft, out)
    return _report(subject, to, out, files, (_unasked(),))


def _explained(
    draft: Path, files: Files, subject: Subject, to: Format, steps: tuple[ExportStep, ...]
) -> Files:
    """The files of a draft with the README, which says what was checked."""
    added = {README: readme(subject, to, steps)}
    _write(draft, added)
    return {**files, **added}


def _included(task: KernelTask, compiler: Compiler, winner: Winner) -> dict[str, bytes]:
    """The upstream files that a winner includes, directly or not, and all licence files of them."""
    if task.upstream is None:
        return {}
    contents = contents_of(task.upstream)
    paths = compiler.included(winner.text).paths
    licences = filter(_is_licence, contents) if paths else ()
    return {path: contents[path] for path in (*paths, *licences)}


def _is_licence(path: str) -> bool:
    return PurePosixPath(path).name.lower().startswith(("licen", "copying", "notice"))


def _source(winner: Winner, task: KernelTask) -> Source:
    """The candidate with its plan, validated against the task, which has to be the session's."""
    if task.hash != winner.task_hash:
        raise UserError(
            f"this task is not the one of session {winner.session}: its hash is "
            f"{short(task.hash)}, the session ran on {short(winner.task_hash)}",
            file=str(task.folder),
        )
    return read_source(task, winner.text, f"candidate {short(winner.candidate)}")


def require_addresses(task: KernelTask) -> None:
    """Hosts of packages check shapes and strides in elements, of which each has its address."""
    shared = next((a for a in task.tensors if a.dtype in TENSOR_ONLY), None)
    if shared is not None and shared.dtype is not None:
        raise UserError(
            f"{shared.name} holds {shared.dtype.value}, two elements in a byte, which generated "
            "host code cannot describe",
            file=str(task.file),
            hint="export the source or a patch",
        )


def write_dossier(
    winner: Winner,
    task: KernelTask,
    state: SessionState,
    to: Framework,
    out: Path,
    audit: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Writes what a framework's maintainers need to judge a winner into a new folder.

    `audit` is what `astra-tui audit --json` found of the check. Returns the files.
    """
    _require_new(out)
    files = dossier(winner, task, state, to, audit).files
    with _draft(out, files) as draft:
        _move(draft, out)
    return tuple(files)


def _require_new(out: Path) -> None:
    place_for(out / "export")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("already exists", file=str(out), hint="name a new folder: --out DIR")


@contextmanager
def _draft(out: Path, files: Files) -> Iterator[Path]:
    """The files in a folder next to the one they are meant for, which goes away with the block."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        parent = out.parent.resolve()
        with tempfile.TemporaryDirectory(dir=parent, prefix=".export-") as temporary:
            folder = Path(temporary) / "export"
            _write(folder, files)
            yield folder
    except OSError as error:
        raise OutOfResources.or_bad_input(error, "cannot be written", out) from None


def _report(
    subject: Subject, to: Format, out: Path, files: Files, steps: tuple[ExportStep, ...]
) -> ExportReport:
    failed = any(step.outcome is StepOutcome.FAILED for step in steps)
    return ExportReport(
        format=to,
        session=subject.winner.session,
        task=subject.task.name,
        candidate=subject.winner.candidate,
        folder="" if failed else str(out),
        files=tuple(sorted(files)),
        steps=steps,
    )


def _unasked() -> ExportStep:
    return ExportStep("every check", StepOutcome.NOT_CHECKED, _NOT_ASKED)


def _write(folder: Path, files: Files) -> None:
    for name, content in files.items():
        path = folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise UserError("an export would write this outside of its folder", file=name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _move(draft: Path, out: Path) -> None:
    if out.is_dir():
        out.rmdir()  # It is empty.
    for cache in draft.rglob("__pycache__"):
        shutil.rmtree(cache)
    draft.rename(out)
