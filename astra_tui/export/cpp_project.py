"""Plain CUDA C++: the kernels as they are, and a launcher that is generated from their plan."""

from __future__ import annotations

from astra_tui.export.artefact import Files, Subject, template
from astra_tui.export.cpp_expression import cpp_name
from astra_tui.export.cpp_plan import (
    CallArgument,
    CppPlan,
    KernelCall,
    MovedPointer,
    Source,
    StructCall,
    cpp_plan,
)
from astra_tui.export.dependent import caller_notice
from astra_tui.export.header import comment, header_lines, plain
from astra_tui.export.winner import Winner
from astra_tui.model.launch import print_expression
from astra_tui.model.task import Argument, KernelTask

_WIDTH = 88
_TEMPLATES = ("astra_host.hpp", "astra_launch.cuh")


def cpp_project(subject: Subject) -> Files:
    """The files: header, plan, launcher, kernels, and what the plan is written with."""
    task, winner = subject.task, subject.winner
    made = cpp_plan(subject)
    name = task.name
    return {
        f"{name}.h": _mark(winner, f"{name}: the call.") + _header(subject),
        f"{name}_plan.hpp": _mark(winner, f"{name}: the launch plan.") + _plan_header(task, made),
        f"{name}.cu": _mark(winner, f"{name}: the launcher.") + _launcher(task, made),
        f"{name}_kernels.cuh": _mark(winner, f"{name}: the kernels.") + winner.text,
        **{file: template(file, attributes=subject.attributes) for file in _TEMPLATES},
        **subject.headers,
    }


def _mark(winner: Winner, what: str) -> str:
    return comment(header_lines(winner, what), "//")


