"""How many kernels of pinned packages `astra-tui new` drafts, unedited, and how far drafts get.

    python benchmarks/upstream_drafts.py WORK_FOLDER [--only PART] [--jobs N] [--page]

A row for every `__global__` function of the files below, written to WORK_FOLDER/rows.jsonl as it is
found, so that a run that was ended continues. The packages are fetched by pip against their hashes
and read, no host code of them is run or kept here; a folder that has their files once needs no
network. `--page` writes docs/upstream.md from the rows, `--page --only none` without a run.
A draft that compiles runs on the emulator, by the check of the lab, on a few cases of its suite.
What a draft cannot read is answered by benchmarks/upstream/PACKAGE/KERNEL.toml, where there is one
(KERNEL-LINE.toml of several with one name).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from datetime import date
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TypeVar

import msgspec
from environment import ROOT, commit_of

from astra_tui.cli.drafting import accepted_sizes, with_launcher
from astra_tui.cuda_source.clang import read_translation
from astra_tui.cuda_source.translation import Declaration, Translation
from astra_tui.drafting import Draft, draft_task
from astra_tui.drafting.answers import NO_ANSWERS, Answers, read_answers
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.kernels import kernels_to_compile
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.compiler.toolchain import find_toolchain, wheel_version
from astra_tui.lab.requests import Check, NamedSource
from astra_tui.lab.upstream import task_headers, user_packages
from astra_tui.model.check import Case, CaseOutcome, CaseResult
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.pin import Pin
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import KernelTask, load_task, upstream_files
from astra_tui.processes.child import Child, ChildDied, ChildTimeout
from astra_tui.rpc import Call, ServerUnfit

STEPS = ("read", "drafted", "loaded", "compiled", "ran", "agrees")
"""How far a kernel can get, in order."""

CASES = ("typical", "smallest", "odd sizes shifted by 1")
"""The cases of a draft's suite that run; the first for each element type."""

MOST_ROWS = 7
"""Of rows that do not depend on each other, in a case."""

CASE_SECONDS = 30.0
"""CPU time that the check of one case may take."""

NO_REFERENCE = "no reference"

ANSWERS = Path(__file__).parent / "upstream"
"""Answers files by package and kernel."""

UNPACKED = ".pin"
"""A file beside the unpacked files of a package: its pin, once all are there."""

PASSED = ANSWERS / "passed.md"
"""Kernels that went from their package to a passed check."""

COMPARED = ANSWERS / "compared.md"
"""What a comparison of drafts with their launchers, by hand, found."""


@dataclass(frozen=True)
class Package:
    """A pinned package: the folder of its files, and where their includes are looked up."""

    pin: Pin
    folder: str
    include: str
    files: tuple[str, ...]
    defines: tuple[str, ...] = ()
    python: str = ""
    """The folder of the Python that writes launchers."""

    def files_below(self, folder: Path) -> list[Path]:
        """The files with kernels, of the package's files in a folder."""
        below = folder / self.folder
        names = sorted(f.relative_to(below).as_posix() for f in below.rglob("*.cu*"))
        return [below / name for p in self.files for name in names if fnmatch(name, p)]


