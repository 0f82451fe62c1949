"""What can be guessed about a kernel's parameters from the way its body uses them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_tui.lab.draft.reading import KernelText
from astra_tui.model.dtypes import DType
from astra_tui.model.task import Role

_TYPES = {
    "half": DType.FLOAT16,
    "__half": DType.FLOAT16,
    "at::Half": DType.FLOAT16,
    "c10::Half": DType.FLOAT16,
    "__nv_bfloat16": DType.BFLOAT16,
    "nv_bfloat16": DType.BFLOAT16,
    "at::BFloat16": DType.BFLOAT16,
    "c10::BFloat16": DType.BFLOAT16,
    "float": DType.FLOAT32,
    "double": DType.FLOAT64,
    "char": DType.INT8,
    "int8_t": DType.INT8,
    "unsigned char": DType.UINT8,
    "uint8_t": DType.UINT8,
    "bool": DType.BOOL,
    "short": DType.INT16,
    "int": DType.INT32,
    "int32_t": DType.INT32,
    "unsigned": DType.UINT32,
    "unsigned int": DType.UINT32,
    "uint32_t": DType.UINT32,
    "long": DType.INT64,
    "long long": DType.INT64,
    "int64_t": DType.INT64,
    "size_t": DType.UINT64,
    "uint64_t": DType.UINT64,
}


def dtype_of_cpp(name: str) -> DType | None:
    """The element type behind a C++ type's name, or None."""
    return _TYPES.get(" ".join(name.split()))


@dataclass(frozen=True)
class Shape:
    """The sizes of a pointer's tensor, and whether they are more than a guess."""

    sizes: tuple[str, ...]
    certain: bool


def guess_role(kernel: KernelText, name: str, is_const: bool) -> tuple[Role, bool]:
    """The role of a pointer parameter, and whether the body shows it."""
    if is_const:
        return Role.IN, True
    names = "|".join(map(re.escape, [name, *_aliases(kernel.body, name)]))
    element = rf"(?:\b(?:{names})\s*\[[^;=]*?\]|\*\s*(?:{names})\b)"
    written = re.search(rf"{element}\s*(?:[-+*/|&^]|<<|>>)?=(?!=)", kernel.body)
    updated = re.search(rf"{element}\s*(?:[-+*/|&^]|<<|>>)=(?!=)", kernel.body)
    atomic = re.search(rf"atomic\w+\s*\(\s*&?\s*(?:{names})\b", kernel.body)
    without_writes = re.sub(rf"{element}\s*=(?!=)", " = ", kernel.body)
    read = re.search(element, without_writes)
    if updated or atomic or (written and read):
        return Role.INOUT, True
    if written:
        return Role.OUT, True
    return (Role.IN, True) if read else (Role.OUT, False)


def _aliases(body: str, name: str) -> list[str]:
    """Local pointers that are computed from a parameter."""
    pattern = rf"\*\s*(?:__restrict__\s*)?(?:const\s+)?(\w+)\s*=\s*[^;]*\b{re.escape(name)}\b[^;]*;"
    return re.findall(pattern, body)


def guess_shape(kernel: KernelText, name: str, dims: tuple[str, ...]) -> Shape:
    """The sizes of a tensor from the index expressions on it."""
    names = [name, *_aliases(kernel.body, name)]
    joined = "|".join(map(re.escape, names))
    indices = re.findall(rf"\b(?:{joined})\s*\[([^\]]*)\]", kernel.body)
    indices += re.findall(
        rf"=\s*(?:reinterpret_cast<[^>]*>\()?\s*{re.escape(name)}\s*\+\s*([^;]*);", kernel.body
    )
    text = " ".join(_expanded(kernel.body, index) for index in indices)
    multiplied = [d for d in dims if re.search(rf"\*\s*{d}\b|\b{d}\s*\*", text)]
    bounded = [d for d in dims if _bounds(kernel.body, text, d)]
    if multiplied:
        others = [d for d in dims if d not in multiplied]
        return Shape((*others, *multiplied), len(others) == 1)
    if len(bounded) == 1:
        return Shape((bounded[0],), True)
    return Shape(dims, len(dims) == 1)


def _expanded(body: str, index: str) -> str:
    """An index expression with local integers replaced by their definitions, twice over."""
    for _ in range(2):
        for name in set(re.findall(r"\b[A-Za-z_]\w*\b", index)):
            match = re.search(
                rf"\b(?:int|long|size_t|u?int\d+_t|unsigned|auto)\s+{name}\s*=\s*([^;]+);", body
            )
            if match and name not in match[1]:
                index = re.sub(rf"\b{name}\b", f"({match[1]})", index) + f" {name}"
    return index


def _bounds(body: str, text: str, dim: str) -> bool:
    """Whether a variable of the index is compared with this dimension."""
    for name in set(re.findall(r"\b[A-Za-z_]\w*\b", text)):
        if re.search(rf"\b{name}\s*(?:<|>=|<=)\s*{dim}\b", body):
            return True
    return False
