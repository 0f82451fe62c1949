"""The table of element types against NumPy, torch and CUDA's headers; nothing else lists them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from astra_tui.export.templates import _host
from astra_tui.model.dtypes import (
    FLOATS,
    OF_CPP_TYPE,
    OF_SPELLING,
    PLAN_TYPES,
    TENSOR_ONLY,
    DType,
    NumberKind,
)

ROOT = Path(__file__).resolve().parents[2]
_INTEGERS = [d for d in DType if d.kind in (NumberKind.SIGNED, NumberKind.UNSIGNED)]
_IN_TORCH = [d for d in DType if hasattr(torch, d.torch)]

_RARE = [d for d in DType if d.is_narrow or d is DType.BFLOAT16]
_NAMES = re.compile("|".join(name for d in _RARE for name in (d.value, d.name, *d.spellings)))
"""Names of types that few files have a reason to know."""

_MAY_NAME_TYPES = {
    "model/dtypes.py": "the table",
    "model/bit_patterns.py": "bfloat16, which NumPy lacks, by way of float32",
    "gpu/drawing.py": "the order of the enum Type of tools.cu",
    "gpu/tools.cu": "the drawing kernel writes each type",
    "drafting/elements.py": "what a quantising kernel writes",
    "drafting/operators/quantise.py": "the formats that quantising operators write",
    "export/templates/_host.py": "a package stands alone; compared with the table below",
    "export/templates/_driver.py": "a package stands alone: packs a bfloat16 number",
    "export/templates/astra_host.hpp": "names of DLPack's types, for messages",
    "emulator/ops/conversion.py": "the formats of PTX's cvt",
    "emulator/numerics.py": "the arithmetic of PTX's bf16",
    "emulator/ops/arithmetic.py": "the arithmetic of PTX's bf16",
    "gpu/process/case.py": "a comment",
    "lab/check/combinations.py": "a comment",
    "model/sass.py": "a comment",
    "cuda_source/effects.py": "conversion functions of CUDA",
    "cuda_source/types.py": "conversion functions of CUDA",
    "cuda_source/generator_run.py": "torch's names of types, for generators that ask for them",
    "emulator/operands.py": "a comment",
    "cuda_source/headers/astra_tui_torch.h": "PyTorch's names of types, for launchers",
    "cuda_source/reading_headers/host.h": "CUDA's types, as its headers name them for a host",
}


def test_no_other_file_names_element_types() -> None:
    named = {
        str(file.relative_to(ROOT / "astra_tui"))
        for file in (ROOT / "astra_tui").rglob("*")
        if file.suffix in (".py", ".cu", ".cuh", ".h", ".hpp")
        and _NAMES.search(file.read_text(encoding="utf-8"))
    }
    assert named == set(_MAY_NAME_TYPES)


@pytest.mark.parametrize("dtype", _IN_TORCH, ids=lambda d: d.value)
def test_sizes_and_ranges_are_those_of_torch(dtype: DType) -> None:
    of_torch = getattr(torch, dtype.torch)
    assert dtype.size == of_torch.itemsize
    assert dtype.is_float == of_torch.is_floating_point
    if dtype.is_float and dtype.per_item == 1:
        info = torch.finfo(of_torch)
        assert dtype.largest == info.max
        assert dtype.smallest_normal == info.smallest_normal
        assert dtype.bits == info.bits


def test_all_types_but_pairs_are_known_to_torch() -> None:
    assert set(DType) - set(_IN_TORCH) <= TENSOR_ONLY


@pytest.mark.parametrize("dtype", _INTEGERS, ids=lambda d: d.value)
def test_ranges_of_integers_are_those_of_numpy(dtype: DType) -> None:
    info = np.iinfo(dtype.value)
    assert dtype.integer_range == (info.min, info.max)
    assert dtype.is_signed == (info.min < 0)


def test_a_type_of_four_bits_comes_in_pairs() -> None:
    pair = DType.FLOAT4_E2M1FN
    assert (pair.bits, pair.size, pair.per_item, pair.bytes_of(10)) == (4, 1, 2, 5)
    assert (pair.largest, pair.smallest_normal, pair.smallest_step) == (6.0, 1.0, 0.5)
    assert pair.specials == frozenset()
    assert frozenset({pair}) == TENSOR_ONLY
    assert pair.value not in PLAN_TYPES


def test_narrow_floats_have_the_special_values_of_their_format() -> None:
    assert DType.FLOAT8_E4M3FN.specials == {"nan"}
    assert DType.FLOAT8_E5M2.specials == {"nan", "inf", "-inf"}
    assert [d for d in DType if d.is_narrow] == [d for d in DType if d.is_float and d.bits <= 8]
    assert math.isclose(DType.FLOAT64.smallest_step, 5e-324)


def test_bool_counts_as_zero_and_one() -> None:
    assert DType.BOOL.integer_range == (0, 1)
    assert not DType.BOOL.is_signed


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_float], ids=lambda d: d.value)
def test_floats_have_no_integer_range_and_integers_no_exponent(dtype: DType) -> None:
    with pytest.raises(ValueError, match=f"{dtype.value} is not an integer type"):
        _ = dtype.integer_range
    with pytest.raises(ValueError, match="int8 is not a floating-point type"):
        _ = DType.INT8.largest


def test_every_name_in_cpp_stands_for_one_type() -> None:
    spellings = [name for d in DType for name in (*d.spellings, *d.vectors)]
    assert len(set(spellings)) == len(spellings)
    assert len({d.cuda for d in DType}) == len({d.short for d in DType}) == len(DType)
    assert set(OF_CPP_TYPE) - {d.torch_cuda for d in DType} <= set(OF_SPELLING)


def test_exported_packages_know_the_same_types() -> None:
    assert {n: d.size for n, d in PLAN_TYPES.items()} == _host.SIZES
    assert {n: d.cuda for n, d in PLAN_TYPES.items()} == _host.CUDA_NAMES
    assert set(FLOATS) <= set(PLAN_TYPES)
