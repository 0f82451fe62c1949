"""Common operators: what a draft shows of a kernel, and float64 references offered by recognition.

`library.choose` looks at the facts; each family of operators is one file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from astra_tui.model.dtypes import DType
from astra_tui.model.task import ArgumentRole


@dataclass(frozen=True)
class TensorFacts:
    """One tensor of a kernel. `role` None is unknown; `dtype` None means `T`.

    `sizes` are expressions over the dimensions; `type` is the element's type as the source
    writes it, which shows formats that are stored as plain bytes.
    """

    name: str
    role: ArgumentRole | None
    dtype: DType | None
    sizes: tuple[str, ...]
    type: str = ""


@dataclass(frozen=True)
class ScalarFacts:
    """A number that is passed by value and is no dimension."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class KernelFacts:
    """What recognisers look at.

    `template` maps template parameters to their arguments at the launch, "" where none is shown.
    `body` is the text of the kernel and of the functions that it calls, without comments; "" where
    it is not known. `constants` are the values of named constants, as text.
    """

    kernel: str
    tensors: tuple[TensorFacts, ...]
    scalars: tuple[ScalarFacts, ...]
    dims: tuple[str, ...]
    template: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    constants: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """The names of tensors, scalars and dimensions."""
        return frozenset((*(t.name for t in self.tensors), *(s.name for s in self.scalars)))

    def dim(self, pattern: str) -> str:
        """The first dimension whose name in snake case matches a pattern in full, or ""."""
        return next((d for d in self.dims if re.fullmatch(pattern, snake_case(d))), "")

    def size(self, pattern: str) -> str:
        """As `dim`, or else the number that a template parameter of such a name gets, or ""."""
        given = (
            value
            for name, value in self.template.items()
            if re.fullmatch(f"(k_)?({pattern})", snake_case(name)) and value.isdecimal()
        )
        return self.dim(pattern) or next(given, "")

    def switch(self, pattern: str) -> str:
        """The argument of a template parameter whose name has a pattern; "?" for one not shown.

        "" where there is no such parameter.
        """
        found = (v or "?" for n, v in self.template.items() if re.search(pattern, snake_case(n)))
        return next(found, "")


MAX_NAME = 200
"""Characters of a name that are looked at; some sources are written to be slow."""


def snake_case(name: str) -> str:
    """`RMSNormKernel` as `rms_norm_kernel`."""
    name = name[:MAX_NAME]
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"_+", "_", name).strip("_").lower()
