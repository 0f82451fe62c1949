"""Adapters: their files, their guard against the real framework, and what they refuse.

None of it ran on a GPU. The frameworks are large, so that only PyTorch's adapter is tried
everywhere. Those of FlashInfer, SGLang and vLLM are where the pinned wheels and sdist are in the
cache, or `ASTRA_TUI_FETCH=1` fetches them; that of Hugging Face kernels is where
ASTRA_TUI_FRAMEWORKS names folders from which it can be imported (CONTRIBUTING.md).
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from astra_tui.export import Framework, Subject, find_winner
from astra_tui.export.delivery import TARGETS, Adapter, adapter_of, proof_cases
from astra_tui.export.dossier import PAGE, dossier
from astra_tui.export.exporting import open_exporter
from astra_tui.lab.compiler import Compiler
from astra_tui.model.errors import UserError
from astra_tui.model.export import StepOutcome
from astra_tui.model.state import CandidateState, SessionState
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.task.upstream import load_upstream
from astra_tui.packages import Packages
from astra_tui.sessions.integrity import read_session
from tests.conftest import ROOT
from tests.export.sessions import tuned, write_files, write_session

pytestmark = pytest.mark.usefixtures("warm_processes")

FRAMEWORKS = os.environ.get("ASTRA_TUI_FRAMEWORKS", "")
OPERATORS = ("silu_and_mul", "fused_add_rmsnorm")


def adapter(subject: Subject, framework: Framework) -> Adapter:
    """An adapter of a winner that no session timed."""
    hash_ = subject.winner.candidate
    return adapter_of(subject, framework, SessionState(candidates={hash_: CandidateState(hash_)}))


SHIPPED = {
    Framework.FLASHINFER: "flashinfer_fused_add_rmsnorm",
    Framework.SGLANG: "sglang_silu_and_mul",
    Framework.VLLM: "vllm_moe_sum",
}
"""A bundled task that pins the framework's package."""


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Framework], str]:
    """Folders with the Python files of a framework's pinned package, and its metadata."""

    @cache
    def unpacked(framework: Framework) -> str:
        upstream = load_upstream(ROOT / "kernels" / SHIPPED[framework])
        assert upstream is not None
        assert upstream.package is not None
        store = Packages(Path(platformdirs.user_cache_dir("astra-tui")) / "packages")
        if not (store.has(upstream.package) or os.environ.get("ASTRA_TUI_FETCH")):
            pytest.skip(f"{upstream.package} is not in the cache; to fetch it: ASTRA_TUI_FETCH=1")
        folder = tmp_path_factory.mktemp(framework.value)
        archive = store.fetch(upstream.package)
        endings = (".py", ".cuh", "METADATA", "egg-info/PKG-INFO")
        archive.unpack(folder, lambda name: name.endswith(endings))
        root = archive.pin.file.removesuffix(".tar.gz")
        return str(folder / root if archive.pin.is_sdist else folder)

    return lambda framework: unpacked(framework) if framework in SHIPPED else ""


def ended(
    folder: Path, framework: Framework, frameworks: str, driver: Path
) -> subprocess.CompletedProcess[str]:
    """adapters.py, run to its end."""
    script = Path(__file__).with_name("adapters.py")
    return subprocess.run(
        [sys.executable, "-P", str(script), str(folder), framework.value],
        cwd=folder, capture_output=True, text=True, check=False,
        env={
            **os.environ,
            "PYTHONPATH": frameworks,
            "LD_LIBRARY_PATH": str(driver),
            "SCRIPTED_CUDA_LOG": str(folder / "log"),
        },
    )  # fmt: skip


def ran(folder: Path, framework: Framework, frameworks: str, driver: Path) -> dict[str, Any]:
    """What adapters.py found."""
    done = ended(folder, framework, frameworks, driver)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def packages(folder: Path, subjects: dict[str, Subject], framework: Framework) -> Path:
    """The packages of every operator that the framework has."""
    for name in TARGETS[framework].apis:
        files = adapter(subjects[name], framework).package
        write_files(folder / f"astra_{name}", files)
    return folder


