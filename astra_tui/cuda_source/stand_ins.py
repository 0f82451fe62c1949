"""Stand-ins for the headers that NVRTC does not have, by the names under which they are included.

Kernels include them for a handful of names, and files that hold kernels with their launchers for
the names of the host side; with these they compile unchanged. The texts lie in `headers/`. What is
written out there is everyday and quick to read. Where CUDA's own C++ library (libcu++) has a header
that few kernels need, its stand-in takes that one over, which costs a second of compile time. What
only hosts use is declared and has no body: a kernel that calls it does not link. All of it can be
included together with libcu++ itself.
"""

from __future__ import annotations

from pathlib import Path

PRELUDE_NAME = "astra_tui_prelude.h"
"""What nvcc includes in every file by itself (through cuda_runtime.h), and NVRTC does not."""

EXTRA_NAME = "astra_tui_extra.h"
"""A header that one compilation may have of its own."""

LAUNCH_NAME = "astra_tui_launch_of_a_kernel"
"""Of the prelude: what is called in place of a launch in a header. It has no body."""

HEADERS = Path(__file__).with_name("headers")
"""The folder of the stand-ins, laid out as a folder of headers is."""

TORCH_NAME = "astra_tui_torch.h"

_OF_TORCH = tuple(
    f"{folder}/{name}"
    for folder, names in {
        "ATen": "ATen.h AccumulateType.h Dispatch.h NativeFunctions.h Functions.h OpMathType.h"
        " Tensor.h TensorUtils.h TensorAccessor.h core/Tensor.h core/TensorAccessor.h"
        " native/cuda/KernelUtils.cuh",
        "ATen/cuda": "Atomic.cuh CUDAApplyUtils.cuh CUDABlas.h CUDAContext.h CUDAContextLight.h"
        " CUDAUtils.h DeviceUtils.cuh Exceptions.h NumericLimits.cuh ThrustAllocator.h"
        " detail/IndexUtils.cuh detail/KernelUtils.h detail/TensorInfo.cuh",
        "THC": "THC.h THCAtomics.cuh THCDeviceUtils.cuh THCGeneral.h THCNumerics.cuh",
        "c10": "core/Device.h core/DeviceGuard.h core/ScalarType.h cuda/CUDAException.h"
        " cuda/CUDAFunctions.h cuda/CUDAGuard.h cuda/CUDAMathCompat.h cuda/CUDAStream.h"
        " macros/Macros.h util/ArrayRef.h util/BFloat16.h util/Exception.h util/Float8_e4m3fn.h"
        " util/Float8_e4m3fnuz.h util/Float8_e5m2.h util/Half.h util/Optional.h util/irange.h",
        "pybind11": "functional.h numpy.h pybind11.h stl.h",
        "torch": "all.h extension.h library.h python.h script.h torch.h types.h"
        " csrc/inductor/aoti_torch/c/shim.h serialize/tensor.h",
        "torch/csrc/stable": "accelerator.h library.h macros.h ops.h tensor.h",
        "torch/headeronly": "core/Dispatch.h core/ScalarType.h macros/Macros.h util/BFloat16.h"
        " util/Exception.h util/Float8_e4m3fn.h util/Float8_e4m3fnuz.h util/Float8_e5m2.h"
        " util/Half.h util/shim_utils.h",
    }.items()
    for name in names.split()
)
"""Headers of PyTorch and of what comes with it: one stand-in has the names of all."""


def _texts() -> dict[str, str]:
    files = sorted(file for file in HEADERS.rglob("*") if file.is_file())
    own = {file.relative_to(HEADERS).as_posix(): file.read_text() for file in files}
    return {**dict.fromkeys(_OF_TORCH, f"#include <{TORCH_NAME}>\n"), **own}


STAND_INS: dict[str, str] = _texts()
"""Header name to text. NVRTC refuses cub/cub.cuh itself for the sake of its host code."""
