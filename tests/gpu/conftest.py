"""Shared fixtures: where children find the scripted process, and the tools as it knows them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from astra_tui.gpu.device import CudaDevice
from astra_tui.gpu.gpu_process import GpuProcess
from astra_tui.gpu.tools import ToolKernels
from tests.conftest import ROOT
from tests.gpu.kernels import LONG, MODULE, scripted_tools
from tests.gpu.script import FACTS


@pytest.fixture(scope="package", autouse=True)
def _children_find_the_tests() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        yield


@pytest.fixture(scope="package")
def tools() -> ToolKernels:
    """Our own kernels, scripted, on a machine that is not noisy."""
    return scripted_tools()


@pytest.fixture
def process(tools: ToolKernels) -> Iterator[GpuProcess]:
    """One process on the scripted device."""
    made = GpuProcess(FACTS.uuid, tools, MODULE)
    yield made
    made.close()


@pytest.fixture(scope="module")
def device(tools: ToolKernels) -> Iterator[CudaDevice]:
    """The scripted device, patient."""
    with CudaDevice(FACTS, tools, LONG, MODULE) as opened:
        yield opened
