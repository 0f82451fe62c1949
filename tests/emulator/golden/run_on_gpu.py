"""Runs a bundle on a GPU and saves the outputs. Needs NumPy and cuda-bindings only.

    python run_on_gpu.py FOLDER OUTPUT.npz [GROUP]

To record memory counters, run it under ncu with one group and keep the order of launches.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver

_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0
"""CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END of cuda.h."""


def call(result: tuple[Any, ...]) -> Any:
    """The value of a driver call. Raises RuntimeError for an error."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(status))
    return values[0] if len(values) == 1 else None


def launch(function: Any, described: dict[str, Any], addresses: dict[str, int]) -> None:
    """Launches with one packed parameter buffer."""
    packed = bytearray.fromhex(described["parameters"])
    for offset, name in described["pointers"]:
        packed[offset : offset + 8] = addresses[name].to_bytes(8, "little")
    data = ctypes.create_string_buffer(bytes(packed), len(packed))
    size = ctypes.c_size_t(len(packed))
    extra = (ctypes.c_void_p * 5)(
        _BUFFER_POINTER, ctypes.addressof(data), _BUFFER_SIZE, ctypes.addressof(size), _END
    )
    if described["shared"] > 48 * 1024:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(driver.cuFuncSetAttribute(function, attribute, described["shared"]))
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = described["grid"]
    config.blockDimX, config.blockDimY, config.blockDimZ = described["block"]
    config.sharedMemBytes = described["shared"]
    config.attrs = cluster_attributes(described["cluster"])
    config.numAttrs = len(config.attrs)
    call(driver.cuLaunchKernelEx(config, function, 0, ctypes.addressof(extra)))
    call(driver.cuCtxSynchronize())


def cluster_attributes(sizes: list[int]) -> list[Any]:
    """What a launch in clusters asks for; nothing for single blocks."""
    if sizes == [1, 1, 1]:
        return []
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    value = driver.CUlaunchAttributeValue()
    value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = sizes
    attribute.value = value
    return [attribute]


def main() -> None:
    """Runs every case of the bundle, or of one group."""
    folder, output = Path(sys.argv[1]), sys.argv[2]
    group = sys.argv[3] if len(sys.argv) > 3 else ""
    call(driver.cuInit(0))
    device = call(driver.cuDeviceGet(0))
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(device))))
    buffers = np.load(folder / "buffers.npz")
    modules: dict[str, Any] = {}
    results: dict[str, Any] = {}
    for case in json.loads((folder / "bundle.json").read_text()):
        if group and case["group"] != group:
            continue
        if group:
            print(case["name"], flush=True)  # One that never ends is the last.
        if case["cubin"] not in modules:
            data = (folder / f"{case['cubin']}.cubin").read_bytes()
            modules[case["cubin"]] = call(driver.cuModuleLoadData(data))
        addresses, contents = {}, {}
        for name, key in case["buffers"].items():
            contents[name] = np.ascontiguousarray(buffers[key])
            addresses[name] = int(call(driver.cuMemAlloc(max(contents[name].nbytes, 256))))
            call(
                driver.cuMemcpyHtoD(
                    addresses[name], contents[name].ctypes.data, contents[name].nbytes
                )
            )
        for described in case["launches"]:
            symbol = described["symbol"].encode()
            function = call(driver.cuModuleGetFunction(modules[case["cubin"]], symbol))
            launch(function, described, addresses)
        for name in case["outputs"]:
            out = np.empty_like(contents[name])
            call(driver.cuMemcpyDtoH(out.ctypes.data, addresses[name], out.nbytes))
            results[f"{case['name']}/{name}"] = out
        for address in addresses.values():
            call(driver.cuMemFree(address))
    np.savez_compressed(output, **results)
    print(f"{len(results)} outputs")


if __name__ == "__main__":
    main()
