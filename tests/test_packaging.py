"""The wheel: what it carries, and that it works away from the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from astra_tui.cli.json_answers import ErrorAnswer, KernelsAnswer
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the working tree."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder), "."]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files in a folder to import from."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the installed command in an empty folder."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {k: os.environ[k] for k in ("PATH", "ASTRA_TUI_CACHE") if k in os.environ}
        return subprocess.run(
            [sys.executable, "-m", "astra_tui", *arguments],
            cwd=tmp_path,
            env={**kept, "HOME": str(tmp_path), "PYTHONPATH": str(installed), **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_no_package_of_others_is_tracked() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout: what git tracks is not known")
    command = ["git", "ls-files", "*.whl", "*.so", "*.a", "*.zip", "*.tar*", "*.xz"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert listed.stdout == ""


def test_the_wheel_carries_kernels_sessions_and_the_type_marker(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder in ("kernels", "sessions"):
        files = [
            f for f in (ROOT / folder).rglob("*") if f.suffix in (".cu", ".md", ".py", ".toml")
        ]
        ours = {f"astra_tui/_bundled/{f.relative_to(ROOT)}" for f in files}
        assert ours
        assert ours <= names
    assert "astra_tui/py.typed" in names
    assert not any(name.startswith(("tests/", "docs/", "benchmarks/")) for name in names)


def test_the_bundled_tasks_are_found_and_can_be_checked(run: Run, installed: Path) -> None:
    answer = msgspec.json.decode(run("kernels", "--json").stdout, type=KernelsAnswer)
    bundled = installed / "astra_tui" / "_bundled" / "kernels"
    assert {Path(task.folder).parent for task in answer.tasks} == {bundled}
    checked = run("check", "silu_and_mul", "--case", "float16/d=1")
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.startswith("PASSED silu_and_mul baseline.cu\n")


def test_a_task_is_a_path_then_a_name_in_kernels_then_configured_then_bundled(
    run: Run, installed: Path, tmp_path: Path
) -> None:
    bundled = installed / "astra_tui" / "_bundled" / "kernels"
    places = [tmp_path / "silu_and_mul", tmp_path / "kernels" / "silu_and_mul"]
    places += [tmp_path / "more" / "silu_and_mul", bundled / "silu_and_mul"]
    for place in places[:-1]:
        shutil.copytree(places[-1], place)
        (place / "task.toml").write_text("broken\n", encoding="utf-8")
    for place in places[:-1]:
        # What is found first is the broken task in `place`, and the error names its file.
        answer = run("check", "silu_and_mul", "--list", "--json", ASTRA_TUI_KERNELS="more")
        error = msgspec.json.decode(answer.stdout, type=ErrorAnswer).error
        assert tmp_path / error.file == place / "task.toml"
        shutil.rmtree(place)
    assert run("check", "silu_and_mul", "--list", ASTRA_TUI_KERNELS="more").returncode == 0
