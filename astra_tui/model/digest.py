"""Hashes: of contents, and of whole values, which stay the same when later versions know more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec


def content_hash(content: bytes | str) -> str:
    """SHA-256 of some bytes, or of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def digest_of(value: msgspec.Struct) -> str:
    """SHA-256 of a structure, on any machine the same.

    Fields that have their default are left out: what an older version did not know of reads as
    the default, and does not change the digest that it wrote.
    """
    return content_hash(msgspec.json.encode(_canonical(value), order="deterministic"))


_LEAVES = frozenset((str, int, float, bool, type(None)))


def _canonical(value: Any) -> Any:
    if type(value) in _LEAVES:
        return value
    if isinstance(value, msgspec.Struct):
        fields = {
            written: _canonical(held)
            for name, written, default in _fields(type(value))
            if (held := getattr(value, name)) != default
        }
        tag = value.__struct_config__.tag
        return {"": tag, **fields} if tag is not None else fields
    if isinstance(value, tuple | list):
        return [_canonical(v) for v in value]
    if isinstance(value, Mapping):
        return {key: _canonical(v) for key, v in value.items()}
    return value


_MISSING = object()


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Names, here and in JSON, with defaults; `_MISSING`, which equals nothing, for none."""
    return tuple((f.name, f.encode_name, _default(f)) for f in msgspec.structs.fields(kind))


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return _MISSING
