"""What is checked of each kind of export, with what this machine has."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from astra_tui.export import FORMATS, ExportStep, Format, StepOutcome, Subject, package_name
from astra_tui.export.cases import (
    Artefact,
    ArtefactFailed,
    NoGpuForArtefact,
    all_cases,
    case_message,
    run_cases,
)
from astra_tui.export.host import (
    HostCheckFailed,
    cpp_answers,
    differences,
    python_answers,
)
from astra_tui.export.source_files import BASELINE, with_header
from astra_tui.lab.check.inputs import draw_inputs
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.source_check import CheckEvent
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.upstream import contents_of, header_tree
from astra_tui.model.check import Case, CheckReport, CheckVerdict
from astra_tui.model.task.upstream import load_upstream
from astra_tui.model.task_folders import UPSTREAM_LIST
from astra_tui.processes.child import child_environment

BUILD_SECONDS = 600.0

_HOST_MARK = re.compile(
    r"(#|%:)\s*(if|ifdef|ifndef|elif)\b|\?\?[=/]|##|%:%:|\[\s*\[|<:|"
    r"\b(asm|__asm__|__asm|__attribute__|__attribute|__CUDACC\w*|__NVCC__|__CUDA_ARCH\w*|__GNUC__)\b"
)

_COMPILED = "run through torch.compile"
_WARNINGS = 2000
"""Characters of a compiler's output that are shown."""


@dataclass(frozen=True)
class Tools:
    """What this machine has for checking exports; "" where something is missing."""

    gpu: str
    """UUID of the GPU on which cases run."""
    git: str
    nvcc: str
    host_compiler: str
    tvm_ffi: bool
    trust: bool
    """Whether what nvcc makes of a candidate may run even where it could hold host code."""

    @classmethod
    def found(cls, gpu: str, *, trust: bool = False) -> Tools:
        """Looks for the tools; `gpu` is the UUID of the GPU on which cases run, or ""."""
        host = shutil.which("g++") or shutil.which("clang++") or ""
        tvm_ffi = importlib.util.find_spec("tvm_ffi") is not None
        git = shutil.which("git") or ""
        return cls(gpu, git, find_nvcc(), host, tvm_ffi, trust)


def find_nvcc() -> str:
    """The CUDA compiler of the toolkit, or ""."""
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if home and (Path(home) / "bin" / "nvcc").is_file():
            return str(Path(home) / "bin" / "nvcc")
    return shutil.which("nvcc") or ""


def host_code_mark(text: str) -> str:
    """What in a source may mean host code to nvcc although NVRTC has seen device code only, or "".

    NVRTC refuses host functions and everything that would run before main(), so that these few
    words are what is left: other code for another compiler, constructors, assembly of the file.
    """
    found = _HOST_MARK.search(text.replace("\\\r\n", "").replace("\\\n", ""))
    return " ".join(found[0].split()) if found else ""


class _Failed(Exception):
    """A step that found something wrong."""


class _NotHere(Exception):
    """A step that this machine cannot do."""


