"""NVML: what the GPU is, how it does, who else uses it. Loads pynvml when a reader is opened."""

from astra_tui.gpu.nvml.library import NvmlRefusal
from astra_tui.gpu.nvml.reader import GpuReader, gpu_uuids, uuid_of
from astra_tui.gpu.nvml.sampler import EnergyMeter, GpuSampler, energy_use, gpu_health, summarise

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
