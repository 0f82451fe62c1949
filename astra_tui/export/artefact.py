"""What an export consists of: files by name, and the kernels that were compiled for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from astra_tui.export.winner import Winner
from astra_tui.model.compilation import Compilation
from astra_tui.model.launch import LaunchPlan
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.task import KernelTask

_MARKED = re.compile(r"^[^\n]*<(pdl|plain)>\n(.*?)^[^\n]*</\1>\n", re.DOTALL | re.MULTILINE)

Files = Mapping[str, str | bytes]
"""Contents by path, relative to the folder of the export."""


@dataclass(frozen=True)
class Subject:
    """What is exported: a winner with its validated plan and the task of the same hash.

    `samples` are calls on which the compiled kernels are chosen where the plan's dimensions are
    template arguments; `compilations` are of the kernels that these calls launch, the one that
    was checked first, one for each architecture.
    """

    winner: Winner
    task: KernelTask
    plan: LaunchPlan
    samples: tuple[Bindings, ...] = ()
    compilations: tuple[Compilation, ...] = ()

    @property
    def pdl(self) -> bool:
        """Whether a launch of the plan can be a programmatic dependent launch."""
        return any(launch.pdl is not None for launch in self.plan.launches())


def template(name: str, *, pdl: bool = False) -> str:
    """A file that goes into exports as it is.

    Lines between `<pdl>` and `</pdl>` are for programmatic dependent launches, and only there with
    `pdl`; those between `<plain>` and `</plain>` are only there without.
    """
    kept = "pdl" if pdl else "plain"
    folder = resources.files("astra_tui.export") / "templates"
    text = (folder / name).read_text(encoding="utf-8")
    return _MARKED.sub(lambda found: found[2] if found[1] == kept else "", text)
