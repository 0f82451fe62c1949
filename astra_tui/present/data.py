"""A document as plain data, for JSON: the same facts, words, numbers and tones."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

from astra_tui.present.document import Document, visible


def as_json(document: Document) -> str:
    """The whole document; every part has its `kind`, and numbers their exact value and text."""
    return msgspec.json.format(msgspec.json.encode(_data(document)), indent=1).decode() + "\n"


def _data(part: Any) -> Any:
    if is_dataclass(part):
        named = {f.name: _data(getattr(part, f.name)) for f in fields(part)}
        return {"kind": type(part).__name__.lower(), **named}
    if isinstance(part, tuple):
        return [_data(one) for one in part]
    if isinstance(part, frozenset):
        return sorted(part)
    return visible(part) if isinstance(part, str) else part
