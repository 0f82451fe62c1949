"""The linear front end: tables and text for pipes, dumb terminals and screen readers.

What needs rich is imported where it prints, so that a command's help is quick.
"""

from astra_tui.plain.output import (
    note,
    print_answer,
    print_blocks,
    print_json,
    progress,
)

__all__ = ["note", "print_answer", "print_blocks", "print_json", "progress"]