@pytest.mark.parametrize("framework", [one for one in Framework if one is not Framework.HF])
def test_the_framework_s_calls_reach_the_kernel(
    framework: Framework,
    subjects: dict[str, Subject],
    tmp_path: Path,
    scripted_driver: Path,
    installed: Callable[[Framework], str],
) -> None:
    """The scripted driver computes nothing, so that results inside the guard are not compared."""
    folder = packages(tmp_path, subjects, framework)
    found = ran(folder, framework, installed(framework), scripted_driver)
    for name in TARGETS[framework].apis:
        proof = found[name]
        assert proof["wrong"]["counts"] == []
        assert proof["wrong"]["bits_outside"] == []
        assert proof["hits"] == proof["launches"] == proof["inside"]
        assert proof["shapes"] >= 100
        assert proof["outside"] >= 20
        assert proof["failed_before_and_after"] <= proof["outside"]
    assert found["astra_tui"] == []
    if framework is Framework.TORCH:
        only = found["silu_and_mul"]["only_delivered"]
        assert len(only) == found["fails"] > 0
        assert all(line.endswith(": ValueError: too wide, then results") for line in only)
    if framework is Framework.FLASHINFER:
        assert found["together"] == TOGETHER
    if framework is Framework.SGLANG:
        assert found["layers"] == SGLANG_LAYERS
    if framework is Framework.VLLM:
        assert found["layers"] == VLLM_LAYERS


NOT_ROUTED = "Trace Apply has no solution for this width, or met it first in a graph's capture"
TOGETHER = {
    "shape": [4, 6, 256],
    "out": True,
    "nothing": True,
    "named twice": True,
    "counts": {
        "silu_and_mul": {"hits": {"float16[24, 512]": 2}, "fallbacks": {}},
        "fused_add_rmsnorm": {
            "hits": {"float16[3, 512] float16[3, 512] float16[512]": 1},
            "fallbacks": {NOT_ROUTED: 1},
        },
    },
    "trace_apply": {
        "flashinfer.activation.silu_and_mul": {"hit": 2},
        "flashinfer.norm.fused_add_rmsnorm": {"hit": 1, "fallback_no_candidate": 1},
    },
    "own again": True,
    "the other stays": 2,
    "off": True,
}
NORM = "float16[3, 64] float16[3, 64] float16[64]"
SGLANG_LAYERS = {
    "counts": {
        "silu_and_mul": {"hits": {"float16[3, 128]": 1}, "fallbacks": {}},
        "fused_add_rmsnorm": {
            "hits": {NORM: 1},
            "fallbacks": {
                "another form of the norm than x, residual and weight": 1,
                "SGLang's batch-invariant mode": 1,
            },
        },
    },
    "same outside": True,
}
VLLM_LAYERS = {
    "install": ["AstraSiluAndMul", "silu_and_mul"],
    "uninstall": ["SiluAndMul", "silu_and_mul"],
    "own again": True,
    "counts": {"hits": {}, "fallbacks": {}},
}


@pytest.mark.skipif(not FRAMEWORKS, reason="needs ASTRA_TUI_FRAMEWORKS")
def test_kernels_loads_the_variant(subjects: dict[str, Subject], tmp_path: Path) -> None:
    write_files(tmp_path, adapter(subjects["silu_and_mul"], Framework.HF).files())
    script = (
        "import sys, torch; from pathlib import Path; from kernels import get_local_kernel\n"
        "module = get_local_kernel(Path(sys.argv[1]) / 'build/torch-cuda')\n"
        "import importlib; eager = importlib.import_module(module.__name__ + '.eager')\n"
        "eager.install(); x = torch.randn(3, 64, dtype=torch.half)\n"
        "assert torch.equal(module.silu_and_mul(x), eager.silu_and_mul(x))\n"
        "assert sum(module.calls.counts()['fallbacks'].values()) == 1\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(tmp_path)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": FRAMEWORKS},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("framework", "file", "text", "changed", "said"),
    [
        (
            Framework.SGLANG, "sglang/srt/layers/layernorm.py",
            "        quant_linear: Optional[nn.Module] = None,", "        scale=None,",
            "RMSNorm.forward_cuda takes (self, x, residual=None, post_residual_addition=None, "
            "scale=None); this adapter is for (self, x, ",
        ),
        (
            Framework.VLLM, "vllm/model_executor/layers/activation.py",
            "def forward_cuda(self, x: torch.Tensor)", "def forward_cuda(self, x, limit=0.0)",
            "forward_cuda takes (self, x, limit=0.0); this adapter is for (self, x)",
        ),
    ],
)  # fmt: skip
def test_a_changed_file_is_an_error_that_says_so(
    framework: Framework,
    file: str,
    text: str,
    changed: str,
    said: str,
    subjects: dict[str, Subject],
    tmp_path: Path,
    installed: Callable[[Framework], str],
) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(installed(framework), folder, copy_function=os.link)
    source = (folder / file).read_text()
    assert text in source
    (folder / file).unlink()
    (folder / file).write_text(source.replace(text, changed))
    packages(tmp_path, subjects, framework)
    assert said in ended(tmp_path, framework, str(folder), tmp_path).stderr


