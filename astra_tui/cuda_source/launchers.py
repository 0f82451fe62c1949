"""Launchers of a kernel that stand elsewhere than in its file: in C++ of its project, or in Python.

Frameworks write launchers when a kernel is first used: from a template, or by naming the C++ class
that launches with template arguments that only Python knows. Such a generator runs in a process
of its own that closed itself before, with neither GPU nor torch: what it imports that is neither
its project's nor Python's is a stand-in (`generator_run.py`).
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from astra_tui.cuda_source.project import Project
from astra_tui.cuda_source.translation import Launcher, Value
from astra_tui.processes.tool import run_tool

RENDERING_SECONDS = 60.0
MAX_TRIED = 4
"""Python files that are run, those that mention the kernel most closely first."""

_LAUNCH = re.compile(r"<<<|\bcudaLaunch\w*Kernel\w*\s*\(|\b(?i:launch_?kernel)\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MAX_BYTES = 1 << 20


class GeneratorRequest(msgspec.Struct, frozen=True):
    """What to run: the functions of a Python file that may write a text with one of `names`."""

    file: str
    folders: tuple[str, ...]
    names: tuple[str, ...]
    functions: tuple[str, ...]
    given: dict[str, Value] = {}


def find_launcher(
    main: Path,
    kernel: str,
    classes: Sequence[str],
    folders: Sequence[Path],
    given: Mapping[str, Value],
) -> Launcher | None:
    """What launches a kernel that its own file does not launch; None where nothing is found.

    With `classes`, those of templates that launch it, it is Python that names their arguments.
    `given` are values of a generator's parameters, by name.
    """
    project = Project(folders)
    if not classes and (found := _in_cpp(main, kernel, project)) is not None:
        return found
    problem: Launcher | None = None
    for file in _generators(main, (kernel, *classes), project):
        found = _rendered(file, (kernel, *classes), folders, given)
        if found is not None and not found.problem:
            return found
        problem = problem or found
    return problem


def _in_cpp(main: Path, kernel: str, project: Project) -> Launcher | None:
    """The nearest file that includes the kernel's and launches the kernel."""
    word = re.compile(rf"\b{re.escape(kernel)}\b")
    included = re.compile(rf'#\s*include\s*[<"](?:[^">]*/)?{re.escape(main.name)}[">]')
    for file in sorted(project.files, key=lambda f: (-_shared(f, str(main)), f)):
        text = _read(Path(file)) if Path(file) != main.resolve() else ""
        if main.name in text and included.search(text):
            code = _COMMENT.sub(" ", text)
            if word.search(code) and _LAUNCH.search(code):
                return Launcher(file, text)
    return None


def _shared(file: str, other: str) -> int:
    pairs = zip(Path(file).parts, Path(other).parts, strict=False)
    return sum(1 for _ in _while_equal(pairs))


def _while_equal(pairs: Iterator[tuple[str, str]]) -> Iterator[str]:
    for one, other in pairs:
        if one != other:
            return
        yield one


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace") if file.stat().st_size <= _MAX_BYTES else ""
    except OSError:
        return ""


# -- Python ----------------------------------------------------------------------------------------


def _generators(main: Path, names: Sequence[str], project: Project) -> list[Path]:
    """The Python files whose texts name the kernel's file and a kernel or class, nearest first."""
    wanted = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
    found = []
    for file in project.python_files:
        text = _read(Path(file))
        if main.name in text and wanted.search(text):
            found.append(file)
    return [Path(f) for f in sorted(found, key=lambda f: (-_shared(f, str(main)), f))][:MAX_TRIED]


def _rendered(
    file: Path, names: Sequence[str], folders: Sequence[Path], given: Mapping[str, Value]
) -> Launcher | None:
    """What the functions of a Python file write, None for a file without such functions."""
    functions = writing_functions(_read(file), names)
    if not functions:
        return None
    first = next(iter(functions.items()))
    request = GeneratorRequest(
        str(file),
        tuple(str(f.resolve()) for f in folders),
        tuple(names),
        tuple(functions),
        dict(given),
    )
    with tempfile.TemporaryDirectory(prefix="astra-tui-") as folder:
        asked = Path(folder) / "request.json"
        asked.write_bytes(msgspec.json.encode(request))
        package = str(Path(__file__).resolve().parents[2])
        module = "astra_tui.cuda_source.generator_run"
        start = f"import sys; sys.path.insert(0, {package!r}); import {module} as it; it.main()"
        command = [sys.executable, "-P", "-c", start, str(asked)]
        ended = run_tool(command, folder, RENDERING_SECONDS, file.name)
    if ended.problem:
        return Launcher(str(file), line=first[1], function=first[0], problem=ended.problem)
    answer = msgspec.json.decode(ended.text.rpartition("\n")[2], type=Launcher)
    name = answer.function or first[0]
    return msgspec.structs.replace(answer, function=name, line=functions[name])


def writing_functions(text: str, names: Sequence[str]) -> dict[str, int]:
    """The functions of a Python source that may write a text with one of the names, with lines.

    They mention it in a string, or a constant or a function that does; the callers come first.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    wanted = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
    known: set[str] = set()
    found: dict[str, int] = {}
    while True:
        before = len(known)
        for node in tree.body:
            if isinstance(node, ast.Assign) and _mentions(node.value, wanted, known):
                known |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            elif (
                isinstance(node, ast.FunctionDef)
                and node.name not in known
                and _mentions(node, wanted, known)
            ):
                known.add(node.name)
                found[node.name] = node.lineno
        if len(known) == before:
            return dict(reversed(found.items()))


def _mentions(node: ast.AST, wanted: re.Pattern[str], known: set[str]) -> bool:
    return any(
        (isinstance(n, ast.Constant) and isinstance(n.value, str) and wanted.search(n.value))
        or (isinstance(n, ast.Name) and n.id in known)
        for n in ast.walk(node)
    )