PACKAGES = (
    Package(
        Pin("flashinfer-python", "0.7.2.post1", "flashinfer_python-0.7.2.post1-py3-none-any.whl",
            "bfdc18b9e1e4d8d0730fe4343dc0e284cd0c160086de80f99888bc4867922d49", "Apache-2.0",
            date(2026, 10, 23)),
        "flashinfer/data/include/flashinfer",
        "flashinfer/data/include",
        ("activation.cuh", "norm.cuh", "pos_enc.cuh", "attention/cascade.cuh", "quantization.cuh",
         "sampling.cuh", "topk.cuh", "page.cuh", "concat_mla.cuh"),
        python="flashinfer/jit",
    ),
    Package(
        Pin("sglang", "0.5.23", "sglang-0.5.23-cp312-cp312-manylinux_2_34_x86_64.whl",
            "8d257a319395b322bb1be327d05e5528859358153c8563b04c0a4a3c8af164b6", "Apache-2.0",
            date(2026, 10, 30)),
        "sglang/kernels/jit/csrc/elementwise",
        "sglang/kernels/jit/include",
        ("*.cuh",),
        ("SGL_CUDA_ARCH=900",),
        "sglang/kernels",
    ),
    Package(
        Pin("vllm", "0.33.0", "vllm-0.33.0.tar.gz",
            "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112", "Apache-2.0",
            date(2026, 11, 2)),
        "vllm-0.33.0/csrc",
        "vllm-0.33.0/csrc",
        ("activation_kernels.cu", "layernorm_kernels.cu", "layernorm_quant_kernels.cu",
         "pos_encoding_kernels.cu", "cache_kernels.cu", "fused_qknorm_rope_kernel.cu",
         "attention/merge_attn_states.cu", "sampler.cu", "vocab_parallel_embedding_kernels.cu",
         "moe/moe_align_sum_kernels.cu", "moe/topk_softmax_kernels.cu",
         "moe/grouped_topk_kernels.cu", "quantization/w8a8/fp8/common.cu",
         "quantization/w8a8/fp8/per_token_group_quant.cu",
         "quantization/w8a8/int8/scaled_quant.cu"),
        ("ENABLE_FP8",),  # cmake/utils.cmake
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One kernel: the last step that it reached, and what stopped it."""

    package: str
    file: str
    kernel: str
    line: int
    reached: str
    """One of STEPS."""
    why: str
    open_points: int
    cpu_seconds: float
    """CPU time of all processes, the reading of the file included."""
    answers: int = 0
    """How many answers a file in ANSWERS gives."""
    draft: str = ""
    """The draft's folder in WORK_FOLDER/drafts."""
    made_with: str = ""
    """The commit and the NVRTC."""


@dataclass(frozen=True)
class Reading:
    """A file of a package as it was read, and the CPU seconds that this took."""

    package: Package
    name: str
    translation: Translation
    seconds: float


_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


def in_processes(
    jobs: int, made: Callable[[_Given], _Made], items: Iterable[_Given]
) -> Iterator[_Made]:
    """The results of a function for all items, as they come; then what failed, if any did."""
    with ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(made, item) for item in items]
        for future in as_completed(futures):
            if future.exception() is None:
                yield future.result()
    failed = [error for f in futures if isinstance(error := f.exception(), Exception)]
    if failed:
        raise ExceptionGroup("some kernels could not be looked at", failed)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="files whose path has this in it")
    parser.add_argument("--kernel", default="*", help="kernels of this name")
    parser.add_argument("--jobs", type=int, default=1, help="kernels at a time")
    parser.add_argument("--commit", default="", help="of this code, where git does not say it")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    log = options.folder / "rows.jsonl"
    rows = known_rows(log)
    done = {(r.package, r.file, r.kernel, r.line) for r in rows}
    files = [(options.folder, p, f) for p in PACKAGES for f in _unpacked(p, options.folder)]
    wanted = [each for each in files if options.only in str(each[2])]
    nvrtc = wheel_version("nvidia-cuda-nvrtc")
    made_with = f"commit {options.commit or commit_of(ROOT)}, NVRTC {nvrtc}"
    readings = list(in_processes(options.jobs, _read, wanted))
    left = [
        (options.folder, reading, number) for reading in readings
        for number, kernel in enumerate(reading.translation.kernels())
        if fnmatch(kernel.name, options.kernel)
        and (reading.package.pin.name, reading.name, kernel.name, kernel.line) not in done
    ]  # fmt: skip
    with log.open("a", encoding="utf-8") as out:
        for found in in_processes(options.jobs, _row, left):
            row = replace(found, made_with=made_with)
            print(row.file, row.kernel, row.reached, row.why[:120], flush=True)
            out.write(json.dumps(asdict(row)) + "\n")
            out.flush()
            rows.append(row)
    for name, counted in _counts(rows).items():
        print(name, dict(counted))
    if options.page:
        (ROOT / "docs" / "upstream.md").write_text(page(rows), encoding="utf-8")