def test_the_switch_turns_it_off_and_another_version_is_an_error_that_says_so(
    subjects: dict[str, Subject], tmp_path: Path
) -> None:
    """In one process, which imports PyTorch."""
    for framework in (Framework.TORCH, Framework.VLLM):
        packages(tmp_path, subjects, framework)
    (tmp_path / "vllm-0.34.0.dist-info").mkdir()
    (tmp_path / "vllm-0.34.0.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.34.0\n")
    script = (
        "import json, torch; from astra_silu_and_mul import calls, eager\n"
        "eager.install()\n"
        "torch.ops.astra.silu_and_mul(torch.randn(3, 64).half())\n"
        "print(json.dumps(calls.counts()))\n"
        "import astra_fused_add_rmsnorm.vllm\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "ASTRA_SILU_AND_MUL": "off"},
    )  # fmt: skip
    counts = {"hits": {}, "fallbacks": {"switched off by ASTRA_SILU_AND_MUL": 1}}
    assert json.loads(done.stdout) == counts
    assert "FrameworkChanged: vllm is 0.34.0; this adapter was written" in done.stderr


@pytest.mark.parametrize("name", OPERATORS)
def test_the_cases_of_a_proof(subjects: dict[str, Subject], name: str) -> None:
    cases = list(proof_cases(subjects[name]))
    assert len({json.dumps(c["tensors"], sort_keys=True) for c in cases}) == len(cases)
    inside = [c for c in cases if c["inside"]]
    assert len({json.dumps([t[1] for t in c["tensors"].values()]) for c in inside}) >= 100
    assert all((c["launches"] > 0) == c["inside"] for c in cases)
    assert {c["dtype"] for c in inside} == {"float16", "bfloat16"}
    # FlashInfer's own operators would end the process on rows that lie off their vectors.
    files = adapter(subjects[name], Framework.FLASHINFER).package
    left = json.loads(files["proof.json"])["cases"]
    gone = {c["name"] for c in cases} - {c["name"] for c in left}
    assert any("tokens=" not in n for n in gone)
    assert not any(t[3] for c in left for t in c["tensors"].values())
    rows = [t for c in left for t in c["tensors"].values() if t[2][-1] == 1]
    assert not any(n % math.gcd(8, shape[-1]) for _, shape, apart, _ in rows for n in apart[:-1])


@pytest.mark.parametrize("framework", Framework)
def test_files_for_a_stranger(subjects: dict[str, Subject], framework: Framework) -> None:
    made = adapter(subjects["fused_add_rmsnorm"], framework)
    files = made.files()
    readme, project = files["README.md"], files["pyproject.toml"]
    assert isinstance(readme, str)
    assert isinstance(project, str)
    for words in (made.api, made.switch, *made.target.pinned, "`d >= 1`", "compiled, not measured"):
        assert words in readme
    assert ("Not run on a GPU" in readme) == (framework in (Framework.SGLANG, Framework.VLLM))
    assert "did not time it against what frameworks ship" in readme
    about = tomllib.loads(project)["project"]
    assert about["name"].startswith("astra-fused-add-rmsnorm")
    module = f"astra_fused_add_rmsnorm.{made.target.module}:plugin"
    plugins = {made.target.plugins: {"astra_fused_add_rmsnorm": module}}
    assert about.get("entry-points", {"": {"astra_fused_add_rmsnorm": module}}) == plugins
    for block in readme.split("```python\n")[1:]:
        compile(block.partition("```")[0], "README.md", "exec")
    prefix = made.target.prefix or "astra_fused_add_rmsnorm"
    assert {f"{prefix}/{made.target.module}.py", f"{prefix}/kernel.cu"} <= set(files)
    python = [text for name, text in files.items() if name.endswith(".py")]
    assert all(isinstance(text, str) and compile(text, "file", "exec") for text in python)