def _header(subject: Subject) -> str:
    task = subject.task
    name, upper = task.name, task.name.upper()
    notice, flags = caller_notice(subject, _WIDTH), subject.nvcc_flags
    dtypes = ", ".join(f"{upper}_{d.name} = {n}" for n, d in enumerate(task.dtypes, 1))
    lines = [
        f"// {plain(task.summary)}.",
        "//",
        f"// Build: nvcc {' '.join((subject.standard, '-O3 -arch=native', *flags))} -c {name}.cu",
        "//",
        "// Tensors must not overlap where one of them is written. Workspaces are taken from the",
        "// stream's memory pool (cudaMallocAsync) and given back in stream order. The call does",
        "// not wait for the GPU, and may be captured in a CUDA graph.",
        *(f"// {line}".rstrip() for line in (["", *notice] if notice else ())),
        f"#ifndef ASTRA_{upper}_H",
        f"#define ASTRA_{upper}_H",
        "",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "struct CUstream_st;",
        "",
        f"enum {name}_dtype {{ {dtypes} }};",
        "",
        f"struct {name}_arguments {{",
        f"  int dtype;  // T: one of enum {name}_dtype",
        *(f"  int64_t {cpp_name(d.name)};  // {plain(d.about)}" for d in task.dims.values()),
        *(line for a in task.args.values() for line in _member(a)),
        "};",
        "",
        "// Launches the kernels on a stream of the current device. Returns 0, or what is wrong;",
        "// then nothing was launched, unless it is an error of a later launch.",
        f"int {name}_launch(const struct {name}_arguments* arguments, struct CUstream_st* stream);",
        "",
        f"// What an answer of {name}_launch() means.",
        f"const char* {name}_message(int status);",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _member(argument: Argument) -> list[str]:
    name = cpp_name(argument.name)
    about = plain(argument.about)
    if not argument.is_tensor:
        assert argument.dtype is not None
        type_ = "double" if argument.dtype.is_float else "int64_t"
        return [f"  {type_} {name};" + (f"  // {about}" if about else "")]
    shape = ", ".join(map(print_expression, argument.shape))
    dtype = argument.dtype.value if argument.dtype else "T"
    const = "" if argument.is_written else "const "
    lines = [f"  {const}void* {name};  // {dtype}[{shape}]" + (f": {about}" if about else "")]
    if argument.strided and len(argument.shape) > 1:
        lines.append(f"  int64_t {name}_strides[{len(argument.shape)}];  // in elements")
    return lines


def _plan_header(task: KernelTask, made: CppPlan) -> str:
    upper = task.name.upper()
    cases = "".join(
        f"    case {upper}_{d.name}:\n      return plan_{d.value}(arguments, device, plan);\n"
        for d in made.functions
    )
    return (
        f"#ifndef ASTRA_{upper}_PLAN_HPP\n#define ASTRA_{upper}_PLAN_HPP\n\n"
        f'#include "astra_host.hpp"\n#include "{task.name}.h"\n\n'
        f"namespace astra_{task.name} {{\n\n"
        + "\n".join(made.functions.values())
        + f"""
// What a call launches. Throws astra::Fault.
inline void plan(const {task.name}_arguments& arguments, const astra::Device& device,
                 astra::Plan& plan) {{
  switch (arguments.dtype) {{
{cases}    default:
      throw astra::Fault{{astra::kUnknownDtype}};
  }}
}}

}}  // namespace astra_{task.name}

#endif
"""
    )


def _launcher(task: KernelTask, made: CppPlan) -> str:
    name = task.name
    cases = "".join(_case(number, call) for number, call in enumerate(made.calls))
    workspaces = any(call.workspaces for call in made.calls)
    scratch = "  const astra::Scratch scratch(plan, stream);\n" if workspaces else ""
    given = ", scratch" if workspaces else ""
    parameter = ", const astra::Scratch& scratch" if workspaces else ""
    return f"""#include "astra_launch.cuh"
#include "{name}_plan.hpp"

// Last, so that its macros do not reach the headers above.
#include "{name}_kernels.cuh"

namespace astra_{name} {{

void launch(const {name}_arguments& a, const astra::Launch& l{parameter}, cudaStream_t stream) {{
  switch (l.kernel) {{
{cases}  }}
}}

void run(const {name}_arguments& arguments, cudaStream_t stream) {{
  astra::Plan plan;
  astra_{name}::plan(arguments, astra::current_device(), plan);
{scratch}  for (const astra::Launch& each : plan.launches) launch(arguments, each{given}, stream);
}}

}}  // namespace astra_{name}

extern "C" int {name}_launch(const {name}_arguments* arguments, CUstream_st* stream) {{
  if (arguments == nullptr) return astra::kNullPointer;
  try {{
    astra_{name}::run(*arguments, stream);
  }} catch (const astra::Fault& fault) {{
    return fault.status;
  }} catch (...) {{
    return astra::kCuda + cudaErrorMemoryAllocation;  // of the host's memory
  }}
  return astra::kDone;
}}

extern "C" const char* {name}_message(int status) {{
  if (status >= astra::kCuda) {{
    return cudaGetErrorString(static_cast<cudaError_t>(status - astra::kCuda));
  }}
  switch (status) {{
    case astra::kDone: return "done";
    case astra::kNullPointer: return "a pointer is null";
    case astra::kUnknownDtype: return "this element type was not compiled";
    case astra::kOutsideContract: return "the call lies outside of the contract";
    case astra::kBadStrides: return "only the rows of a tensor may lie apart, equally far";
    case astra::kMisaligned: return "an address is not a multiple of the element's size";
    case astra::kPlanFault: return "the launch plan makes no sense for this call";
    case astra::kNotCompiled: return "the kernel for these dimensions was not compiled";
    case astra::kNoBranch: return "no branch of the launch plan covers this call";
{_messages(made)}    default: return "unknown status";
  }}
}}
"""


def _case(number: int, call: KernelCall) -> str:
    arguments = "".join(f", {_argument(call, argument)}" for argument in call.args)
    return (
        f"    case {number}:\n      return astra::launch(&{call.kernel}, l, stream{arguments});\n"
    )


def _argument(call: KernelCall, argument: CallArgument) -> str:
    if not isinstance(argument, StructCall):
        return _value(call, argument)
    text = f"astra::Struct<{argument.extent.size}, {argument.extent.alignment}>()"
    for offset, dtype, source in argument.members:
        type_ = dtype.cuda if dtype is not None else "void*"
        text += f".put<{type_}>({offset}, {_value(call, source)})"
    return text


def _value(call: KernelCall, source: Source) -> str:
    match source:
        case None:
            return "static_cast<void*>(nullptr)"
        case int():
            return f"l.numbers[{source}]"
        case MovedPointer(name=name, number=number):
            return f"astra::moved({_value(call, name)}, l.numbers[{number}])"
        case _ if source in call.workspaces:
            return f"scratch[{call.workspaces.index(source)}]"
        case _:
            return f"const_cast<void*>(a.{cpp_name(source)})"


def _messages(made: CppPlan) -> str:
    return "".join(
        f'    case astra::kRefused + {number}: return "{_quoted(reason)}";\n'
        for number, reason in enumerate(made.refusals)
    )


def _quoted(text: str) -> str:
    return plain(text).replace('"', "'").replace("?", ".")
