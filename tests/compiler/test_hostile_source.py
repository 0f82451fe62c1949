"""Sources that want to read the host's files or never end: every wall is tried without the others.

The scan refuses them; where it is bypassed, the confined compiler cannot open the file; and where
that is not confined either, what its log quotes is dropped.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.lab.cache import ContentCache
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.compiler.directives import MAX_SOURCE_BYTES, refuse_unsafe
from astra_tui.lab.compiler.headers import NOTHING
from astra_tui.lab.compiler.log import parse_diagnostics
from astra_tui.lab.compiler.service import SOURCE_NAME
from astra_tui.model.compilation import Diagnostic
from astra_tui.processes.confine import landlock_abi
from tests.compiler.attacks import QUERIES, READS, TRIES, aim
from tests.compiler.helpers import FLOAT, HERE, KERNEL, PATIENT, messages

SECRET = "hunter2_of_the_canary"
ATTACKS = {**READS, **TRIES, **{f"query: {name}": text for name, text in QUERIES.items()}}

needs_landlock = pytest.mark.skipif(
    landlock_abi() < 1, reason="this kernel has no Landlock (Linux 5.13 or newer has)"
)


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that no source may see. It is no valid C++, so that reading it shows in the log."""
    path = tmp_path_factory.mktemp("host") / "canary.h"
    path.write_text(f"{SECRET} {SECRET};\n#error {SECRET}\n")
    return path


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    """A compiler that gives up soon."""
    cache = ContentCache("compile", tmp_path_factory.mktemp("cache"))
    with Compiler(cache, seconds=1) as opened:
        opened.identify()
        yield opened


def scan(source: str, compiler: Compiler) -> list[Diagnostic]:
    return refuse_unsafe(source, compiler.toolchain.include_dirs)


