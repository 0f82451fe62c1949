"""Component classes and styles of the diff.

Added and removed lines carry a sign, refused hunks an empty box; colour only repeats it.
"""

from __future__ import annotations

CLASSES = {
    "diff--header",
    "diff--header-refused",
    "diff--fold",
    "diff--absent",
    *(
        f"diff--{side}{suffix}"
        for side in ("added", "removed")
        for suffix in ("", "-emphasis", "-refused", "-sign")
    ),
}

CSS = """
DiffLines > .diff--header { color: $primary; text-style: bold; }
DiffLines > .diff--header-refused { color: $warning; text-style: bold; }
DiffLines > .diff--fold { color: $foreground 55%; }
DiffLines > .diff--absent { background: $foreground 4%; }
DiffLines > .diff--added { background: $success 14%; }
DiffLines > .diff--removed { background: $error 14%; }
DiffLines > .diff--added-emphasis { background: $success 42%; text-style: bold; }
DiffLines > .diff--removed-emphasis { background: $error 42%; text-style: bold; }
DiffLines > .diff--added-refused { background: $foreground 6%; text-style: dim strike; }
DiffLines > .diff--removed-refused { background: $foreground 6%; }
DiffLines > .diff--added-sign { color: $success; text-style: bold; }
DiffLines > .diff--removed-sign { color: $error; text-style: bold; }
DiffLines:ansi > .diff--fold { color: ansi_default; text-style: dim; }
DiffLines:ansi > .diff--absent { background: ansi_default; }
DiffLines:ansi > .diff--added { background: ansi_default; }
DiffLines:ansi > .diff--removed { background: ansi_default; }
DiffLines:ansi > .diff--added-emphasis { background: ansi_default; text-style: reverse; }
DiffLines:ansi > .diff--removed-emphasis { background: ansi_default; text-style: reverse; }
DiffLines:ansi > .diff--added-refused { background: ansi_default; text-style: dim strike; }
DiffLines:ansi > .diff--removed-refused { background: ansi_default; text-style: dim; }
"""
