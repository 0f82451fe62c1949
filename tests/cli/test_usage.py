"""Help, unknown names and bad values: what someone sees who mistypes."""

from __future__ import annotations

import re
import shlex
from importlib import import_module

import click
import msgspec
import pytest

import astra_tui
from astra_tui.cli.click_command import Argument, Command, OneOf
from astra_tui.cli.commands import COMMANDS
from astra_tui.cli.exit_codes import MEANINGS, ExitCode
from tests.cli.command import SECONDS, Shell
from tests.cli.engineer import Engineer

NAMES = sorted(COMMANDS.summaries)


def test_version(shell: Shell) -> None:
    outcome = shell.run("--version")
    assert (outcome.code, outcome.out) == (0, f"astra-tui {astra_tui.__version__}\n")


def test_no_command_shows_the_help(shell: Shell) -> None:
    outcome = shell.run()
    assert outcome.code == ExitCode.OK
    assert outcome.out == shell.run("--help").out
    for name in NAMES:
        assert f"    {name} " in outcome.out


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_command_names_its_flags_and_the_exit_codes(shell: Shell, name: str) -> None:
    outcome = shell.run(name, "--help")
    assert (outcome.code, outcome.err) == (ExitCode.OK, "")
    assert outcome.out.startswith(f"usage: astra-tui {name} ")
    for code, meaning in MEANINGS.items():
        assert f"{int(code):3}  {meaning}" in outcome.out
    called = import_module(f"astra_tui.cli.commands.{name}").run
    assert isinstance(called, Command)
    assert (called.help or "").lower().startswith(COMMANDS.summaries[name].lower())
    for parameter in called.params:
        assert parameter.help, parameter.name
        assert all(opt in outcome.out for opt in parameter.opts if opt.startswith("-"))
    assert max(map(len, outcome.out.splitlines())) <= 80
    program, *words = shlex.split(called.example)
    assert f"example:\n  {called.example}\n" in outcome.out
    assert (program, words[0]) == ("astra-tui", name)
    called.make_context(name, words[1:])
    usage = outcome.out.partition("\n\n")[0]
    assert not re.search(r"-$|\[[^\]]*$", usage, re.MULTILINE), "a flag keeps its value with it"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["chekc"], "there is no command 'chekc'", "did you mean 'check'?"),
        (["zzz"], "there is no command 'zzz'", "valid names: attach, audit, bench,"),
        (["kernels", "--jsno"], "there is no flag --jsno", "did you mean '--json'?"),
        (["check", "--cas=x"], "there is no flag --cas", "did you mean '--case'?"),
        (["check", "--verb", "x"], "there is no flag --verb", "did you mean '--verbose'?"),
        (["kernels", "one"], "one argument too many: one", "astra-tui kernels --help"),
        (["counters", "silu_and_mul"], "SOURCE.cu", "see: astra-tui counters --help"),
        (["check"], "name a task, or say --all", "astra-tui kernels lists the tasks"),
        (["check", "x", "--all"], "name a task, or say --all", "astra-tui kernels"),
        (["check", "silu_mul"], "no kernel task 'silu_mul'", "did you mean 'silu_and_mul'?"),
        (["check", "qqq"], "no kernel task 'qqq'", "valid names: flashinfer_fused_add_rmsnorm, "),
        (["check", "x" * 300], "there is no kernel task", "valid names: "),
        (["counters", "silu_mul", "a.cu"], "no kernel task", "did you mean 'silu_and_mul'?"),
        (
            ["check", "silu_and_mul", "--device", "emulater"],
            "there is no device 'emulater'",
            "say auto, emulator, cuda,",
        ),
        (
            ["check", "silu_and_mul", "--case", "nothing/*"],
            "no case of silu_and_mul matches nothing/*",
            "--list",
        ),
        (["check", "--all", "--case", "nothing/*"], "no case of any task", "--list"),
        (
            ["counters", "silu_and_mul", "baseline.cu", "--workload", "16x409"],
            "silu_and_mul has no workload '16x409'",
            "did you mean '16x4096'?",
        ),
        (
            ["counters", "silu_and_mul", "baseline.cu", "--rows", "0"],
            "--rows: '0' is not a whole number of 1 or more",
            "--help",
        ),
        (["counters", "silu_and_mul", "baseline.cu", "--rows", "x"], "'x' is not", "--help"),
        (["new", "folder"], "no source is named", "say --from WHERE"),
        (["new", "folder", "--from", "none.cu"], "none.cu: there is no such file", ""),
    ],
)
def test_bad_usage_says_what_and_what_next(
    shell: Shell, arguments: list[str], message: str, hint: str
) -> None:
    outcome = shell.run(*arguments, "--json")
    assert outcome.code == ExitCode.BAD_INPUT
    first, *rest = outcome.err.splitlines()
    assert message in first
    assert msgspec.json.decode(outcome.out)["exit_code"] == outcome.code
    assert hint in "".join(rest)
    assert len(rest) <= 1


def test_flags_may_stand_between_arguments(shell: Shell, sources: dict[str, str]) -> None:
    outcome = shell.run("check", "silu_and_mul", "--case", "float16/d=1", "good.cu", "-v")
    assert outcome.code == ExitCode.OK
    assert "PASSED silu_and_mul good.cu\n  1 case passed; " in outcome.out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("chec",), {"check"}),
        (("re",), {"replay", "resume", "report"}),
        (("audit", "--mu"), {"--mutants"}),
        (("run", "x", "--team", "llm"), {"llm", "llm-single"}),
    ],
)
def test_a_shell_completes_commands_flags_and_words(
    shell: Shell, typed: tuple[str, ...], offered: set[str]
) -> None:
    line = {"COMP_WORDS": " ".join(["astra-tui", *typed]), "COMP_CWORD": str(len(typed))}
    outcome = shell.run(_ASTRA_TUI_COMPLETE="bash_complete", **line)
    assert (outcome.code, outcome.err) == (0, "")
    assert {row.partition(",")[2] for row in outcome.out.splitlines()} == offered
    assert "astra-tui" in shell.run(_ASTRA_TUI_COMPLETE="zsh_source").out


def test_flags_that_exclude_each_other_are_refused(shell: Shell) -> None:
    outcome = shell.run("report", "s", "--html-only", "--markdown-only")
    assert outcome.code == ExitCode.BAD_INPUT
    assert "--html-only and --markdown-only exclude each other" in outcome.err


def test_settings_that_cannot_be_read_are_named_without_a_command_too(shell: Shell) -> None:
    (shell.folder / "astra-tui.toml").write_text("rounds = 'many'\n")
    engineer = Engineer(shell)
    engineer.sees("astra-tui: astra-tui.toml: rounds: ")
    assert engineer.process.wait(SECONDS) == ExitCode.BAD_INPUT


@pytest.mark.parametrize("name", NAMES)
def test_what_a_flag_is_by_default_is_a_value_that_it_takes(name: str) -> None:
    called = import_module(f"astra_tui.cli.commands.{name}").run
    needed = [p for p in called.params if isinstance(p, Argument) and p.required]
    words = [p.type.choices[0] if isinstance(p.type, OneOf) else "x" for p in needed]
    for option in called.params:
        if isinstance(option, click.Option) and option.required:
            is_word = isinstance(option.type, OneOf)
            words += [option.opts[0], option.type.choices[0] if is_word else "x"]
    given = called.make_context(name, words).params
    assert {p.name for p in called.params} == set(given)
