"""`astra-tui new`: a kernel task from somebody's CUDA source."""

from __future__ import annotations

import argparse
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.check import read_text
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.errors import UserError


def run(options: argparse.Namespace) -> int:
    """Writes the draft, compiles it, and lists what is left to decide."""
    from astra_tui.lab.draft import draft_task

    folder, source = Path(options.folder), Path(options.source)
    if folder.exists():
        raise UserError("this folder exists already; name a new one", file=str(folder))
    text = read_text(source)
    draft = draft_task(folder.name, text, str(source), options.kernel)
    folder.mkdir(parents=True)
    for name, content in draft.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    problems = _try_it(folder)
    if options.json:
        plain.print_json(
            {
                "folder": str(folder),
                "files": sorted(draft.files),
                "open_points": draft.open_points,
                "problems": problems,
            }
        )
    else:
        plain.print_draft(folder, sorted(draft.files), draft.open_points, problems)
    return ExitCode.OK


def _try_it(folder: Path) -> list[str]:
    """Loads the draft and compiles its baseline; what does not work yet, in words."""
    from astra_tui.lab.check.runner import kernels_to_compile, read_source
    from astra_tui.lab.check.suite import build_suite
    from astra_tui.lab.compiler import Compiler, CompilerUnavailable
    from astra_tui.model.task import load_task

    try:
        task = load_task(folder)
        source = read_source(task, read_text(task.baseline_file), str(task.baseline_file))
        expressions = kernels_to_compile(task, source, build_suite(task))
        with Compiler() as compiler:
            compilation = compiler.compile(source.text, expressions)
    except UserError as error:
        return [error.describe()]
    except CompilerUnavailable as error:
        return [f"not compiled: {error}"]
    return [
        f"{task.baseline_file}:{d.line}: {d.message}" if d.line else d.message
        for d in compilation.errors
    ]