@pytest.mark.parametrize(
    ("name", "framework"),
    [("h200-partner-rmsnorm", Framework.SGLANG), ("h200-partner-silu", Framework.FLASHINFER)],
)
def test_the_dossiers_that_come_with_the_project(name: str, framework: Framework) -> None:
    session = read_session(ROOT / "sessions" / name)
    assert session.state.opened is not None
    task = load_task(ROOT / "kernels" / session.state.opened.settings.task)
    audit = json.loads((ROOT / "benchmarks" / "results" / "audit_emulator.json").read_text())
    files = dossier(find_winner(session), task, session.state, framework, audit).files
    folder = ROOT / "docs" / "dossiers" / name
    assert files == {file.name: file.read_text() for file in folder.iterdir()}
    others = dossier(find_winner(session), task, session.state, Framework.VLLM).files
    assert set(others) == {PAGE}
    assert "| DCO: `Signed-off-by` in each commit | to do by who sends it |" in others[PAGE]
    assert "was not looked up" not in others[PAGE]


SILU = ROOT / "sessions" / "h200-partner-silu"


def objections(**changes: str) -> str:
    """What stands against the winner of a session on FlashInfer's silu, with other texts."""
    session = read_session(SILU)
    task = load_task(ROOT / "kernels" / "flashinfer_silu_and_mul")
    winner = replace(find_winner(session), **changes)
    page = dossier(winner, task, session.state, Framework.FLASHINFER).files[PAGE]
    return page.partition("**Against it:**")[2].partition("## Times")[0]


def test_a_dossier_compares_the_launches() -> None:
    """A start that ships with a dependent launch and was timed without, a lost wait, lost sizes."""
    winner = find_winner(read_session(SILU))
    found = objections()
    assert not any(words in found for words in ("turn it on", "too early", "does not check that"))
    assert "`d % 8 != 0 or (aligned(out, 16) and aligned(input, 16))`" in found
    plain = winner.baseline.replace(" pdl=true", "")
    found = objections(baseline=plain)
    assert "FlashInfer's own launcher may turn it on, and that was not timed" in found
    assert "how much the launch, is not known" in found
    both = objections(baseline=plain, text=winner.text.replace(" pdl=true", ""))
    assert "turn it on" in both
    assert "how much the launch, is not known" not in both
    early = winner.text.replace("cudaGridDependencySynchronize();", "")
    assert "it would read its inputs too early" in objections(text=early)
    begin = winner.text.index("/* @launch")
    plan = winner.text[begin : winner.text.index("*/", begin)]
    launch = "act_and_mul<T, 8> grid=(rows, ceil_div(d // 8, 256)) block=256 pdl=true"
    assert launch in plan
    narrowed = winner.text.replace(plan, f"/* @launch\n   {launch} args=(out, input, d // 8)\n")
    assert "does not check that, where the first one's did" in objections(text=narrowed)


def test_a_dossier_says_what_speaks_against_it() -> None:
    """A session of the playbook on a source of ours, timed against nothing that ships."""
    session = read_session(ROOT / "sessions" / "h200-playbook-silu")
    task = load_task(ROOT / "kernels" / "silu_and_mul")
    page = dossier(find_winner(session), task, session.state, Framework.FLASHINFER).files[PAGE]
    assert "**No patch**" in page
    assert "- it was not timed against a shipped kernel" in page
    assert "no language model wrote the code" in page
    assert "every approval was automatic" in page
    for_torch = dossier(find_winner(session), task, session.state, Framework.TORCH).files[PAGE]
    assert "What PyTorch asks for beyond this was not looked up." in for_torch


def test_an_operator_without_a_hook(
    tasks: dict[str, KernelTask], subjects: dict[str, Subject]
) -> None:
    subject = replace(subjects["silu_and_mul"], task=tasks["merge_attn_states_lse"])
    with pytest.raises(UserError, match="vLLM has no hook for merge_attn_states_lse"):
        adapter(subject, Framework.VLLM)


def test_delivery_is_checked_and_written(
    tasks: dict[str, KernelTask], compiler: Compiler, tmp_path: Path
) -> None:
    task = tasks["silu_and_mul"]
    session = read_session(write_session(tmp_path / "session", task, tuned(task)))
    with open_exporter(task, "emulator", compiler) as exporter:
        report = exporter.deliver(
            find_winner(session), Framework.TORCH, session.state, tmp_path / "out", sys.executable,
            prove=True,
        )  # fmt: skip
    outcomes = {step.name: step.outcome for step in report.steps}
    assert outcomes["kernels"] is outcomes["hook into PyTorch"] is StepOutcome.PASSED
    assert outcomes["proof of engagement"] is StepOutcome.NOT_CHECKED
    assert {"sm_80", "sm_89", "sm_100"} <= set(report.archs)
    assert report.measured == ""
    assert not report.failed
    assert sorted(report.files) == sorted(
        str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()
    )
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "| proof of engagement | not checked |" in readme
