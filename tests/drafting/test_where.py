"""Where `new --from` finds kernels: folders, installed packages, those of an index made here."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path

import pytest

from astra_tui.cli import main
from astra_tui.cuda_source.clang import read_translation
from astra_tui.cuda_source.project import KernelPlace, Project, kernels_of
from astra_tui.drafting import draft_task
from astra_tui.lab.compiler.toolchain import find_toolchain
from astra_tui.lab.source_tree import KernelNotNamed, SourceTree, open_source
from astra_tui.lab.upstream import task_headers
from astra_tui.model.errors import UserError
from astra_tui.model.task import load_task
from astra_tui.packages import Packages
from tests.packages.wheels import RAN, make_sdist, make_wheel, only_index

pytestmark = pytest.mark.usefixtures("warm_processes")

SCALE = """\
#include <tiny/load.h>

__global__ void scale(float* out, const float* input, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2.0f * load(input, i);
}

void launch(float* out, const float* input, int n) {
  scale<<<(n + 255) / 256, 256>>>(out, input, n);
}
"""
LOAD = """\
#include "detail.h"
__device__ inline float load(const float* p, int i) { return at(p, i); }
"""
DETAIL = "__device__ inline float at(const float* p, int i) { return p[i]; }\n"
ADD = "__global__ void add(float* out, int n) { if (threadIdx.x < n) out[threadIdx.x] += 1.0f; }\n"
FILES = {
    "tiny/csrc/scale.cu": SCALE,
    "tiny/csrc/old/scale.cuh": "\n" + SCALE,
    "tiny/csrc/add.cu": ADD,
    "tiny/include/tiny/load.h": LOAD,
    "tiny/include/tiny/detail.h": DETAIL,
    "tiny/module.py": "raise SystemExit('imported')",
}
CALLED = """\
template <int N>
__launch_bounds__(N) __global__ void first(int* x) {}
/* __global__ void comment(int* x) {} */
__global__ void declared(int* x);
template <typename T> __global__ std::enable_if_t<(sizeof(T) > 1), void>
    chosen(const T* x, int (*f)(int)) noexcept(true) {}
#define MADE(NAME) __global__ void NAME##_made(int* x) { x[0] = 1; }
__global__ MACRO(")") void __launch_bounds__(256, (1 + 1)) last(int* x) { f(x); }
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASTRA_TUI_CACHE", str(tmp_path / "cache"))
    return only_index(monkeypatch, tmp_path / "index")


def opened(where: str, cache: Path) -> SourceTree:
    return open_source(where, Packages(cache), lambda _step: lambda _size: None)


def test_kernels_are_found_by_text(tmp_path: Path) -> None:
    source = tmp_path / "all.cu"
    source.write_text(CALLED)
    found = [(k.line, k.name) for k in kernels_of(source)]
    assert found == [(2, "first"), (5, "chosen"), (8, "last")]
    read = read_translation(source, [], find_toolchain().include_dirs, ["MACRO(x)="])
    lines = {k.name: (k.line, k.last_line) for k in read.kernels()}
    assert lines["chosen"] == (5, 6)


