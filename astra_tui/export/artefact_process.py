"""The process in which an exported artefact runs; nothing of it runs anywhere else.

Started as `python -m astra_tui.export.artefact_process READ_FD WRITE_FD MODE PATH NAME GPU`. MODE
"plan" evaluates a package's launch plan without torch, "fake" its shapes without a GPU; "torch",
"cpp" and "tvm-ffi" run it on one. PATH is the package or the library, NAME the operator, GPU the
UUID of the only GPU to see, or empty.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import struct
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from astra_tui.processes.exit_with_parent import exit_with_parent
from astra_tui.processes.frames import FrameError, read_frame, write_frame

RED_ZONE = 4096
_RED = 0x5A

Message = dict[str, Any]
Handler = Callable[[Message], Message]


class NoGpu(Exception):
    """What runs on a GPU cannot run here."""


def main() -> None:
    """Opens the artefact, says hello, and answers one message a case."""
    read_fd, write_fd = int(sys.argv[1]), int(sys.argv[2])
    exit_with_parent(read_fd)
    mode, path, name, gpu = sys.argv[3:7]
    if gpu:  # Before anything that loads CUDA is imported.
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    try:
        handler = _MODES[mode](Path(path), name)
        hello: Message = {"ready": True}
    except NoGpu as reason:
        handler, hello = _answer_nothing, {"missing": str(reason)}
    except Exception as error:
        handler, hello = _answer_nothing, {"error": f"{type(error).__name__}: {error}"}
    write_frame(write_fd, hello)
    while True:
        try:
            message = read_frame(read_fd)
        except FrameError:
            return
        try:
            answer = handler(message)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        write_frame(write_fd, answer)


def _answer_nothing(message: Message) -> Message:
    del message
    return {"error": "the artefact could not be opened"}


# -- without a GPU ---------------------------------------------------------------------------------


def _open_plan(path: Path, name: str) -> Handler:
    """The generated plan as data; the package's __init__, which needs torch, is left out."""
    del name
    package = types.ModuleType(path.name)
    package.__path__ = [str(path)]
    sys.modules[path.name] = package
    host = importlib.import_module(f"{path.name}._host")
    plan = importlib.import_module(f"{path.name}._plan")
    contract = importlib.import_module(f"{path.name}._contract")

    def answer(message: Message) -> Message:
        dims, element = message["dims"], message["element"]
        layouts = {n: host.Layout(a, tuple(s)) for n, (a, s) in message["layouts"].items()}
        broken = contract.violated(element, **dims) or contract.misplaced(element, layouts, **dims)
        if broken:
            return {"refused": broken}
        try:
            found = plan.plan(
                T=element,
                **dims,
                _tensors=layouts,
                **message["scalars"],
                _device=message["device"],
            )
        except host.Refused as refusal:
            return {"refused": str(refusal)}
        except (host.PlanFault, ZeroDivisionError) as fault:
            return {"fault": str(fault)}
        launches = [
            [
                launch.kernel,
                launch.grid,
                launch.block,
                launch.shared,
                list(map(_plain, launch.args)),
                getattr(launch, "pdl", False),  # Only packages whose plans say so have these.
                getattr(launch, "cluster", (1, 1, 1)),
            ]
            for launch in found.launches
        ]
        return {"launches": launches, "workspaces": [w.size for w in found.workspaces]}

    def _plain(argument: Any) -> Any:
        if isinstance(argument, host.Struct):
            members = [[offset, dtype, _plain(v)] for offset, dtype, v in argument.members]
            return [argument.size, argument.alignment, members]
        return [argument.name, argument.distance] if isinstance(argument, host.Buffer) else argument

    return answer


def _open_fake(path: Path, name: str) -> Handler:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    module = _imported(path)

    def answer(message: Message) -> Message:
        with FakeTensorMode():
            tensors = [
                torch.empty(b["shape"], dtype=getattr(torch, b["dtype"]), device="cuda")
                for b in message["buffers"]
                if b["role"] != "out"
            ]
            made = getattr(module, name)(*tensors, *message["numbers"])
        outputs = () if made is None else (made,) if isinstance(made, torch.Tensor) else made
        return {"outputs": [[list(t.shape), str(t.dtype).removeprefix("torch.")] for t in outputs]}

    return answer


# -- on a GPU --------------------------------------------------------------------------------------


