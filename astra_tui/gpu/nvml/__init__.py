"""NVML: who the GPU is, how it fares, who else is on it. Imports pynvml when a reader is opened."""

from astra_tui.gpu.nvml.energy import EnergyMeter, energy_use
from astra_tui.gpu.nvml.health import gpu_health
from astra_tui.gpu.nvml.listing import gpu_uuids
from astra_tui.gpu.nvml.reader import GpuReader, uuid_of
from astra_tui.gpu.nvml.refusal import NvmlRefusal
from astra_tui.gpu.nvml.sampler import GpuSampler
from astra_tui.gpu.nvml.summary import summarise

__all__ = [
    "EnergyMeter",
    "GpuReader",
    "GpuSampler",
    "NvmlRefusal",
    "energy_use",
    "gpu_health",
    "gpu_uuids",
    "summarise",
    "uuid_of",
]
