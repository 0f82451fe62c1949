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
DiffCanvas > .diff--header { color: $text-primary; text-style: bold; }
DiffCanvas > .diff--header-refused { color: $text-warning; text-style: bold; }
DiffCanvas > .diff--fold { color: $foreground 55%; }
DiffCanvas > .diff--absent { background: $foreground 4%; }
DiffCanvas > .diff--added { background: $success 14%; }
DiffCanvas > .diff--removed { background: $error 14%; }
DiffCanvas > .diff--added-emphasis { background: $success 42%; text-style: bold; }
DiffCanvas > .diff--removed-emphasis { background: $error 42%; text-style: bold; }
DiffCanvas > .diff--added-refused { background: $foreground 6%; text-style: dim strike; }
DiffCanvas > .diff--removed-refused { background: $foreground 6%; }
DiffCanvas > .diff--added-sign { color: $text-success; text-style: bold; }
DiffCanvas > .diff--removed-sign { color: $text-error; text-style: bold; }
DiffCanvas:ansi > .diff--fold { color: ansi_default; text-style: dim; }
DiffCanvas:ansi > .diff--absent { background: ansi_default; }
DiffCanvas:ansi > .diff--added { background: ansi_default; }
DiffCanvas:ansi > .diff--removed { background: ansi_default; }
DiffCanvas:ansi > .diff--added-emphasis { background: ansi_default; text-style: reverse; }
DiffCanvas:ansi > .diff--removed-emphasis { background: ansi_default; text-style: reverse; }
DiffCanvas:ansi > .diff--added-refused { background: ansi_default; text-style: dim strike; }
DiffCanvas:ansi > .diff--removed-refused { background: ansi_default; text-style: dim; }
"""
