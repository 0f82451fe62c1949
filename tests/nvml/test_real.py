"""The library that is really here: none on a machine without a driver, else NVIDIA's own."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from astra_tui.gpu.nvml import GpuReader, NvmlRefusal, gpu_uuids
from tests.nvml.conftest import PCI_IDS


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(_has_driver(), reason="an NVIDIA driver is here")
def test_no_driver_here() -> None:
    reason = "no NVIDIA driver here: libnvidia-ml.so.1 was not found"
    with GpuReader(PCI_IDS[0]) as reader:
        assert reader.problem == reason
        sample = reader.sample()
        assert sample.sm_mhz is None
        assert sample.missing["sm_mhz"] == reason
    with pytest.raises(NvmlRefusal, match="no NVIDIA driver here"):
        gpu_uuids()


@pytest.mark.gpu
@pytest.mark.skipif(not _has_driver(), reason="no NVIDIA driver here")
def test_every_gpu_tells_the_essentials() -> None:
    uuids = gpu_uuids()
    assert uuids
    for uuid in uuids:
        with GpuReader(uuid) as reader:
            identity, sample = reader.identity(), reader.sample()
        assert identity.uuid == uuid
        assert identity.max_sm_mhz
        assert sample.sm_mhz
        assert sample.memory_total_bytes == identity.memory_bytes


def test_importing_loads_no_pynvml() -> None:
    script = "import sys, astra_tui.gpu.nvml, astra_tui.model.gpu; print('pynvml' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"