def test_a_pinned_package_is_fetched_read_and_named_in_the_task(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_wheel(index, {}, tags="cp39-cp39-manylinux_2_17_x86_64")
    wheel = make_wheel(index, FILES)
    folder = tmp_path / "drafted"
    command = ["new", str(folder), "--from", "tiny-kernels==1.2.0:csrc/scale.cu", "--json"]
    assert main(command) == 0
    answer = json.loads(capsys.readouterr().out)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert (answer["problems"], answer["sha256"]) == ([], sha256)
    assert (answer["source"], answer["licence"]) == ("tiny/csrc/scale.cu", "Apache-2.0")
    assert answer["found"] == ["tiny/include"]
    upstream = load_task(folder).upstream
    assert upstream is not None
    assert upstream.package is not None
    assert (upstream.package.sha256, upstream.package.file) == (sha256, wheel.name)
    assert {"tiny/csrc/scale.cu", "tiny/include/tiny/detail.h"} < set(upstream.files)
    assert "tiny_kernels-1.2.0.dist-info/licenses/LICENSE" in upstream.files
    assert task_headers(load_task(folder)) is not None

    wheel.unlink()  # The index is not asked again.
    assert main(["new", str(tmp_path / "two"), "--from", "tiny-kernels==1.2.0"]) == 2
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        *("tiny/csrc/add.cu", "       1  add", "tiny/csrc/scale.cu", "       3  scale"),
        *("tiny/csrc/old/scale.cuh", "       4  scale"),
    ]
    assert "there are 3 kernels in 3 files, and a draft takes one" in said.err
    asked = ["new", str(tmp_path / "two"), "--from", "tiny-kernels==1.2.0", "--kernel", "scale"]
    assert main([*asked, "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["kernels"] == [
        {"file": "tiny/csrc/scale.cu", "line": 3, "name": "scale"},
        {"file": "tiny/csrc/old/scale.cuh", "line": 4, "name": "scale"},
    ]
    assert "--from tiny-kernels==1.2.0:tiny/csrc/scale.cu" in answer["error"]["hint"]


def test_an_sdist_is_taken_where_the_wheel_holds_no_kernels(index: Path, tmp_path: Path) -> None:
    make_wheel(index, {"tiny/module.py": ""})
    carried_twice = {**FILES, "ops/tiny/csrc/add.cu": ADD}
    make_sdist(index, carried_twice, **{"tiny/link.cu": "/etc/passwd"})
    tree = opened("tiny-kernels==1.2.0:tiny/csrc", tmp_path / "packages")
    assert tree.package is not None
    assert tree.package.is_sdist
    assert not (index / RAN).exists()
    main_file, name = tree.kernel("add")
    assert (tree.shown(str(main_file)), name) == ("tiny_kernels-1.2.0/tiny/csrc/add.cu", "add:1")
    assert not (main_file.parents[1] / "link.cu").exists()
    assert tree.kernel("scale:3")[0].name == "scale.cu"


def test_copies_for_other_gpus_are_passed_over(tmp_path: Path) -> None:
    for name in ("hip/add.cu", "cuda/add.cu", "add_rocm.cu"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(ADD)
    tree = opened(str(tmp_path), tmp_path / "packages")
    assert tree.kernel("add") == (tmp_path / "cuda" / "add.cu", "add:1")


@pytest.mark.parametrize(
    ("where", "message", "hint"),
    [
        ("none==1.0", "the package index has no package 'none'", "pip config list"),
        ("tiny-kernels==9.9", "the package index has no tiny-kernels 9.9", "it has 1.2.0"),
        ("plain==1.2.0", "no __global__ function was found in plain-1.2.0-py3", "clone"),
        ("tiny-kernels==1.2.0:scale.h", "has no source scale.h", "without a path"),
        ("tiny-kernels==1.2.0:src/load.h", "has no source src/load.h", "tiny/include/tiny/load.h"),
        ("tiny-kernels", "no such package is installed here", "tiny-kernels==VERSION"),
        ("pytest", "no __global__ function was found in pytest", "--from pytest=="),
        ("none.cu", "there is no such file", ""),
    ],
)
def test_what_is_not_found_names_the_next_step(
    where: str, message: str, hint: str, index: Path, tmp_path: Path
) -> None:
    make_wheel(index, FILES)
    make_wheel(index, {"plain.py": ""}, name="plain")
    with pytest.raises(UserError) as raised:
        opened(where, tmp_path / "packages")
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_an_index_that_gives_another_hash_or_no_answer(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(index, FILES)
    page = tmp_path / "simple" / "tiny-kernels" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{wheel.as_uri()}#sha256={"ab" * 32}">{wheel.name}</a>')
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", page.parents[1].as_uri())
    with pytest.raises(UserError, match="is not what was pinned"):
        opened("tiny-kernels==1.2.0", tmp_path / "packages")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(UserError, match="the package index does not answer"):
        opened("tiny-kernels==1.2.0", tmp_path / "packages")


def test_an_installed_package_is_read_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(make_wheel(tmp_path, FILES)) as wheel:
        wheel.extractall(site)
    monkeypatch.syspath_prepend(str(site))
    tree = opened("tiny:csrc/add.cu", tmp_path / "packages")
    assert (tree.origin, tree.licence) == ("tiny-kernels 1.2.0, as installed", "Apache-2.0")
    assert tree.kernel(None) == (site / "tiny" / "csrc" / "add.cu", None)
    with pytest.raises(UserError) as raised:
        opened("tiny-kernels", tmp_path / "packages").kernel("scales")
    assert raised.value.hint == "did you mean 'scale'?"
    assert "tiny" not in sys.modules


def test_a_checkout_says_its_commit_and_has_the_nearest_headers(tmp_path: Path) -> None:
    top = tmp_path / "tiny"
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    near = top / "csrc" / "inc" / "tiny"
    near.mkdir(parents=True)
    (near / "load.h").write_text(LOAD)
    (top / "LICENSE").write_text("the licence")
    git, commit = top / ".git", "1f" * 20
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs" / "heads" / "main").write_text(f"{commit}\n")
    url = "https://someone:secret@example.org/owner/tiny.git"
    (git / "config").write_text(f'[core]\n[remote "origin"]\n\turl = {url}\n')

    tree = opened(str(top / "csrc"), tmp_path / "packages")
    assert (tree.origin, tree.licence) == (f"example.org/owner/tiny at {commit}", "see LICENSE")
    with pytest.raises(KernelNotNamed) as raised:
        tree.kernel(None)
    assert raised.value.kernels[0] == KernelPlace("csrc/add.cu", 1, "add")
    main_file, name = tree.kernel("scale:3")
    include_dirs = find_toolchain().include_dirs
    read = read_translation(main_file, [], include_dirs, project=tree.project)
    roots = [str(top / "csrc" / "inc"), str(top / "include" / "tiny")]
    assert (name, list(read.roots), read.missing) == ("scale:3", roots, ())
    headers = {"tiny/load.h": str(near / "load.h"), "detail.h": f"{roots[1]}/detail.h"}
    files = tree.upstream(main_file, headers, read.roots, [])
    assert b'include = ["csrc/inc", "include/tiny"]' in files["upstream.toml"]
    assert files["upstream/include/tiny/detail.h"] == DETAIL.encode()
    assert files["upstream/LICENSE"] == b"the licence"
    alone = opened(str(top / "csrc" / "scale.cu"), tmp_path / "packages")
    assert alone.project == tree.project
    (top / "build").mkdir()
    (top / "build" / "CMakeCache.txt").touch()
    (top / "build" / "copy.cu").write_text(SCALE)
    assert len(Project([top]).kernels()) == 3


RANKED = """\
#include <cooperative_groups.h>
#include "declares.h"
namespace cg = cooperative_groups;
__global__ void ranked(unsigned n, unsigned d, float* out, const bool* chosen) {
  auto grid = cg::this_grid();
  auto i = grid.thread_rank();
  const unsigned row = i / d;
  if (row >= n) return;
  if (chosen[row]) out[i] = 1.0f;
}
void launch(unsigned n, unsigned d, float* out, const bool* chosen) {
  ranked<<<(n * d + 255) / 256, 256>>>(n, d, out, chosen);
}
"""


def test_a_draft_knows_ranks_and_leaves_out_a_header_that_only_declares(tmp_path: Path) -> None:
    (tmp_path / "declares.h").write_text(
        "struct Host;\n"
        "__global__ void ranked(unsigned n, unsigned d, float* out, const bool* chosen);\n"
        "void other(Host h);\n"
    )
    source = tmp_path / "ranked.cu"
    source.write_text(RANKED)
    read = read_translation(source, [], find_toolchain().include_dirs)
    draft = draft_task("ranked", read)
    assert draft.upstream == {}
    points = "\n".join(map(str, draft.open_points))
    assert "out: role out (only written: 'out[i]' at line 9), shape [n, d]" in points
    assert "shape [n] [args.chosen]" in points
