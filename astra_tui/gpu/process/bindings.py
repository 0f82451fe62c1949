"""The driver through cuda-bindings. Import it only in a process that is to hold a context."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from cuda.bindings import driver as cuda

from astra_tui.gpu.messages import DeviceFacts, Node
from astra_tui.gpu.nvml import uuid_of
from astra_tui.gpu.process.driver import DriverError, Launch
from astra_tui.model.occupancy import NO_CLUSTER, PORTABLE_CLUSTER

_ATTRIBUTES = {
    "sm_count": "MULTIPROCESSOR_COUNT",
    "warp_size": "WARP_SIZE",
    "max_threads_per_block": "MAX_THREADS_PER_BLOCK",
    "max_threads_per_sm": "MAX_THREADS_PER_MULTIPROCESSOR",
    "max_shared_memory_per_block": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "max_shared_memory_per_sm": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "l2_cache_bytes": "L2_CACHE_SIZE",
}
_IDS = cuda.CUlaunchAttributeID
_STATIC_LIMIT = 48 * 1024
"""Dynamic shared memory that a kernel may use without being allowed to."""

# The `extra` array of cuLaunchKernel: one packed parameter buffer with its size.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0


class CudaDriver:
    """One device of this machine."""

    def __init__(self) -> None:
        _call("cuInit", 0)
        self._stream: Any = None
        self._graphs: dict[int, tuple[Any, list[Any]]] = {}
        """By the handle of what runs: the graph that it was made from, with its nodes in order."""

    def devices(self) -> list[DeviceFacts]:
        """All devices that this process may use."""
        return [_facts(ordinal) for ordinal in range(_call("cuDeviceGetCount"))]

    def open(self, ordinal: int) -> None:
        """Makes the device's context current and opens a stream that does not block."""
        device = _call("cuDeviceGet", ordinal)
        _call("cuCtxSetCurrent", _call("cuDevicePrimaryCtxRetain", device))
        # A persisting part of L2 left over from another process would make cold launches warm.
        _call("cuCtxSetLimit", cuda.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0)
        self._stream = _call("cuStreamCreate", int(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def load(self, cubin: bytes) -> int:
        """Loads a module."""
        return int(_call("cuModuleLoadData", cubin))

    def unload(self, module: int) -> None:
        """Forgets a module and its kernels."""
        _call("cuModuleUnload", cuda.CUmodule(module))

    def function(self, module: int, symbol: str, shared_bytes: int) -> int:
        """A kernel of a module, allowed to use that much dynamic shared memory."""
        found = _call("cuModuleGetFunction", cuda.CUmodule(module), symbol.encode())
        if shared_bytes > _STATIC_LIMIT:
            limit = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _call("cuFuncSetAttribute", found, limit, shared_bytes)
        return int(found)

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        """Blocks of a kernel that one multiprocessor holds at once."""
        kernel = cuda.CUfunction(function)
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return int(_call(name, kernel, threads, shared_bytes))

    def allocate(self, size: int) -> int:
        """Device memory; addresses are multiples of 256."""
        return int(_call("cuMemAlloc", max(size, 1)))

    def free(self, address: int) -> None:
        """Gives memory back."""
        _call("cuMemFree", address)

    def free_memory(self) -> int:
        """Bytes of device memory that can be allocated."""
        return int(_call("cuMemGetInfo")[0])

    def upload(self, address: int, data: Any) -> None:
        """Copies a contiguous uint8 array to the device, in stream order."""
        if data.size:
            _call("cuMemcpyHtoDAsync", address, data.ctypes.data, data.size, self._stream)
            # Pageable memory may still be read after the call, and the array may go.
            self.wait()

    def download(self, address: int, size: int) -> Any:
        """Copies from the device into a new uint8 array, after all work of the stream."""
        data = np.empty(size, np.uint8)
        if size:
            _call("cuMemcpyDtoHAsync", data.ctypes.data, address, size, self._stream)
        self.wait()
        return data

    def download_into(self, address: int, target: Any) -> None:
        """Copies from the device into a uint8 array, in stream order; it is there after `wait`."""
        if target.size:
            _call("cuMemcpyDtoHAsync", target.ctypes.data, address, target.size, self._stream)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copies within the device, in stream order."""
        if size:
            _call("cuMemcpyDtoDAsync", target, source, size, self._stream)

    def fill(self, address: int, byte: int, size: int) -> None:
        """Sets bytes, in stream order."""
        if size:
            _call("cuMemsetD8Async", address, byte, size, self._stream)

    def launch(self, launch: Launch) -> None:
        """Runs a kernel, in stream order."""
        packed = _Packed(launch.parameters)
        if launch.pdl or launch.cluster != NO_CLUSTER:
            config = _launch_config(launch, self._stream)
            _call("cuLaunchKernelEx", config, cuda.CUfunction(launch.function), 0, packed.address)
            return
        _call(
            "cuLaunchKernel",
            cuda.CUfunction(launch.function),
            *launch.grid,
            *launch.block,
            launch.shared_bytes,
            self._stream,
            0,
            packed.address,
        )

    def build_graph(self, launches: list[Launch]) -> int:
        """A graph in which every launch waits for the one before, ready to run."""
        graph = _call("cuGraphCreate", 0)
        try:
            nodes: list[Any] = []
            for launch in launches:
                packed = _Packed(launch.parameters)
                before = nodes[-1:] if not launch.pdl else []
                node = _node_parameters(launch, packed)
                nodes.append(_call("cuGraphAddKernelNode", graph, before, len(before), node))
                if launch.cluster != NO_CLUSTER:
                    _set_cluster(nodes[-1], launch)
                if launch.pdl and len(nodes) > 1:
                    edge = _programmatic_edge()
                    _call("cuGraphAddDependencies", graph, nodes[-2:-1], nodes[-1:], [edge], 1)
            made = int(_call("cuGraphInstantiate", graph, 0))
        except BaseException:
            _call("cuGraphDestroy", graph)
            raise
        self._graphs[made] = graph, nodes
        return made

    def graph_nodes(self, graph: int) -> list[Node]:
        """The kernels that a graph runs, in order. Raises DriverError for any other node."""
        made_from, nodes = self._graphs[graph]
        count = int(_call("cuGraphGetNodes", made_from, 0)[1])
        if count != len(nodes):
            raise DriverError(0, f"{count} nodes of {len(nodes)}", "cuGraphGetNodes")
        names: dict[int, str] = {}
        dependent = _dependent_nodes(made_from, len(nodes))
        return [_node(node, names, int(node) in dependent) for node in nodes]

    def run_graph(self, graph: int) -> None:
        """Runs a graph, in stream order."""
        _call("cuGraphLaunch", cuda.CUgraphExec(graph), self._stream)

    def free_graph(self, graph: int) -> None:
        """Forgets a graph."""
        _call("cuGraphExecDestroy", cuda.CUgraphExec(graph))
        _call("cuGraphDestroy", self._graphs.pop(graph)[0])

    def event(self) -> int:
        """An event that can be timed."""
        return int(_call("cuEventCreate", 0))

    def free_event(self, event: int) -> None:
        """Forgets an event."""
        _call("cuEventDestroy", cuda.CUevent(event))

    def record(self, event: int) -> None:
        """Marks the point that the stream has reached."""
        _call("cuEventRecord", cuda.CUevent(event), self._stream)

    def elapsed(self, start: int, end: int) -> float:
        """Microseconds between two events, once the second has happened; waits for it."""
        _call("cuEventSynchronize", cuda.CUevent(end))
        return 1000.0 * float(_call("cuEventElapsedTime", cuda.CUevent(start), cuda.CUevent(end)))

    def wait(self) -> None:
        """Waits for all work of the stream."""
        _call("cuStreamSynchronize", self._stream)


class _Packed:
    """A parameter buffer as the driver's `extra` wants it; it has to live until the call."""

    def __init__(self, parameters: bytes):
        self._buffer = ctypes.create_string_buffer(parameters, max(len(parameters), 1))
        self._size = ctypes.c_size_t(len(parameters))
        self._extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER,
            ctypes.addressof(self._buffer),
            _BUFFER_SIZE,
            ctypes.addressof(self._size),
            _END,
        )
        self.address = ctypes.addressof(self._extra)


def _node_parameters(launch: Launch, packed: _Packed) -> Any:
    node = cuda.CUDA_KERNEL_NODE_PARAMS()
    node.func = cuda.CUfunction(launch.function)
    node.gridDimX, node.gridDimY, node.gridDimZ = launch.grid
    node.blockDimX, node.blockDimY, node.blockDimZ = launch.block
    node.sharedMemBytes = launch.shared_bytes
    node.kernelParams = 0
    node.extra = packed.address
    return node


def _launch_config(launch: Launch, stream: Any) -> Any:
    """A launch with attributes, as the driver wants it."""
    attributes = []
    if launch.pdl:
        attribute = cuda.CUlaunchAttribute()
        attribute.id = _IDS.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        value = cuda.CUlaunchAttributeValue()
        value.programmaticStreamSerializationAllowed = 1
        attribute.value = value
        attributes.append(attribute)
    if launch.cluster != NO_CLUSTER:
        _allow_cluster(launch)
        attribute = cuda.CUlaunchAttribute()
        attribute.id = _IDS.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value = _cluster_value(launch)
        attributes.append(attribute)
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
    config.sharedMemBytes = launch.shared_bytes
    config.hStream = stream
    config.attrs = attributes
    config.numAttrs = len(attributes)
    return config


def _cluster_value(launch: Launch) -> Any:
    """For a launch and for a node of a graph, which takes no value of the plainer type."""
    value = cuda.CUkernelNodeAttrValue()
    value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = launch.cluster
    return value


def _allow_cluster(launch: Launch) -> None:
    """Lets a kernel have clusters that not every GPU with clusters takes."""
    if math.prod(launch.cluster) > PORTABLE_CLUSTER:
        name = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        _call("cuFuncSetAttribute", cuda.CUfunction(launch.function), name, 1)


def _set_cluster(node: Any, launch: Launch) -> None:
    _allow_cluster(launch)
    name = _IDS.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    _call("cuGraphKernelNodeSetAttribute", node, name, _cluster_value(launch))


def _cluster_of(node: Any) -> tuple[int, int, int]:
    """The clusters of a graph's node; the driver says zeros of one without."""
    name = _IDS.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    found = _call("cuGraphKernelNodeGetAttribute", node, name).clusterDim
    return max(found.x, 1), max(found.y, 1), max(found.z, 1)


def _programmatic_edge() -> Any:
    """As stream capture makes it of a launch with the attribute."""
    edge = cuda.CUgraphEdgeData()
    edge.from_port = cuda.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
    edge.type = cuda.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.value
    return edge


class _EdgeData(ctypes.Structure):
    """CUgraphEdgeData of cuda.h."""

    _fields_ = (
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("type", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 5),
    )


def _dependent_nodes(graph: Any, nodes: int) -> set[int]:
    """The nodes that may begin before the one before them has ended. Raises DriverError.

    The bindings give edge data that they have freed by then (13.0.3): the driver is asked itself.
    """
    if not nodes:
        return set()
    count = ctypes.c_size_t(nodes)
    sources, targets = (ctypes.c_void_p * nodes)(), (ctypes.c_void_p * nodes)()
    data = (_EdgeData * nodes)()
    library = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_void_p(int(graph))
    code = library.cuGraphGetEdges_v2(handle, sources, targets, data, ctypes.byref(count))
    if code or count.value != nodes - 1:
        raise DriverError(code, f"{count.value} edges of {nodes - 1}", "cuGraphGetEdges")
    programmatic = cuda.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.value
    return {int(targets[i] or 0) for i in range(count.value) if data[i].type == programmatic}


def _node(node: Any, names: dict[int, str], pdl: bool) -> Node:
    """`names` remembers kernels: a graph has thousands of nodes and few kernels."""
    found = _call("cuGraphKernelNodeGetParams", node)
    function = int(found.func)
    if function not in names:
        names[function] = _call("cuFuncGetName", found.func).decode()
    return Node(
        names[function],
        (found.gridDimX, found.gridDimY, found.gridDimZ),
        (found.blockDimX, found.blockDimY, found.blockDimZ),
        found.sharedMemBytes,
        pdl,
        _cluster_of(node),
    )


def _facts(ordinal: int) -> DeviceFacts:
    device = _call("cuDeviceGet", ordinal)

    def attribute(name: str) -> int:
        key = getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_call("cuDeviceGetAttribute", key, device))

    return DeviceFacts(
        ordinal=ordinal,
        name=_call("cuDeviceGetName", 128, device).split(b"\0")[0].decode(errors="replace"),
        uuid=uuid_of(bytes(_call("cuDeviceGetUuid", device).bytes)),
        pci=_call("cuDeviceGetPCIBusId", 32, device).split(b"\0")[0].decode(errors="replace"),
        capability=(
            attribute("COMPUTE_CAPABILITY_MAJOR"),
            attribute("COMPUTE_CAPABILITY_MINOR"),
        ),
        driver=int(_call("cuDriverGetVersion")),
        memory=int(_call("cuDeviceTotalMem", device)),
        attributes={ours: attribute(theirs) for ours, theirs in _ATTRIBUTES.items()},
        # Kilohertz of a memory that transfers twice a clock; bits.
        peak_bytes_per_us=attribute("MEMORY_CLOCK_RATE")
        * attribute("GLOBAL_MEMORY_BUS_WIDTH")
        / 4000,
    )


def _call(name: str, *arguments: Any) -> Any:
    """Calls the driver; what it returns besides the error code. Raises DriverError."""
    code, *values = getattr(cuda, name)(*arguments)
    if code != cuda.CUresult.CUDA_SUCCESS:
        text = cuda.cuGetErrorName(code)[1]
        known = text.decode() if isinstance(text, bytes) else str(code)
        raise DriverError(int(code), known, name)
    if len(values) == 1:
        return values[0]
    return tuple(values) if values else None
