"""Characters that do something to a page or a terminal instead of being drawn in their place."""

from __future__ import annotations

import unicodedata


def can_act(character: str) -> bool:
    """Whether a character could change how others are read. Space, tab and line feed cannot.

    By Unicode's categories: C, controls, formats (bidirectional ones too) and what is unassigned;
    Z, separators; M, marks that are drawn over their neighbours.
    """
    return character not in "\n\t " and unicodedata.category(character)[0] in "CZM"
