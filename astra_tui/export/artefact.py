"""What an export consists of: files by name, and the kernels that were compiled for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from astra_tui.export.cpp_expression import (
    cpp_name,
    dlpack_type,
    python_expression,
    quoted,
    written,
)
from astra_tui.export.header import comment, header_lines, plain
from astra_tui.export.winner import Winner
from astra_tui.model.compilation import Compilation
from astra_tui.model.launch import LaunchPlan, print_expression
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.task import KernelTask, upstream_files
from astra_tui.model.task_folders import UPSTREAM_LIST

_MARKED = re.compile(r"^[^\n]*<(attributes|plain)>\n(.*?)^[^\n]*</\1>\n", re.DOTALL | re.MULTILINE)

_LAMBDA = re.compile(r"\]\s*(?:__(?:host|device)__\s*)+[({]")
"""A lambda that says where it runs, which nvcc knows by a flag."""

Files = Mapping[str, str | bytes]
"""Contents by path, relative to the folder of the export."""


@dataclass(frozen=True)
class Subject:
    """What is exported: a winner with its validated plan and the task of the same hash.

    `samples` are calls on which the compiled kernels are chosen where the plan's dimensions are
    template arguments; `compilations` are of the kernels that these calls launch, the one that
    was checked first, one for each architecture. `upstream` are the contents, by path, of the
    task's upstream files that the winner includes.
    """

    winner: Winner
    task: KernelTask
    plan: LaunchPlan
    samples: tuple[Bindings, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    upstream: Mapping[str, bytes] = field(default_factory=dict)

    def mark(self, what: str, mark: str) -> str:
        """The comment at the top of a file of this export, an empty line after it."""
        return comment(header_lines(self.winner, f"{what}."), mark)

    @property
    def pdl(self) -> bool:
        """Whether a launch of the plan can be a programmatic dependent launch."""
        return any(launch.pdl is not None for launch in self.plan.launches())

    @property
    def attributes(self) -> bool:
        """Whether a launch of the plan has attributes: it says `pdl=` or `cluster=`."""
        return self.pdl or any(launch.cluster for launch in self.plan.launches())

    @property
    def nvcc_flags(self) -> tuple[str, ...]:
        """What nvcc needs to build an export in its folder, with its upstream files."""
        found = self.task.upstream.flags if self.upstream and self.task.upstream else ()
        texts = (self.winner.text, *(c.decode(errors="replace") for c in self.upstream.values()))
        return (*found, *(("--extended-lambda",) if any(map(_LAMBDA.search, texts)) else ()))

    @property
    def standard(self) -> str:
        """Nvcc's flag for the C++ standard: upstream files are compiled as C++20 by the lab too."""
        return "-std=c++20" if self.upstream else "-std=c++17"

    @property
    def headers(self) -> Files:
        """The upstream files that an export of the source carries, unmodified in `upstream/`.

        upstream.toml next to it says where they come from, with licence and hashes. Empty for a
        source that includes none.
        """
        upstream = self.task.upstream
        if not self.upstream or upstream is None:
            return {}
        files = upstream_files(
            self.upstream,
            include=tuple(root or "." for root in upstream.include),
            origin=upstream.origin,
            licence=upstream.licence,
            package=upstream.package,
            defines=upstream.defines,
        )
        flags = " ".join(self.nvcc_flags)
        head = f"# What the exported source includes. Build it with: nvcc {flags}\n"
        return {**files, UPSTREAM_LIST: head.encode() + files[UPSTREAM_LIST]}


def template(name: str, *, attributes: bool = False) -> str:
    """A file that goes into exports as it is.

    Lines between `<attributes>` and `</attributes>` are for launches with `pdl=` or `cluster=`, and
    only there with `attributes`; those between `<plain>` and `</plain>` are only there without.
    """
    kept = "attributes" if attributes else "plain"
    folder = resources.files("astra_tui.export") / "templates"
    text = (folder / name).read_text(encoding="utf-8")
    return _MARKED.sub(lambda found: found[2] if found[1] == kept else "", text)


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("astra_tui.export"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {
        "plain": plain,
        "expression": print_expression,
        "cpp": cpp_name,
        "python": python_expression,
        "written": written,
        "quoted": quoted,
        "dlpack": dlpack_type,
    }
    return found


def rendered(name: str, words: Mapping[str, Any]) -> str:
    """A file of an export from its template."""
    return _environment().get_template(name).render(words)
