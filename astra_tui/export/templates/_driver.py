"""Loads compiled kernels through the CUDA driver and launches them; nothing is compiled here."""

from __future__ import annotations

import ctypes
import json
import math
import struct
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ._host import Buffer, PlanFault, Refused, Struct
from ._host import Launch as Wanted

_ATTRIBUTES = {
    "sm_count": 16,
    "warp_size": 10,
    "max_threads_per_block": 1,
    "max_threads_per_sm": 39,
    "max_shared_memory_per_block": 97,
    "max_shared_memory_per_sm": 81,
    "l2_cache_bytes": 38,
}
"""Numbers of CUdevice_attribute, by the names that launch plans use."""

_MAJOR, _MINOR = 75, 76
_MAX_DYNAMIC_SHARED = 8
_BUFFER_POINTER, _BUFFER_SIZE = 1, 2
_INVALID_CONTEXT = 201
_INTEGERS = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
}  # fmt: skip
_FLOATS = {"float16": "e", "float32": "f", "float64": "d"}
# <attributes>
_FIRST_MAJOR_WITH_PDL = 9
_CLUSTER_DIMENSION, _STREAM_SERIALIZATION = 4, 6
_NON_PORTABLE_CLUSTER, _PORTABLE_BLOCKS = 14, 8
# </attributes>


class DriverError(RuntimeError):
    """The CUDA driver refused something."""


