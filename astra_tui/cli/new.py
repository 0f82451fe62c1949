"""`astra-tui new`: a kernel task from someone's CUDA source."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.check import read_text
from astra_tui.cli.command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON
from astra_tui.cli.read_file import read_user_file
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from astra_tui.cuda_source.translation import Translation
    from astra_tui.drafting import Draft


@command(
    "make a kernel task from a CUDA source",
    "Writes a draft of the task and lists what is left for you to decide.",
    argument("folder", "FOLDER", "the task's folder, which must not exist"),
    flag("--from", "source", metavar="KERNEL.cu", required=True, help="the CUDA source"),
    flag("--kernel", metavar="NAME", help="which kernel, if the source has several"),
    flag("-I", "--include", metavar="DIR", multiple=True, help="where its headers are"),
    flag("-D", "--define", metavar="NAME[=VALUE]", multiple=True, help="a macro to define"),
    JSON,
)
def run(options: Options) -> int:
    """Writes the draft, compiles it, and lists what is left to decide."""
    from astra_tui.drafting import draft_task
    from astra_tui.model.dtypes import DType
    from astra_tui.model.task import NAME_RULE, is_task_name
    from astra_tui.plain.drafts import print_draft

    folder, source = Path(options.folder), Path(options.source)
    if folder.exists():
        raise UserError("this folder exists already; name a new one", file=str(folder))
    name = folder.resolve().name
    if not is_task_name(name):
        raise UserError(
            f"{name!r} is not a valid task name", file=str(folder), hint=f"it is {NAME_RULE}"
        )
    translation = _read(source, options.include, options.define)
    draft = draft_task(name, translation, options.kernel)
    files = _files(draft, source, options.define)
    _write(folder, files)
    problems = _try_it(folder)
    if problems:
        # Half of what frameworks ship is for 16-bit types alone, and a few kernels for float alone.
        other = draft_task(name, translation, options.kernel, (DType.FLOAT32,))
        other_files = _files(other, source, options.define)
        if other_files != files:
            _rewrite(folder, other_files)
            if _try_it(folder):
                _rewrite(folder, files)
            else:
                draft, files, problems = other, other_files, []
    open_points = draft.open_points
    if options.json:
        plain.print_json(
            {
                "folder": str(folder),
                "files": sorted(files),
                "open_points": open_points,
                "problems": problems,
            }
        )
    else:
        print_draft(folder, sorted(files), open_points, problems)
    return ExitCode.OK


def _read(source: Path, roots: Sequence[str], defines: Sequence[str]) -> Translation:
    """The source with what it includes from `roots`."""
    from astra_tui.cuda_source.clang import read_translation
    from astra_tui.lab.compiler.toolchain import find_toolchain

    data = read_user_file(source, ".cu file")
    if b"\0" in data:
        raise UserError(
            "this is no text in UTF-8: it holds zero bytes",
            file=str(source),
            hint="save it as UTF-8 first",
        )
    for root in roots:
        if not Path(root).is_dir():
            raise UserError("-I names no folder", file=root)
    toolchain = find_toolchain()
    return read_translation(source, [Path(r) for r in roots], toolchain.include_dirs, defines)


def _files(draft: Draft, source: Path, defines: Sequence[str]) -> dict[str, str | bytes]:
    """The draft's files, and the headers that it includes, with where they come from."""
    from astra_tui.model.task import upstream_files

    if not draft.upstream:
        return dict(draft.files)
    headers = upstream_files(
        {name: Path(path).read_bytes() for name, path in draft.upstream.items()},
        include=(".",),
        origin=f"headers of {source}",
        licence="see the headers",
        defines=tuple(defines),
    )
    return {**draft.files, **headers}


def _write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UserError(f"cannot be written: {error}", file=str(folder)) from None


def _rewrite(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes another draft in place of the one that was just written."""
    shutil.rmtree(folder)
    _write(folder, files)


def _try_it(folder: Path) -> list[str]:
    """Loads the draft and compiles its baseline; what does not work yet, in words."""
    from astra_tui.lab.check.execution import read_source
    from astra_tui.lab.check.kernels import kernels_to_compile
    from astra_tui.lab.check.suite import build_suite
    from astra_tui.lab.compiler import Compiler, CompilerUnavailable
    from astra_tui.lab.upstream import task_headers
    from astra_tui.model.task import load_task

    try:
        task = load_task(folder)
        source = read_source(task, read_text(task.baseline_file), str(task.baseline_file))
        expressions = kernels_to_compile(task, source, build_suite(task))
        with Compiler(upstream=task_headers(task)) as compiler:
            compilation = compiler.compile(source.text, expressions)
    except UserError as error:
        return [error.describe()]
    except CompilerUnavailable as error:
        return [f"not compiled: {error}"]
    return [
        f"{task.baseline_file}:{d.line}: {d.message}" if d.line else d.message
        for d in compilation.errors
    ]
