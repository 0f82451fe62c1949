"""Hashes: of contents, and of whole values, which stay the same when later versions know more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import astuple


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
    """A long session has a million values, most of them leaves: no call is made for one."""
    kind: Any = type(value)
    if kind in _LEAVES:
        return value
    if kind is tuple or kind is list:
        return [v if type(v) in _LEAVES else _canonical(v) for v in value]
    if kind is dict:
        return {k: v if type(v) in _LEAVES else _canonical(v) for k, v in value.items()}
    found = _form(kind)
    if found is None:
        return _canonical(dict(value)) if isinstance(value, Mapping) else value
    tag, names, defaults = found
    told = {
        name: held if type(held) in _LEAVES else _canonical(held)
        for name, held, default in zip(names, astuple(value), defaults, strict=True)
        if held is not default and held != default
    }
    return told if tag is None else {"": tag, **told}


_MISSING = object()


@cache
def _form(kind: type) -> tuple[Any, tuple[str, ...], tuple[Any, ...]] | None:
    """A structure's tag, its names in JSON and their defaults; `_MISSING`, which equals nothing,
    for none. None for what is no structure.
    """
    if not issubclass(kind, msgspec.Struct):
        return None
    known = msgspec.structs.fields(kind)
    names = tuple(field.encode_name for field in known)
    return kind.__struct_config__.tag, names, tuple(map(_default, known))


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return _MISSING


def short(hash_: str) -> str:
    """The beginning of a hash, by which people tell sources apart."""
    return hash_[:12]
