"""What an engineer rules in task.toml: a finding or a condition that is benign, and why."""

from __future__ import annotations

import msgspec

from astra_tui.model.compilation import UPSTREAM_PREFIX
from astra_tui.model.findings import FindingKind


class Acceptance(msgspec.Struct, frozen=True, omit_defaults=True):
    """One `[[accept]]` table: a kind of finding, or a condition of the source, that is allowed.

    Exactly one of `finding` and `condition` is given. What is left empty does not narrow it:
    `source` is the name of the file, `function` the kernel's name without template arguments,
    `text` a part of the source line, or a place in the task's upstream files (or its beginning):
    `upstream/a/b.cuh:12`. A condition is its text in the source, without blanks.
    """

    reason: str
    finding: FindingKind | None = None
    condition: str = ""
    source: str = ""
    function: str = ""
    text: str = ""

    @property
    def is_upstream(self) -> bool:
        """Whether this rules about a place in the upstream files, and nowhere else."""
        return self.text.startswith(UPSTREAM_PREFIX[1:])

    def covers(self, source: str, function: str, line: str) -> bool:
        """Whether a place lies where this rules: file name, kernel name, text of the line."""
        name = function.partition("<")[0].strip().rpartition("::")[2]
        return (
            self.source in ("", source)
            and self.function in ("", name, function)
            and self.text in line
        )

    def describe(self) -> str:
        """The ruling in one line: what is accepted, where, and why."""
        what = self.finding.value if self.finding is not None else f"condition {self.condition}"
        places = [
            f"{word} {value}"
            for word, value in (("in", self.source), ("kernel", self.function), ("at", self.text))
            if value
        ]
        return f"{' '.join((what, *places))}: {self.reason}"