@dataclass(frozen=True)
class ExportChecks:
    """The checks of one export, which lies in `draft`; `scratch` is for what they build."""

    subject: Subject
    checker: Checker
    tools: Tools
    draft: Path
    scratch: Path

    def run(self, to: Format) -> Iterator[ExportStep]:
        """Every step, one after another; a failure does not keep the others from running."""
        steps: dict[Format, list[tuple[str, Callable[[], str]]]] = {
            Format.CU: [],
            Format.PATCH: [("patch applies with git", self._patch)],
            Format.CPP: [
                ("launches of the host code", self._cpp_host),
                ("compiled by nvcc", lambda: self._build([f"{self._name}.cu"])),
                ("run on the GPU", lambda: self._run("cpp", self._built())),
            ],
            Format.TORCH: [
                ("launches of the host code", self._python_host),
                ("fake kernel", self._fake),
                ("run on the GPU", lambda: self._run("torch", self._package)),
                (_COMPILED, lambda: self._run("torch", self._package, compiled=True)),
            ],
            Format.TVM_FFI: [
                ("launches of the host code", self._cpp_host),
                ("compiled by nvcc", self._tvm_build),
                ("run on the GPU", lambda: self._run("tvm-ffi", self._built())),
            ],
        }
        found: ExportStep | None = None
        for name, step in [("kernels", self._kernels), *self._alone(to), *steps[to]]:
            if name == _COMPILED and found and found.outcome is StepOutcome.NOT_CHECKED:
                found = replace(found, name=name)  # Without a GPU for the one there is none.
            else:
                found = _outcome(name, step)
            yield found

    @property
    def _name(self) -> str:
        return self.subject.task.name

    @property
    def _arch(self) -> str:
        return self.subject.compilations[0].arch

    @property
    def _cases(self) -> tuple[Case, ...]:
        return all_cases(self.subject.winner, self.subject.task, self.subject.winner.seed)

    # -- steps of several formats ----------------------------------------------------------------

    def _alone(self, to: Format) -> list[tuple[str, Callable[[], str]]]:
        """The step for an export that carries upstream files."""
        carried = bool(self.subject.upstream) and to is not Format.PATCH
        return [("source with its headers", self._stands_alone)] if carried else []

    def _stands_alone(self) -> str:
        """Compiles the exported source with the headers that lie next to it, and no others."""
        (listed,) = self.draft.rglob(UPSTREAM_LIST)
        upstream = load_upstream(listed.parent)
        assert upstream is not None, "the list is there"
        first = self.subject.compilations[0]
        names = tuple(kernel.expression for kernel in first.kernels)
        with Compiler(upstream=header_tree(upstream, contents_of(upstream))) as compiler:
            made = compiler.compile(self.subject.winner.text, names, first.arch)
        if not made.ok:
            raise _Failed(made.errors[0].message)
        if made.ptx != first.ptx:
            raise _Failed("with these headers the source becomes another program")
        return f"{len(upstream.files)} upstream files; the same PTX as from the task's folder"

    def _kernels(self) -> str:
        """The device half, as its launch plan launches it, on the device of this check."""
        text = with_header(self.subject.winner, self._name)
        winner, task = self.subject.winner, self.subject.task
        for seed in dict.fromkeys((self.checker.seed, winner.seed)):
            checker, cases = self.checker.drawing_from(seed), all_cases(winner, task, seed)
            report = _report_of(checker.check(text, f"{self._name}.cu", cases, whole_suite=True))
        return f"{report.message} on {report.device}, compiled by {report.compiler}"

    def _agree(self, answers: Callable[[], Sequence[object]]) -> str:
        calls = self.subject.samples
        try:
            found = differences(self.subject, calls, answers())  # type: ignore[arg-type]
        except (HostCheckFailed, ArtefactFailed) as error:
            raise _Failed(str(error)) from None
        if found:
            raise _Failed(f"{len(found)} of {len(calls)} calls differ from the plan: {found[0]}")
        return f"equal to the launch plan's on {len(calls)} calls"

    def _build(self, sources: Sequence[str], options: Sequence[str] = ()) -> str:
        """Builds a shared library in the scratch folder."""
        if not self.tools.nvcc:
            raise _NotHere("there is no nvcc on this machine")
        library = self._library()
        command = [
            *(self.tools.nvcc, self.subject.standard, "-O3", f"-arch={self._arch}", "-shared"),
            *("-Xcompiler", "-fPIC", "-o", str(library), *self.subject.nvcc_flags, *options),
            *sources,
        ]
        try:
            done = subprocess.run(
                command, cwd=self.draft, capture_output=True, text=True, timeout=BUILD_SECONDS,
                env=child_environment(), check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _Failed(str(error)) from None
        if done.returncode:
            raise _Failed((done.stderr or done.stdout)[:_WARNINGS])
        version = _first_match(self._nvcc_version(), "release")
        return f"for {self._arch} by nvcc{version}"

    def _nvcc_version(self) -> str:
        done = subprocess.run(
            [self.tools.nvcc, "--version"], capture_output=True, text=True, check=False
        )
        return done.stdout

    def _library(self) -> Path:
        return self.scratch / f"{self._name}.so"

    def _run(self, mode: str, path: Path, *, compiled: bool = False) -> str:
        if not self.tools.gpu:
            raise _NotHere(f"there is no GPU here; {FORMATS[Format(mode)].without_gpu}")
        cases = self._cases
        if compiled:
            cases = tuple(c for c in cases if c.name == "typical")
        try:
            with Artefact(mode, path, self._name, self.tools.gpu) as artefact:
                tally = run_cases(artefact, self.checker, cases, compiled=compiled)
        except NoGpuForArtefact as reason:
            raise _NotHere(str(reason)) from None
        except ArtefactFailed as error:
            raise _Failed(str(error)) from None
        if tally.wrong:
            raise _Failed(tally.describe())
        return f"{tally.describe()}, on {self.checker.device.name}"

    # -- patch -----------------------------------------------------------------------------------

    def _patch(self) -> str:
        if not self.tools.git:
            raise _NotHere("there is no git on this machine")
        winner = self.subject.winner
        copy = self.scratch / BASELINE
        copy.write_bytes(winner.baseline.encode())
        patch = self.draft / f"{self._name}.patch"
        command = [self.tools.git, "-c", "core.autocrlf=false", "apply", "--verbose", str(patch)]
        # Outside of any repository: the folder above must not change what git does.
        ceiling = {**child_environment(), "GIT_CEILING_DIRECTORIES": str(self.scratch.parent)}
        done = subprocess.run(
            command, cwd=self.scratch, capture_output=True, text=True, env=ceiling, check=False
        )
        if done.returncode:
            raise _Failed(done.stderr.strip()[:_WARNINGS])
        if copy.read_bytes() != winner.text.encode():
            raise _Failed("the patched file is not the candidate, byte for byte")
        local = self.subject.task.baseline_file.read_bytes()
        if local != winner.baseline.encode():
            return f"to the session's baseline; the task's {BASELINE} is another one now"
        return f"to the task's {BASELINE}, which then is the candidate, byte for byte"

    # -- C++ -------------------------------------------------------------------------------------

    def _cpp_host(self) -> str:
        compiler = self.tools.host_compiler
        if not compiler:
            raise _NotHere("there is no g++ or clang++ on this machine")
        calls = self.subject.samples
        return self._agree(
            lambda: cpp_answers(self.subject, self.draft, self.scratch, compiler, calls)
        )

    def _built(self) -> Path:
        if not self._library().is_file():
            raise _NotHere("it was not built")
        mark = host_code_mark(self.subject.winner.text)
        if mark and self.tools.gpu and not self.tools.trust:
            raise _NotHere(
                f"the source has '{mark}', after which nvcc may find host code that no check has "
                "seen; --trust runs it"
            )
        if self.subject.upstream and self.tools.gpu and not self.tools.trust:
            raise _NotHere(
                "the source includes upstream files, whose host code no check has seen; --trust "
                "runs it"
            )
        return self._library()

    # -- PyTorch ---------------------------------------------------------------------------------

    @property
    def _package(self) -> Path:
        return self.draft / package_name(self.subject.task)

    def _python_host(self) -> str:
        def answers() -> Sequence[object]:
            with Artefact("plan", self._package, self._name) as artefact:
                return python_answers(artefact, self.subject.samples)

        return self._agree(answers)

    def _fake(self) -> str:
        """Shapes and types of the outputs without a GPU, as torch.compile asks for them."""
        task, count = self.subject.task, 0
        try:
            with Artefact("fake", self._package, self._name) as artefact:
                for case in self._cases:
                    message = case_message(task, case, draw_inputs(task, case))
                    outputs = [b for b in message["buffers"] if b["role"] == "out"]
                    wanted = [[b["shape"], b["dtype"]] for b in outputs]
                    for buffer in message["buffers"]:
                        buffer["content"] = b""
                    answer = artefact.ask(message)
                    if answer.get("outputs") != wanted:
                        raise _Failed(f"{case.id}: {answer}, it should be {wanted}")
                    count += 1
        except ArtefactFailed as error:
            raise _Failed(str(error)) from None
        return f"shapes and types of the outputs right for {count} cases"

    # -- TVM-FFI ---------------------------------------------------------------------------------

    def _tvm_build(self) -> str:
        if not self.tools.tvm_ffi:
            raise _NotHere("apache-tvm-ffi is not installed, whose headers it needs")
        from tvm_ffi import libinfo

        includes = [f"-I{path}" for path in libinfo.include_paths()]
        library = Path(libinfo.find_libtvm_ffi())
        options = [*includes, f"-L{library.parent}", "-ltvm_ffi"]
        return self._build([f"{self._name}.cu", f"{self._name}_tvm_ffi.cc"], options)


def _outcome(name: str, step: Callable[[], str]) -> ExportStep:
    try:
        return ExportStep(name, StepOutcome.PASSED, step())
    except _Failed as failure:
        return ExportStep(name, StepOutcome.FAILED, str(failure))
    except _NotHere as reason:
        return ExportStep(name, StepOutcome.NOT_CHECKED, str(reason))


def _report_of(events: Iterator[CheckEvent]) -> CheckReport:
    """The report at the end of a check. Raises _Failed unless it passed."""
    *_, report = events
    assert isinstance(report, CheckReport)
    if report.verdict is not CheckVerdict.PASSED:
        raise _Failed(f"{report.verdict.value}: {report.message}")
    return report


def _first_match(text: str, word: str) -> str:
    return next((f" {line.rpartition(', ')[2]}" for line in text.splitlines() if word in line), "")
