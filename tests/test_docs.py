"""The documents: generated pages are up to date, links lead somewhere, commands run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from astra_tui.cli import json_answers as answers
from tests.cli.command import Shell
from tests.conftest import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(
    r"^(<!-- (?P<mark>[^>\n]+) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
HEADING = re.compile(r"^#+ (.+)$", re.M)

DIALECT = re.compile(
    r"(?<![`.\w])(beside|anew|whoever|nobody|somebody|(go|goes|going|went) on|(come|comes|came) of)"
    r"(?![`\w]|: str)",
    re.IGNORECASE,
)
"""What the program says in other words: against, again, the caller, no one, continue, result."""

RUN = "runs in the tests"
"""The mark before a block of shell commands that are quick enough to be run."""

SHOWN = "shown by the block above"
"""The mark before the output of those commands."""


def anchors(page: Path) -> set[str]:
    """The names by which the headings of a page can be linked."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def test_texts_use_plain_words() -> None:
    """A name in backticks, an attribute and a key of JSON may be what they were."""
    suffixes = (".py", ".txt", ".css", ".tcss", ".cu")
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in sorted((ROOT / "astra_tui").rglob("*"))
        if file.suffix in suffixes
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if DIALECT.search(line)
    ]
    assert not found


def generate(page_folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(page_folder / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_generated_pages_are_up_to_date() -> None:
    checked = generate(ROOT / "docs")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_page_that_is_out_of_date_is_named(tmp_path: Path) -> None:
    docs = shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in ("benchmarks", "astra_tui"):
        (tmp_path / name).symlink_to(ROOT / name)
    page = docs / "commands.md"
    page.write_text(page.read_text(encoding="utf-8").replace("| 130 |", "| 131 |"), "utf-8")
    checked = generate(docs)
    assert checked.returncode == 1
    assert checked.stderr == "docs/commands.md is out of date; say: python docs/generate.py\n"


def test_the_examples_of_json_have_the_documented_shapes() -> None:
    shapes: dict[str, type[msgspec.Struct]] = {
        "kernels": answers.KernelsAnswer,
        "check": answers.CheckAnswer,
        "list": answers.CasesAnswer,
        "counters": answers.CountersAnswer,
        "doctor": answers.DoctorAnswer,
        "error": answers.ErrorAnswer,
    }
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    examples = [m for m in BLOCK.finditer(page) if m["kind"] == "json"]
    assert [m["mark"] for m in examples] == list(shapes)
    for example in examples:
        msgspec.json.decode(example["text"], type=shapes[example["mark"]])


def marked_commands() -> list[tuple[str, str]]:
    """The blocks of the README that are marked to be run, with the output shown for each."""
    blocks = list(BLOCK.finditer((ROOT / "README.md").read_text(encoding="utf-8")))
    found = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block["mark"] == RUN:
            shows = following is not None and following["mark"] == SHOWN
            found.append((block["text"], following["text"] if following and shows else ""))
    return found


@pytest.mark.parametrize(("commands", "shown"), marked_commands())
def test_the_readme_s_quick_commands_run(tmp_path: Path, commands: str, shown: str) -> None:
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels")
    text = (ROOT / "kernels" / "silu_and_mul" / "baseline.cu").read_text(encoding="utf-8")
    (tmp_path / "my_kernel.cu").write_text(text, encoding="utf-8")
    shell = Shell(tmp_path)
    output = ""
    for line in commands.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "astra-tui":
            outcome = shell.run(*words[1:])
            output += outcome.out
            expected = 1 if shown.startswith("FAILED") else 0
            assert outcome.code == expected, outcome.err
        else:
            subprocess.run(line, shell=True, cwd=tmp_path, check=True)
    if shown:
        assert _lasting(output) == _lasting(shown)


def _lasting(text: str) -> str:
    """Output without versions, times, the number of cases and wrapping."""
    text = re.sub(r"NVRTC [\d.]+ \([\d.]+\)", "NVRTC", " ".join(text.split()))
    text = re.sub(r"\b\d+ (of \d+|more) cases", "MANY cases", text)
    return re.sub(r"\d+\.\d s\b", "TIME", text)


def test_the_readme_marks_what_it_runs() -> None:
    assert len(marked_commands()) >= 2
    assert any(shown.startswith("FAILED") for _, shown in marked_commands())