@pytest.fixture(scope="module")
def open_logs(canary: Path) -> dict[str, str]:
    """What NVRTC says to each attack where nothing stops it."""
    done = subprocess.run(
        [sys.executable, str(HERE / "unconfined_compiler.py")],
        input=json.dumps([aim(attack, canary) for attack in ATTACKS.values()]),
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return dict(zip(ATTACKS, json.loads(done.stdout), strict=True))


# The first wall: the scan


@pytest.mark.parametrize("name", ATTACKS)
def test_the_scan_refuses(compiler: Compiler, canary: Path, name: str) -> None:
    if name in ("trigraph", "universal character name"):
        assert SECRET not in compiler.raw_log(aim(ATTACKS[name], canary)), "harmless in C++17"
    else:
        assert scan(aim(ATTACKS[name], canary), compiler)


@pytest.mark.parametrize("name", READS)
def test_the_scan_refuses_behind_other_code(compiler: Compiler, canary: Path, name: str) -> None:
    source = f"{KERNEL}\n{aim(READS[name], canary)}\n{KERNEL}"
    assert any(d.line > KERNEL.count("\n") for d in scan(source, compiler))


@pytest.mark.parametrize("name", ATTACKS)
def test_a_refused_source_is_never_compiled(compiler: Compiler, canary: Path, name: str) -> None:
    result = compiler.compile(KERNEL + aim(ATTACKS[name], canary), (FLOAT,))
    assert not result.ok
    assert not result.ptx
    assert not result.cubin
    assert SECRET not in str(result)


PIECES = [
    "/*\n*/",
    *("'", '"', "/*", "*/", "//", "\n", "\\\n", "\\", 'R"x(', ')x"', 'R"(', ')"', "u8", "R", "L"),
    *("1'0", " ", "\r", "\\\r\n", "#", "%:", "%", ":", "a", "(", ")", "_", "<", ">", "\f", "??/\n"),
    *("\n#if 0\n", "\n#if 1\n", "\n#else\n", "\n#endif\n", "\n#define A ", "\n#error ", "include"),
    *("\n#pragma ", "\n#include <stdint.h>", '\n#include "stdint.h', 'asm("', "\n_Pragma("),
    *('\n#include "/no/such"\n', '\n#inc\\\nlude "/no/such"\n', '#include "/no/such"\n'),
]


@settings(PATIENT, max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_whatever_the_compiler_would_open_the_scan_refuses(compiler: Compiler, text: str) -> None:
    source = text + '\n#include "/no/such"\n'
    if not scan(source, compiler):
        # An #error that continues to the next line quotes it, and opens nothing.
        assert not re.search("open.*/no/such", compiler.raw_log(source))


# The second wall: the confined process, with the scan bypassed


@pytest.mark.parametrize("name", READS)
def test_the_attack_works_where_nothing_stops_it(open_logs: dict[str, str], name: str) -> None:
    # The control: without it, an attack that never worked would count as one that was stopped.
    assert SECRET in open_logs[name]


def test_asking_for_a_file_works_where_nothing_stops_it(open_logs: dict[str, str]) -> None:
    assert "YES" in open_logs["query: plain"]
    assert "YES" in open_logs["query: pasted in two steps"]


@needs_landlock
@pytest.mark.parametrize("name", READS)
def test_the_confined_compiler_tries_and_fails(compiler: Compiler, canary: Path, name: str) -> None:
    log = compiler.raw_log(aim(READS[name], canary))
    assert "cannot open source file" in log
    assert SECRET not in log


@needs_landlock
@pytest.mark.parametrize("name", [*TRIES, *(f"query: {name}" for name in QUERIES)])
def test_the_confined_compiler_leaks_nothing(compiler: Compiler, canary: Path, name: str) -> None:
    assert SECRET not in compiler.raw_log(aim(ATTACKS[name], canary))


@needs_landlock
@pytest.mark.parametrize("name", ["/proc/self/environ", "/proc/self/fd/2", "/dev/stdin"])
def test_the_compilers_own_process_is_closed_to_it(compiler: Compiler, name: str) -> None:
    assert "cannot open source file" in compiler.raw_log(f'#include "{name}"\n')


@needs_landlock
def test_kernel_names_cannot_carry_an_include(compiler: Compiler, canary: Path) -> None:
    name = f'{FLOAT}\n#include "{canary}"'
    assert "one line" in messages(compiler.compile(KERNEL, (name,)))
    inputs = compiler._inputs(NOTHING, "sm_90")
    assert SECRET not in compiler._request(KERNEL, (name,), inputs, cubin=False).log


@needs_landlock
@pytest.mark.parametrize("name", QUERIES)
def test_asking_for_a_file_gives_the_same_answer_whether_it_exists_or_not(
    compiler: Compiler, canary: Path, name: str
) -> None:
    # NVRTC decides by opening, which Landlock denies; so this holds with the scan bypassed too.
    missing = canary.with_name("missin.h")
    logs = {compiler.raw_log(aim(QUERIES[name], file)) for file in (canary, missing)}
    assert len({log.replace(canary.name, missing.name) for log in logs}) == 1


@needs_landlock
def test_including_a_file_tells_the_scan_bypasser_but_not_the_user_that_it_exists(
    compiler: Compiler, canary: Path
) -> None:
    # The log says "Permission denied" for a file that exists. Diagnostics do not pass it on.
    missing = canary.with_name("missin.h")
    told = []
    for file in (canary, missing):
        source = f'#include "{file}"\n'
        log = compiler.raw_log(source)
        assert ("Permission denied" in log) == (file == canary)
        (diagnostic,) = parse_diagnostics(log, SOURCE_NAME, source)
        told.append(diagnostic.message.replace(canary.name, missing.name))
    assert told[0] == told[1]


# The third wall: the log, with the scan bypassed and nothing confined


@pytest.mark.parametrize("name", ATTACKS)
def test_what_the_log_quotes_of_other_files_is_dropped(
    compiler: Compiler, canary: Path, open_logs: dict[str, str], name: str
) -> None:
    source = aim(ATTACKS[name], canary)
    roots = compiler.toolchain.include_dirs
    assert SECRET not in str(parse_diagnostics(open_logs[name], SOURCE_NAME, source, roots))


# Sources that are too much


def test_a_source_of_exactly_the_limit_is_read(compiler: Compiler) -> None:
    assert scan("//".ljust(MAX_SOURCE_BYTES, "x"), compiler) == []


@pytest.mark.parametrize(
    "source", ["//".ljust(MAX_SOURCE_BYTES + 1, "x"), "é" * (MAX_SOURCE_BYTES // 2) + "x"]
)
def test_a_source_over_the_limit_is_refused(compiler: Compiler, source: str) -> None:
    result = compiler.compile(source)
    assert "larger than 1048576 bytes" in messages(result)


@pytest.mark.parametrize(("character", "reason"), [("\0", "NUL"), ("\ud800", "surrogate")])
def test_a_source_that_is_no_text_is_refused(
    compiler: Compiler, character: str, reason: str
) -> None:
    (error,) = compiler.compile(f"{KERNEL}\n// {character}\n", (FLOAT,)).errors
    assert reason in error.message
    assert error.line == KERNEL.count("\n") + 2


@pytest.mark.parametrize("name", ["", "  ", "k\n", "k\0", "k\r", "k\x1b[2J", "k\ud800"])
def test_a_kernel_name_that_is_not_one_line_is_refused(compiler: Compiler, name: str) -> None:
    (error,) = compiler.compile(KERNEL, (FLOAT, name)).errors
    assert (error.kernel, "one line" in error.message) == (name, True)


BOMBS = {
    "templates": """
template <int N, int M> struct S { static constexpr int v = S<N-1, 2*M>::v + S<N-1, 2*M+1>::v; };
template <int M> struct S<0, M> { static constexpr int v = M; };
__global__ void k(int* o) { *o = S<25, 0>::v; }
""",
    "types that double": "template <class A, class B> struct P {}; using L0 = int;\n"
    + "".join(f"using L{n + 1} = P<L{n}, L{n}>;\n" for n in range(40))
    + "__global__ void k(L40* o) {}\n",
    "memory": "__device__ char b[1L << 36] = {1};\n__global__ void k(char* o) { *o = b[9]; }\n",
    "macros": "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(A(A(A(A(A(x))))))))\n"
    "__global__ void k(int* o) { B(*o = 1;) }\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_and_the_next_compile_works(brief: Compiler, name: str) -> None:
    remembered = set(brief._cache.folder.rglob("*"))
    assert "compilation was given up: " in messages(brief.compile(BOMBS[name], ("k",)))
    assert set(brief._cache.folder.rglob("*")) == remembered, "it may work on another day"
    after = brief.compile(f"{KERNEL}// after {name}", (FLOAT,))
    assert after.ok
    assert not after.from_cache


def test_endless_recursion_is_an_error_of_the_source(brief: Compiler) -> None:
    source = (
        "template <int N> struct S { static constexpr int v = S<N+1>::v; };\nint x = S<0>::v;\n"
    )
    result = brief.compile(source)
    assert "excessive recursion" in messages(result)
    assert result.errors[0].line == 1


SLOW_TO_SCAN = [
    *("\\'", 'R"(', 'R"x(\n#include ', "/*", "#", "#if a(\n", '#include "', "#include<"),
    *("#define a b##c\n", "\\\n", "\n", "__has_include", "1'0 #/*", " "),
]


@pytest.mark.parametrize("piece", SLOW_TO_SCAN)
def test_the_largest_source_is_scanned_in_linear_time(compiler: Compiler, piece: str) -> None:
    # A scan that looks back over the source at every piece would take hours for this.
    source = f"'\n{piece * (MAX_SOURCE_BYTES // len(piece) - 2)}"
    assert len(scan(source, compiler)) <= 21
