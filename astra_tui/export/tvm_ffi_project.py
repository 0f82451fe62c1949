"""The C++ launcher behind TVM-FFI's C ABI: a module that takes DLPack tensors."""

from __future__ import annotations

from collections.abc import Iterator

from astra_tui.export.artefact import Files, Subject
from astra_tui.export.cpp_expression import CppExpressions, cpp_name
from astra_tui.export.cpp_project import cpp_project
from astra_tui.export.header import comment, header_lines
from astra_tui.model.dtypes import DType, NumberKind
from astra_tui.model.launch.expression import Expression
from astra_tui.model.task import Argument, KernelTask
from astra_tui.model.task.dims import DimSource, dim_sources


def tvm_ffi_project(subject: Subject) -> Files:
    """The files of the C++ project and the module's entry."""
    task = subject.task
    mark = comment(header_lines(subject.winner, f"{task.name}: the TVM-FFI entry."), "//")
    return {**cpp_project(subject), f"{task.name}_tvm_ffi.cc": mark + _module(subject)}


def _module(subject: Subject) -> str:
    task = subject.task
    name = task.name
    flags = " ".join((subject.standard, "-O3 -arch=native", *subject.nvcc_flags))
    sources = dim_sources(task, task.tensors)
    passed = [d for d in task.dims if d not in sources]
    parameters = [f"tvm::ffi::TensorView {_view(a)}" for a in task.tensors]
    parameters += [
        f"{'double' if a.dtype is None or a.dtype.is_float else 'int64_t'} {cpp_name(a.name)}"
        for a in task.scalars
    ]
    parameters += [f"int64_t {cpp_name(d)}" for d in passed]
    body = "\n".join(f"  {line}" for line in _body(task, sources))
    return f"""// Build: nvcc {flags} -shared -Xcompiler -fPIC
//   $(tvm-ffi-config --cxxflags) {name}.cu {name}_tvm_ffi.cc
//   $(tvm-ffi-config --ldflags) $(tvm-ffi-config --libs) -o {name}.so
// Use: tvm_ffi.load_module("{name}.so").{name}({", ".join(task.args)})
#include <cuda_runtime_api.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <vector>

#include "astra_host.hpp"
#include "{name}.h"

namespace {{

void check(bool holds, const char* problem) {{
  if (!holds) TVM_FFI_THROW(ValueError) << "{name}: " << problem;
}}

bool is_type(const tvm::ffi::TensorView& tensor, int code, int bits) {{
  const DLDataType type = tensor.dtype();
  return type.code == code && type.bits == bits && type.lanes == 1;
}}

bool has_shape(const tvm::ffi::TensorView& tensor, const std::vector<astra::Int>& shape) {{
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {{
    if (shape[axis] != tensor.size(static_cast<int64_t>(axis))) return false;
  }}
  return true;
}}

void* address(const tvm::ffi::TensorView& tensor) {{
  return static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset();
}}

// The strides in elements; a tensor without any is contiguous.
[[maybe_unused]] void copy_strides(const tvm::ffi::TensorView& tensor, int64_t* strides) {{
  int64_t step = 1;
  const bool packed = tensor.IsContiguous();
  for (int axis = tensor.ndim() - 1; axis >= 0; --axis) {{
    strides[axis] = packed ? step : tensor.stride(axis);
    step *= tensor.size(axis);
  }}
}}

// Makes a device current for as long as it lives.
class OnDevice {{
 public:
  explicit OnDevice(int ordinal) {{
    check(cudaGetDevice(&before_) == cudaSuccess, "CUDA does not answer");
    check(cudaSetDevice(ordinal) == cudaSuccess, "the device cannot be used");
  }}
  ~OnDevice() {{ cudaSetDevice(before_); }}
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
}};

void run({", ".join(parameters)}) try {{
{body}
}} catch (const astra::Fault&) {{
  check(false, "the shapes do not fit");
}}

}}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, run);
"""