class Launch:
    """A launch that is ready but for its pointers and its stream.

    `pointers` says to which word of the parameters, in units of 8 bytes, which address of a call
    is added.
    Several threads may launch at a time: each fills memory that no other uses meanwhile.
    """

    def __init__(
        self,
        ordinal: int,
        wanted: Wanted,
        function: ctypes.c_void_p,
        parameters: bytes,
        pointers: tuple[tuple[int, int], ...],
    ):
        self.sizes = (*wanted.grid, *wanted.block, wanted.shared)
        self.parameters = parameters
        words = struct.iter_unpack("<q", parameters[: len(parameters) // 8 * 8])
        distances = [word for (word,) in words]
        self.pointers = tuple((w, place, distances[w]) for w, place in pointers)
        self._ordinal = ordinal
        self._function = function
        self._launch = _library().cuLaunchKernel
        # <attributes>
        self._attributes = _launch_attributes(wanted, ordinal)
        if self._attributes:
            self._launch = _library().cuLaunchKernelEx
        # </attributes>
        self._free: list[_Filled] = []

    def __call__(self, addresses: Sequence[int], stream: int) -> None:
        """Launches on a stream of the current device."""
        try:
            filled = self._free.pop()
        except IndexError:
            # <plain>
            filled = _Filled(self._function, self.sizes, self.parameters)
            # </plain>
            # <attributes>
            filled = (
                _FilledWith(self._function, self.sizes, self.parameters, self._attributes)
                if self._attributes
                else _Filled(self._function, self.sizes, self.parameters)
            )
            # </attributes>
        for word, place, distance in self.pointers:
            filled.words[word] = addresses[place] + distance
        filled.stream.value = stream
        status = self._launch(*filled.arguments)
        if status == _INVALID_CONTEXT:  # A thread in which PyTorch has not used the device yet.
            make_current(self._ordinal)
            status = self._launch(*filled.arguments)
        _require("cuLaunchKernel", status)
        self._free.append(filled)  # The driver has copied the parameters.


class _Filled:
    """Memory for the arguments of one launch at a time."""

    def __init__(self, function: ctypes.c_void_p, sizes: tuple[int, ...], parameters: bytes):
        self.words = (ctypes.c_uint64 * -(-len(parameters) // 8))()
        ctypes.memmove(self.words, parameters, len(parameters))
        self.stream = ctypes.c_void_p()
        self._size = ctypes.c_size_t(len(parameters))
        packed = ctypes.addressof(self.words)
        extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER, packed, _BUFFER_SIZE, ctypes.addressof(self._size), None
        )
        self.arguments = (function, *sizes, self.stream, None, extra)


# <attributes>
class _LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute, whose value is a union of 64 bytes."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("value", ctypes.c_uint * 3),
        ("rest", ctypes.c_char * 52),
    )


class _LaunchConfig(ctypes.Structure):
    """CUlaunchConfig: sizes of grid and block, dynamic shared memory, stream, attributes."""

    _fields_ = (
        ("sizes", ctypes.c_uint * 7),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("count", ctypes.c_uint),
    )


def _launch_attributes(wanted: Wanted, ordinal: int) -> tuple[_LaunchAttribute, ...]:
    """What a launch asks for beyond its sizes, as far as the device has it."""
    found = []
    if wanted.pdl and _attribute(ordinal, _MAJOR) >= _FIRST_MAJOR_WITH_PDL:
        found.append(_LaunchAttribute(id=_STREAM_SERIALIZATION, value=(1, 0, 0)))
    if wanted.cluster != (1, 1, 1):
        found.append(_LaunchAttribute(id=_CLUSTER_DIMENSION, value=wanted.cluster))
    return tuple(found)


class _FilledWith(_Filled):
    """The same for a launch with attributes."""

    def __init__(
        self,
        function: ctypes.c_void_p,
        sizes: tuple[int, ...],
        parameters: bytes,
        attributes: tuple[_LaunchAttribute, ...],
    ):
        super().__init__(function, sizes, parameters)
        self._attributes = (_LaunchAttribute * len(attributes))(*attributes)
        config = _LaunchConfig(sizes, None, self._attributes, len(attributes))
        self.stream = ctypes.c_void_p.from_buffer(config, _LaunchConfig.stream.offset)
        *_, extra = self.arguments
        self.arguments = (ctypes.byref(config), function, None, extra)  # type: ignore[assignment]


# </attributes>
class Kernels:
    """The kernels of a package: cubins in its folder, signatures in its manifest."""

    def __init__(self, folder: Path):
        self._folder = folder
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self._signatures: dict[str, Any] = manifest["kernels"]
        self._archs: list[str] = manifest["archs"]
        self._modules: dict[int, ctypes.c_void_p] = {}
        self._functions: dict[tuple[int, str], ctypes.c_void_p] = {}
        self._shared: dict[tuple[int, str], int] = {}
        self._lock = threading.Lock()

    def prepare(
        self, wanted: Sequence[Wanted], order: Sequence[str], ordinal: int
    ) -> tuple[Launch, ...]:
        """Makes launches ready for a device, with addresses to come in the order of their names.

        Raises Refused for a kernel that was not compiled.
        """
        make_current(ordinal)
        with self._lock:
            return tuple(self._prepare(each, order, ordinal) for each in wanted)

    def load(self, ordinal: int) -> None:
        """Loads the kernels for a device. Raises Refused where there is no code for it."""
        make_current(ordinal)
        with self._lock:
            self._module(ordinal)

    def loaded(self, ordinal: int) -> bool:
        """Whether the kernels are loaded for a device."""
        return ordinal in self._modules

    def _prepare(self, wanted: Wanted, order: Sequence[str], ordinal: int) -> Launch:
        signature = self._signatures.get(wanted.kernel)
        if signature is None:
            raise Refused(f"{wanted.kernel} is not among the compiled kernels")
        function = self._function(wanted.kernel, signature["symbol"], ordinal)
        if wanted.shared > self._shared.get((ordinal, wanted.kernel), 0):
            _call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, wanted.shared)
            self._shared[(ordinal, wanted.kernel)] = wanted.shared
        # <attributes>
        if math.prod(wanted.cluster) > _PORTABLE_BLOCKS:
            _call("cuFuncSetAttribute", function, _NON_PORTABLE_CLUSTER, 1)
        # </attributes>
        packed = bytearray(signature["bytes"])
        pointers = []
        for argument, parameter in zip(wanted.args, signature["parameters"], strict=True):
            members = (
                argument.members
                if isinstance(argument, Struct)
                else ((0, parameter["dtype"], argument),)
            )
            for place, dtype, value in members:
                offset = parameter["offset"] + place
                if isinstance(value, Buffer):
                    struct.pack_into("<q", packed, offset, value.distance)
                    pointers.append((offset // 8, order.index(value.name)))
                elif value is not None:
                    _pack(packed, offset, dtype, value)
        return Launch(ordinal, wanted, function, bytes(packed), tuple(pointers))

    def _function(self, kernel: str, symbol: str, ordinal: int) -> ctypes.c_void_p:
        key = (ordinal, kernel)
        if key not in self._functions:
            function = ctypes.c_void_p()
            module = self._module(ordinal)
            _call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
            self._functions[key] = function
        return self._functions[key]

    def _module(self, ordinal: int) -> ctypes.c_void_p:
        if ordinal not in self._modules:
            arch = choose_arch(self._archs, *_capability(ordinal))
            cubin = (self._folder / f"{arch}.cubin").read_bytes()
            module = ctypes.c_void_p()
            _call("cuModuleLoadData", ctypes.byref(module), cubin)
            self._modules[ordinal] = module
        return self._modules[ordinal]


def choose_arch(archs: Sequence[str], major: int, minor: int) -> str:
    """The best of some architectures for a device; a cubin runs on later minors of its major."""
    exact = [f"sm_{major}{minor}a", *(f"sm_{major}{m}" for m in range(minor, -1, -1))]
    for arch in exact:
        if arch in archs:
            return arch
    raise Refused(f"there is no code for compute capability {major}.{minor} (only {archs})")


@cache
def attributes(ordinal: int) -> dict[str, int]:
    """What launch plans may ask about a device."""
    return {name: _attribute(ordinal, number) for name, number in _ATTRIBUTES.items()}


def make_current(ordinal: int) -> None:
    """Makes the device's primary context current in this thread, where none is."""
    context = ctypes.c_void_p()
    _call("cuCtxGetCurrent", ctypes.byref(context))
    if not context.value:
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), _device(ordinal))
        _call("cuCtxSetCurrent", context)


def _capability(ordinal: int) -> tuple[int, int]:
    return _attribute(ordinal, _MAJOR), _attribute(ordinal, _MINOR)


def _attribute(ordinal: int, number: int) -> int:
    value = ctypes.c_int()
    _call("cuDeviceGetAttribute", ctypes.byref(value), number, _device(ordinal))
    return value.value


def _device(ordinal: int) -> int:
    device = ctypes.c_int()
    _call("cuDeviceGet", ctypes.byref(device), ordinal)
    return device.value


def _pack(packed: bytearray, offset: int, dtype: str, value: float) -> None:
    """Puts a number into a parameter buffer. Raises PlanFault where it does not fit."""
    if dtype == "bfloat16":
        struct.pack_into("<H", packed, offset, _bfloat16(float(value)))
    elif dtype in _FLOATS:
        struct.pack_into("<" + _FLOATS[dtype], packed, offset, _representable(value, dtype))
    elif dtype == "bool" and value not in (0, 1):
        raise PlanFault(f"{value} does not fit in {dtype}")
    else:
        try:
            struct.pack_into("<" + _INTEGERS[dtype], packed, offset, value)
        except struct.error:
            raise PlanFault(f"{value} does not fit in {dtype}") from None


def _representable(value: float, dtype: str) -> float:
    """The number, or an infinity where the type has none so large."""
    try:
        struct.pack("<" + _FLOATS[dtype], float(value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(value)


def _bfloat16(value: float) -> int:
    """The bits of a number rounded once to bfloat16, ties to even."""
    if value != value:
        return 0x7FC0
    single = struct.pack("<f", _representable(value, "float32"))
    (bits,), (near,) = struct.unpack("<I", single), struct.unpack("<f", single)
    if bits & 0xFFFF == 0x8000:  # A tie is decided by what float32 has lost.
        bits += (abs(value) > abs(near)) - (abs(value) < abs(near))
    return int((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


@cache
def _library() -> Any:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(f"no CUDA driver: {error}") from None
    if library.cuInit(0):
        raise DriverError("cuInit failed")
    return library


def _call(name: str, *arguments: Any) -> None:
    _require(name, getattr(_library(), name)(*arguments))


def _require(name: str, status: int) -> None:
    if status:
        text = ctypes.c_char_p()
        _library().cuGetErrorString(status, ctypes.byref(text))
        raise DriverError(f"{name}: {(text.value or b'unknown error').decode()} ({status})")