def _open_torch(path: Path, name: str) -> Handler:
    module = _imported(path)
    function = getattr(module, name)

    def run(message: Message, tensors: dict[str, Any]) -> str:
        inputs, outputs = _split(message, tensors)
        try:
            if message.get("compiled"):
                _run_compiled(function, inputs, message["numbers"], outputs)
            elif outputs:
                out = outputs[0] if len(outputs) == 1 else tuple(outputs)
                function(*inputs, *message["numbers"], out=out)
            else:
                function(*inputs, *message["numbers"])
        except ValueError as refusal:
            return str(refusal)
        return ""

    return _on_gpu(run)


def _run_compiled(function: Any, inputs: list[Any], numbers: list[Any], outputs: list[Any]) -> None:
    """Through torch.compile, without graph breaks, on new outputs that are then copied."""
    import torch

    made = torch.compile(function, fullgraph=True)(*inputs, *numbers)
    results = () if made is None else (made,) if isinstance(made, torch.Tensor) else made
    for target, result in zip(outputs, results, strict=True):
        target.copy_(result)


def _open_cpp(path: Path, name: str) -> Handler:
    import torch

    library = ctypes.CDLL(str(path))
    launch = getattr(library, f"{name}_launch")
    describe = getattr(library, f"{name}_message")
    describe.restype = ctypes.c_char_p

    def run(message: Message, tensors: dict[str, Any]) -> str:
        values = [
            tensors[field].data_ptr() if code == "P" else field for code, field in message["fields"]
        ]
        packed = struct.pack("@" + "".join(code for code, _ in message["fields"]), *values)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        status = launch(ctypes.c_char_p(packed), stream)
        return describe(status).decode() if status else ""

    return _on_gpu(run)


def _open_tvm_ffi(path: Path, name: str) -> Handler:
    import tvm_ffi

    function = getattr(tvm_ffi.load_module(str(path)), name)

    def run(message: Message, tensors: dict[str, Any]) -> str:
        ordered = [tensors[b["name"]] for b in message["buffers"]]
        try:
            function(*ordered, *message["numbers"])
        except (ValueError, RuntimeError) as refusal:
            return str(refusal) or "refused"
        return ""

    return _on_gpu(run)


def _on_gpu(run: Callable[[Message, dict[str, Any]], str]) -> Handler:
    import torch

    if not torch.cuda.is_available():
        raise NoGpu(f"torch {torch.__version__} sees no GPU")

    def answer(message: Message) -> Message:
        memory, tensors = {}, {}
        for buffer in message["buffers"]:
            memory[buffer["name"]], tensors[buffer["name"]] = _placed(buffer)
        refused = run(message, tensors)
        torch.cuda.synchronize()
        if refused:
            return {"refused": refused}
        contents, overrun = {}, []
        for buffer in message["buffers"]:
            whole = memory[buffer["name"]].cpu().numpy()
            begin = RED_ZONE + buffer["misalignment"]
            end = begin + len(buffer["content"])
            contents[buffer["name"]] = whole[begin:end].tobytes()
            if (whole[:begin] != _RED).any() or (whole[end:] != _RED).any():
                overrun.append(buffer["name"])
        return {"contents": contents, "overrun": overrun}

    return answer


def _placed(buffer: Message) -> tuple[Any, Any]:
    """Memory on the GPU with red zones, and the tensor in it."""
    import numpy as np
    import torch

    content = np.frombuffer(buffer["content"], np.uint8)
    begin = RED_ZONE + buffer["misalignment"]
    host = np.full(begin + content.size + RED_ZONE, _RED, np.uint8)
    host[begin : begin + content.size] = content
    memory = torch.from_numpy(host).cuda()
    dtype = getattr(torch, buffer["dtype"])
    elements = memory[begin : begin + content.size].view(dtype)
    return memory, elements.as_strided(buffer["shape"], buffer["strides"])


def _split(message: Message, tensors: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Tensors that are read, and those that are only written."""
    inputs = [tensors[b["name"]] for b in message["buffers"] if b["role"] != "out"]
    return inputs, [tensors[b["name"]] for b in message["buffers"] if b["role"] == "out"]


def _imported(path: Path) -> Any:
    sys.path.insert(0, str(path.parent))
    return importlib.import_module(path.name)


_MODES: dict[str, Callable[[Path, str], Handler]] = {
    "plan": _open_plan,
    "fake": _open_fake,
    "torch": _open_torch,
    "cpp": _open_cpp,
    "tvm-ffi": _open_tvm_ffi,
}

if __name__ == "__main__":
    main()