def _body(task: KernelTask, sources: dict[str, DimSource]) -> Iterator[str]:
    first = _view(task.tensors[0])
    yield f"{task.name}_arguments a{{}};"
    for argument in task.tensors:
        view, name = _view(argument), argument.name
        yield f'check({view}.device().device_type == kDLCUDA, "{name} is not on a GPU");'
        yield f"check({view}.device().device_id == {first}.device().device_id,"
        yield '      "the tensors are on different devices");'
        yield f'check({view}.ndim() == {len(argument.shape)}, "{name} has another rank");'
    yield from _dtype(task)
    yield from _dims(task, sources)
    for element in task.dtypes:
        yield f"if (a.dtype == {task.name.upper()}_{element.name}) {{"
        for argument in task.tensors:
            yield from (f"  {line}" for line in _checks(task, argument, element))
        yield "}"
    for argument in task.tensors:
        yield from _pointer(argument)
    for scalar in task.scalars:
        yield f"a.{cpp_name(scalar.name)} = {cpp_name(scalar.name)};"
    yield f"const int ordinal = {first}.device().device_id;"
    yield "const OnDevice guard(ordinal);"
    yield "auto* stream = static_cast<CUstream_st*>(TVMFFIEnvGetStream(kDLCUDA, ordinal));"
    yield f"const int status = {task.name}_launch(&a, stream);"
    yield f"check(status == 0, {task.name}_message(status));"


def _dtype(task: KernelTask) -> Iterator[str]:
    """Finds T in the first tensor of that type."""
    first = next((a for a in task.tensors if a.dtype is None), None)
    for dtype in task.dtypes:
        test = "true" if first is None else _is_type(_view(first), dtype)
        yield f"if ({test}) a.dtype = {task.name.upper()}_{dtype.name};"
    yield 'check(a.dtype != 0, "this element type was not compiled");'


def _dims(task: KernelTask, sources: dict[str, DimSource]) -> Iterator[str]:
    cpp = CppExpressions(task.dtypes[0])
    for dim in task.dims:
        name = cpp_name(dim)
        source = sources.get(dim)
        if source is not None:
            view = f"{cpp_name(source.tensor)}_view"
            yield f"const astra::Int {cpp_name(source.size)} = {view}.size({source.axis});"
            yield f"const int64_t {name} = astra::Int({cpp.write(source.value)}).value;"
        yield f"a.{name} = {name};"


def _checks(task: KernelTask, argument: Argument, element: DType) -> Iterator[str]:
    view, name = _view(argument), argument.name
    dtype = task.dtype_of(argument, element)
    yield f'check({_is_type(view, dtype)}, "{name} is not {dtype.value}");'
    cpp = CppExpressions(element)
    shape = ", ".join(_whole(cpp, size) for size in argument.shape)
    yield f'check(has_shape({view}, {{{shape}}}), "{name} has another shape");'


def _whole(cpp: CppExpressions, size: Expression) -> str:
    return f"astra::Int({cpp.write(size)})"


def _pointer(argument: Argument) -> Iterator[str]:
    view, name = _view(argument), cpp_name(argument.name)
    yield f"a.{name} = address({view});"
    if argument.strided and len(argument.shape) > 1:
        yield f"copy_strides({view}, a.{name}_strides);"
    else:
        yield f'check({view}.IsContiguous(), "{argument.name} is not contiguous");'


def _is_type(view: str, dtype: DType) -> str:
    return f"is_type({view}, {_dlpack_code(dtype)}, {dtype.bits})"


def _dlpack_code(dtype: DType) -> str:
    """DLPack's name of a type: without its bits, where they do not tell formats apart."""
    name = dtype.value if dtype.is_narrow else dtype.value.rstrip("0123456789")
    return f"kDL{'UInt' if dtype.kind is NumberKind.UNSIGNED else name.capitalize()}"


def _view(argument: Argument) -> str:
    return f"{cpp_name(argument.name)}_view"