def known_rows(log: Path) -> list[Row]:
    """The rows of a run so far, in the order of packages, files and lines."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return sorted((Row(**json.loads(line)) for line in lines), key=_place)


def _place(row: Row) -> tuple[int, int, str, int]:
    names = [package.pin.name for package in PACKAGES]
    package = names.index(row.package)
    patterns = enumerate(PACKAGES[package].files)
    return package, next(n for n, p in patterns if fnmatch(row.file, p)), row.file, row.line


def _unpacked(package: Package, folder: Path) -> list[Path]:
    """The files to read, in a folder with all that they may include."""
    place = folder / package.pin.name
    pin = f"{package.pin} {package.pin.sha256}"
    mark = place / UNPACKED
    if not mark.exists() or mark.read_text() != pin:
        archive = user_packages().fetch(package.pin)
        wanted = [
            name for name in archive.names()
            if (name.startswith((f"{package.folder}/", f"{package.include}/"))
            and PurePosixPath(name).suffix in (".cu", ".cuh", ".h", ".hpp", ".inl"))
            or (package.python and name.startswith(f"{package.python}/") and name.endswith(".py"))
        ]  # fmt: skip
        for name, content in archive.read_all(wanted).items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        mark.write_text(pin)
    return package.files_below(place)


def _read(given: tuple[Path, Package, Path]) -> Reading:
    folder, package, file = given
    place = folder / package.pin.name
    begun = _cpu_seconds()
    translation = read_translation(
        file, [place / package.include], find_toolchain().include_dirs, package.defines
    )
    name = file.relative_to(place / package.folder).as_posix()
    return Reading(package, name, translation, _cpu_seconds() - begun)


def _row(given: tuple[Path, Reading, int]) -> Row:
    """Drafts, compiles and runs a kernel: that of a number in a file that was read."""
    folder, reading, number = given
    package, translation = reading.package, reading.translation
    kernel = translation.kernels()[number]
    begun = _cpu_seconds()
    name = f"{package.pin.name}_{Path(reading.name).stem}_{number}".replace("-", "_")
    task = folder / "drafts" / name
    answers = _answers(package, kernel)
    project = [folder / package.pin.name] if package.python else []
    whole = with_launcher(translation, kernel.name, answers, project)
    tried = _tried(package, whole, kernel, task, answers)
    reached, why = tried.reached, tried.why
    if tried.task is not None and reached == "compiled":
        reached, why = _ran(tried.task, tried.suite)
    return Row(
        package.pin.name, reading.name, kernel.name, kernel.line, reached, why, tried.open_points,
        round(reading.seconds + _cpu_seconds() - begun, 1), len(answers.keys()), name,
    )  # fmt: skip


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def _answers(package: Package, kernel: Declaration) -> Answers:
    names = (f"{kernel.name}-{kernel.line}.toml", f"{kernel.name}.toml")
    files = (ANSWERS / package.pin.name / name for name in names)
    file = next((file for file in files if file.exists()), None)
    if file is None:
        return NO_ANSWERS
    return read_answers(file.read_text(encoding="utf-8"), str(file)).resolved(file.parent)


@dataclass(frozen=True)
class _Tried:
    """What a draft reached once it is written, and what stopped it."""

    reached: str
    why: str
    open_points: int = 0
    task: KernelTask | None = None
    suite: tuple[Case, ...] = ()


def _tried(
    package: Package, translation: Translation, kernel: Declaration, folder: Path, answers: Answers
) -> _Tried:
    """Drafts a kernel, and compiles the draft."""

    def drafted(
        assumed: tuple[DType, ...] = (),
        accepted: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    ) -> Draft:
        named = f"{kernel.name}:{kernel.line}"
        return draft_task("drafted", translation, named, assumed, answers, accepted)

    try:
        draft = drafted()
        if accepted := accepted_sizes(draft, package.defines):
            draft = drafted((), accepted)
        first = _compiled(package, draft, folder)
        if first.reached == "loaded":  # As the command does.
            other = drafted((DType.FLOAT32,), accepted)
            if other.files != draft.files:
                second = _compiled(package, other, folder)
                if second.reached == "compiled":
                    return second
                _write(package, draft, folder)
    except UserError as error:
        return _Tried("read", error.message)
    return first


def _write(package: Package, draft: Draft, folder: Path) -> None:
    files: dict[str, str | bytes] = dict(draft.files)
    if draft.upstream:
        headers = {name: Path(path).read_bytes() for name, path in draft.upstream.items()}
        files |= upstream_files(
            headers, include=(".",), origin=str(package.pin), licence="Apache-2.0",
            defines=package.defines,
        )  # fmt: skip
    shutil.rmtree(folder, ignore_errors=True)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        (folder / path).write_bytes(data)


def _compiled(package: Package, draft: Draft, folder: Path) -> _Tried:
    """Writes a draft and compiles it."""
    _write(package, draft, folder)
    tried = _Tried("drafted", "", len(draft.open_points))
    try:
        task = load_task(folder)
        source, suite = (
            read_source(task, draft.files["baseline.cu"], "baseline.cu"),
            build_suite(task),
        )
        expressions = kernels_to_compile(task, source, suite)
        tried = replace(tried, reached="loaded", task=task, suite=suite)
        with Compiler(upstream=task_headers(task)) as compiler:
            errors = compiler.compile(source.text, expressions).errors
    except UserError as error:
        return replace(tried, why=error.message)
    if errors:
        return replace(tried, why=f"line {errors[0].line}: {errors[0].message}")
    return replace(tried, reached="compiled")


def _ran(task: KernelTask, suite: Sequence[Case]) -> tuple[str, str]:
    """What a draft that compiles reached on the emulator, and what stopped it."""
    cases, apart = _small_cases(task, suite), ""
    if not cases:
        return "compiled", "no small case of the draft is inside its contract"
    worker = (str(task.folder), EMULATOR, task.hash)
    with Child("astra_tui.lab.worker", worker, name="the check") as lab:
        while cases:  # A reference that cannot be asked ends a check; the other cases run still.
            for finding, difference in _checked(lab, task, cases):
                case, *cases = cases
                if finding:
                    return "compiled", f"{case.id}: {finding}"
                apart = apart or (difference and f"{case.id}: {difference}")
    if NO_REFERENCE in apart:
        return "ran", NO_REFERENCE
    return ("ran", apart) if apart else ("agrees", "")


def _small_cases(task: KernelTask, suite: Sequence[Case]) -> list[Case]:
    cases = [c for c in suite if not c.outside_contract]
    return [
        _with_few_rows(task, case) for name in CASES for case in cases
        if case.name == name and (name == CASES[0] or case.dtype is task.dtypes[0])
    ]  # fmt: skip


def _with_few_rows(task: KernelTask, case: Case) -> Case:
    """The case with at most MOST_ROWS of the rows that do not depend on each other, where the
    contract has that.
    """
    if not task.rows or case.dims[task.rows] <= MOST_ROWS:
        return case
    dims = {**case.dims, task.rows: MOST_ROWS}
    broken = task.violated(dims, case.dtype)
    return case if broken else msgspec.structs.replace(case, dims=dims)


def _checked(lab: Child, task: KernelTask, cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """For each case the first finding of the lab's check, and how its outputs differ from the
    reference; "" for none. Ends early, after a case that its check does not continue after.
    """
    text = task.baseline_file.read_text(encoding="utf-8")
    request = Check(NamedSource(text, "baseline.cu"), only=tuple(cases))
    call, done = Call(lab, request, cpu=True, silence=CASE_SECONDS), 0
    try:
        for reply in call.replies():
            if isinstance(reply, CaseResult):
                yield _said(reply)
                done += 1
    except UserError as error:
        # A reference is asked only once the case has run without a finding.
        yield ("", _unanswered(error)) if _is_reference(error) else (error.message, "")
    except (ServerUnfit, TimeoutError, ChildDied, ChildTimeout) as error:
        yield str(error), ""
    else:
        if done < len(cases):
            yield "the case did not run", ""


def _said(result: CaseResult) -> tuple[str, str]:
    fault = next((f for f in result.findings if not f.is_warning), None)
    if result.outcome is CaseOutcome.WRONG and fault is None:
        return "", result.message
    return ("", "") if result.outcome is CaseOutcome.PASSED else (result.message, "")


def _is_reference(error: UserError) -> bool:
    return PurePosixPath(error.file).name == "reference.py"


def _unanswered(error: UserError) -> str:
    said = error.message
    unwritten = "is not written yet" in said or "is not decided yet" in said
    return NO_REFERENCE if unwritten else said


def _counts(rows: list[Row]) -> dict[str, Counter[str]]:
    counted: dict[str, Counter[str]] = {}
    for row in rows:
        for name in (row.package, "all"):
            counted.setdefault(name, Counter())[row.reached] += 1
    return counted


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page(rows: list[Row]) -> str:
    """docs/upstream.md."""
    rows = sorted(rows, key=_place)
    made = sorted({row.made_with for row in rows})
    lines = [
        "# Kernels of pinned packages, drafted unedited",
        "",
        "<!-- Written by benchmarks/upstream_drafts.py --page. -->",
        "",
        "Every `__global__` function of the files below, as `astra-tui new --from FILE --kernel`",
        "`NAME -I ROOT` drafts it, with no line touched. What the source does not say is answered",
        "by the files in `benchmarks/upstream/`, as `--answers FILE` takes them; the last column",
        "counts the answers.",
        "",
        "| step | what it says |",
        "| --- | --- |",
        "| drafted | `astra-tui new` wrote a task |",
        "| loads | its task.toml and launch plan are valid |",
        "| compiled | all its instantiations compile by NVRTC |",
        f"| ran | {_listed(CASES)} of its suite (the first in each element type) run on the "
        f"emulator, with at most {MOST_ROWS} of rows that do not depend on each other (`rows` in "
        "task.toml), with no finding: no race, no access out of bounds, no read of what is not "
        "written, nothing unsupported |",
        "| agrees | the same outputs agree with the float64 reference that the draft wrote because "
        f"it recognised the operator; `{NO_REFERENCE}` where it wrote none |",
        "",
        "A shape or role that the draft guessed wrong can compile and can run: 34 drawn drafts "
        "were [compared with their launchers](#drafts-against-their-launchers) by hand. The cases "
        "are those of `astra-tui check DRAFT --case NAME`, which runs all their rows. CPU seconds "
        "are those of all processes, from reading the file to the last comparison, with nothing in "
        "the compiler's cache, on a machine that does other work too; none took more than "
        f"{max(row.cpu_seconds for row in rows):.1f}.",
        "",
        f"Made with {'; '.join(made)}; C++20. `make upstream` fetches the packages and makes this "
        "page again.",
        "",
        "| package | kernels | drafted | loads | compiled | ran | agrees |",
        "|" + " --- |" * 7,
    ]
    for name, counted in _counts(rows).items():
        at_least = [sum(counted[s] for s in STEPS[n:]) for n in range(len(STEPS))]
        shares = [f"{n} ({100 * n / at_least[0]:.0f} %)" for n in at_least[3:]]
        lines.append(f"| {name} | {' | '.join([*map(str, at_least[:3]), *shares])} |")
    head = ("file", "kernel", "reached", "what stops it", "open points", "answers", "CPU s")
    lines += ["", f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for row in rows:
        why = " ".join(row.why.split()).replace("|", "\\|").replace("<", "\\<")[:160]
        cells = (f"{row.package}: {row.file}:{row.line}", f"`{row.kernel}`", row.reached, why)
        cells += (str(row.open_points), str(row.answers), f"{row.cpu_seconds:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## From a package to a passed check", "", PASSED.read_text().rstrip()]
    lines += ["", "## Drafts against their launchers", "", COMPARED.read_text().rstrip()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
