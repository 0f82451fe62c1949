"""The exit code of what cannot be done, whichever command finds out and in which process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from astra_tui.cli import main
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.gpu.gpu_process import Found
from astra_tui.lab.on_gpu import opening
from astra_tui.model.errors import DeviceMissing, Place, UserError
from astra_tui.sessions.engines import NotReady
from tests.cli.command import Shell


@pytest.mark.parametrize(
    "command",
    [["check", "silu_and_mul", "--case", "float16/d=1"],
     ["run", "silu_and_mul", "--team", "playbook", "--headless"]],
)  # fmt: skip
def test_a_gpu_that_is_not_here_is_no_bad_usage(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(opening, "find_devices", lambda: Found((), "no driver"))
    assert main([*command, "--device", "cuda"]) == ExitCode.UNSUPPORTED
    assert "there is no device 'cuda': no driver" in capsys.readouterr().err


def test_an_engine_s_error_is_of_the_same_kind_here() -> None:
    for raised in (DeviceMissing("none", hint="h"), UserError("bad", file="f", place=Place(3, 1))):
        sent = msgspec.json.encode(NotReady.of(raised))
        error = msgspec.json.decode(sent, type=NotReady).error()
        assert (type(error), error.describe()) == (type(raised), raised.describe())


def limited(shell: Shell, limit: str) -> Shell:
    """Its commands run within a limit of a shell's `ulimit`."""
    within = ("bash", "-c", f'ulimit {limit} && exec "$0" "$@"')
    return replace(shell, command=(*within, *shell.command))


def test_low_limits_of_the_machine_end_in_a_line(shell: Shell) -> None:
    run = ("run", "silu_and_mul", "--team", "playbook", "--approve", "auto", "--headless")
    few_files = limited(shell, "-n 16").run(*run)
    assert few_files.code == ExitCode.TROUBLE
    line, hint = few_files.err.splitlines()[-2:]
    assert line.startswith("astra-tui: Too many open files")
    assert hint == "  see: ulimit -a, df"
    check = ("check", "silu_and_mul", "baseline.cu", "--case", "float16/d=1")
    for command, limit in ((check, 100_000), (run, 150_000)):
        little_memory = limited(shell, f"-v {limit}").run(*command)
        assert little_memory.code == ExitCode.TROUBLE
        line, hint = little_memory.err.splitlines()[-2:]
        assert line.startswith("astra-tui: ")
        assert hint == "  raise the limits of this process: ulimit -v, -u, -n"
    assert limited(shell, "-v 100000").run("ps").code == ExitCode.OK
