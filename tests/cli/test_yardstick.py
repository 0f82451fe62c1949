"""`yardstick` as a command: a task's own kernels to compare with, from a package made here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from astra_tui.cli.exit_codes import ExitCode
from tests.cli.command import Shell
from tests.packages.wheels import make_wheel, pin_of
from tests.quick import write_quick_task

KERNEL = """\
template <typename T> __global__ void act(T* out, const T* input, int d) {
  for (int i = threadIdx.x; i < d; i += blockDim.x) out[i] = input[i];
}
"""
FILE = """\
[packages.tiny-kernels]
version = "1.2.0"
file = "{file}"
sha256 = "{sha256}"
licence = "Apache-2.0"
released = "2026-10-01"

[[yardsticks]]
name = "tiny"
about = "an example"
package = "tiny-kernels"
arch = "sm_90a"
parameters = ["pointer", "pointer", "{type}"]
launch = "grid=tokens block=256 args=(out, input, d)"
requires = "d % 4096 == 0"

[yardsticks.source]
text = "#include <tiny.cuh>"
kernel = "act<T>"
include = ["tiny"]
"""


@pytest.fixture
def folder(shell: Shell, tmp_path: Path) -> Path:
    """A folder with the package, which is all that pip sees; the task is in ./kernels."""
    index = tmp_path / "index"
    index.mkdir()
    shell.variables.update(
        PIP_CONFIG_FILE=os.devnull,
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(index),
        ASTRA_TUI_CACHE=str(tmp_path / "cache"),
    )
    made = make_wheel(index, {"tiny/tiny.cuh": KERNEL})
    make_wheel(index, {}, version="1.3.0")
    write_quick_task(shell.folder / "kernels")
    _declare(shell, made, "int32")
    return index


def _declare(shell: Shell, made: Path, kind: str) -> None:
    pin = pin_of(made)
    text = FILE.format(file=pin.file, sha256=pin.sha256, type=kind)
    (shell.folder / "kernels" / "silu_and_mul" / "yardsticks.toml").write_text(text)


def test_a_list_asks_no_one_and_says_what_is_served(shell: Shell, folder: Path) -> None:
    outcome = shell.run("yardstick", "list", "silu_and_mul")
    assert (outcome.code, outcome.err) == (ExitCode.OK, "")
    _, row, unserved = outcome.out.splitlines()
    assert row.split()[:2] == ["silu_and_mul", "tiny"]
    assert "tiny-kernels 1.2.0" in row
    assert "not fetched  2 of 3 workloads" in row
    assert unserved == "silu_and_mul: no yardstick serves 32x5120"


def test_an_update_fetches_builds_and_names_newer_versions(shell: Shell, folder: Path) -> None:
    outcome = shell.run("yardstick", "update", "silu_and_mul", "--json")
    assert outcome.code == ExitCode.OK
    told = [x for x in outcome.err.splitlines() if not x.startswith("opening ")]  # Of a slow one.
    assert told == []
    answer = json.loads(outcome.out)
    (entry,) = answer["yardsticks"]
    assert (entry["built"], entry["cached"], entry["newer"]) == (True, True, ["1.3.0"])
    assert entry["home"] == "https://example.org/tiny"
    assert (entry["released"], entry["kind"]) == ("2026-10-01", "source")
    assert answer["unserved"] == {"silu_and_mul": ["32x5120"]}

    for made in folder.iterdir():
        made.unlink()
    again = shell.run("yardstick", "update", "silu_and_mul")
    assert again.code == ExitCode.OK
    assert "the versions of tiny-kernels cannot be listed: " in again.err
    assert "  built  " in again.out


def test_what_was_not_built_says_why(shell: Shell, folder: Path) -> None:
    _declare(shell, folder / "tiny_kernels-1.2.0-py3-none-any.whl", "int64")
    outcome = shell.run("yardstick", "update", "silu_and_mul")
    assert outcome.code == ExitCode.FAILED
    assert "silu_and_mul: tiny not timed: _Z3act" in outcome.out
    assert "takes parameters of 8 at 0, 8 at 8, 4 at 16 bytes" in outcome.out


def test_a_file_that_cannot_be_read_is_an_error_beside_the_rest(shell: Shell, folder: Path) -> None:
    file = shell.folder / "kernels" / "silu_and_mul" / "yardsticks.toml"
    file.write_text(file.read_text().replace("about", "abuot"))
    outcome = shell.run("yardstick", "list", "--json")
    assert outcome.code == ExitCode.FAILED
    answer = json.loads(outcome.out)
    assert "'about' is missing" in answer["errors"][0]["message"]
    assert "fused_add_rmsnorm" in {entry["task"] for entry in answer["yardsticks"]}


def test_bundled_tasks_have_yardsticks_for_every_workload(shell: Shell) -> None:
    outcome = shell.run("yardstick", "list", "--json")
    assert outcome.code == ExitCode.OK
    assert not any(json.loads(outcome.out)["unserved"].values())
