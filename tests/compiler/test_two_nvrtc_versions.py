"""Another NVRTC of the same major version compiles the same kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_tui.lab.cache import ContentCache
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.compiler.toolchain import LIBRARY_VARIABLE
from tests.compiler.helpers import BFLOAT16, FLOAT, HALF, KERNEL, messages
from tests.conftest import OWN_SOURCES, ROOT

LIBRARY = ROOT / ".nvrtc-13.0" / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
NAMES = (FLOAT, HALF, BFLOAT16)

pytestmark = pytest.mark.skipif(
    not LIBRARY.is_file(), reason="NVRTC 13.0 is not here; get it with: make nvrtc-13.0"
)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    cache = ContentCache("compile", tmp_path_factory.mktemp("cache"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
        opened = Compiler(cache)
        opened.start()  # The other compiler may start only after this, and is not the one named.
    with opened:
        yield opened


def test_it_says_which_one_it_is(older: Compiler, compiler: Compiler) -> None:
    result = older.compile(KERNEL, NAMES)
    assert result.compiler == "NVRTC 13.0 (13.0.88)"
    assert older.content_hash() != compiler.content_hash() != ""
    assert compiler.compile(KERNEL, NAMES).compiler != result.compiler


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_it_gives_the_same_parameters(older: Compiler, compiler: Compiler, arch: str) -> None:
    old, new = older.compile(KERNEL, NAMES, arch), compiler.compile(KERNEL, NAMES, arch)
    assert messages(old) == messages(new) == ""
    for name in NAMES:
        assert old.kernel(name).parameters == new.kernel(name).parameters
        assert old.kernel(name).parameter_bytes == new.kernel(name).parameter_bytes
        assert old.kernel(name).resources.registers > 0
    assert old.cubin.startswith(b"\x7fELF")


@pytest.mark.parametrize("file", OWN_SOURCES, ids=lambda f: f.parent.name)
def test_it_compiles_the_bundled_kernels(older: Compiler, file: Path) -> None:
    assert older.compile(file.read_text(encoding="utf-8")).diagnostics == ()


def test_its_errors_read_the_same(older: Compiler, compiler: Compiler) -> None:
    source = """#include <algorithm>
__global__ void k(int* o) {
  int unused;
  *o = std::min(1, 2.0f) + nope;
}
"""
    assert older.compile(source, ("k",)).diagnostics == compiler.compile(source, ("k",)).diagnostics


def test_it_is_confined_too(older: Compiler, compiler: Compiler, tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("#error the canary was read\n")
    log = older.raw_log(f'#include "{tmp_path}/canary"\n')
    assert ("the canary was read" in log) != older.start().confined
    assert older.start().confined == compiler.start().confined
