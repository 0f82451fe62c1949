"""Keeps secrets out of everything that a session writes.

All writing goes through one `Redactor`: the strings of events, sources, prompts and replies.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

REDACTED = "[redacted]"
SHORTEST_SECRET = 8
"""Shorter values are words that would be cut out of ordinary text."""

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_KEY_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[a-z]_[A-Za-z0-9]{16,}"
    r"|github_pat_[A-Za-z0-9_]{16,})"
)
_NAMED_SECRET = re.compile(
    r"""(?i)(\bbearer\s+|\bapi[_-]?key(?:\\*["'])?\s*[=:]\s*(?:\\*["'])?)([A-Za-z0-9._~+/=-]{8,})"""
)

_Value = TypeVar("_Value")


class Redactor:
    """Replaces secrets with `[redacted]`: the given ones, and whatever has the shape of a key.

    Given are `secrets` and the values of environment variables named like a key, a token or a
    password. They are also found as JSON and URLs escape them, so that text which quotes a request
    or a reply is covered. Secrets shorter than `SHORTEST_SECRET` are ignored.
    """

    def __init__(self, secrets: Iterable[str] = (), environment: Mapping[str, str] | None = None):
        variables = os.environ if environment is None else environment
        known = [*secrets, *_secrets_of(variables)]
        spellings = {s for secret in known if _is_secret(secret) for s in _spellings(secret)}
        # Longest first: a secret that begins with another one must go as a whole.
        longest_first = sorted(spellings, key=lambda s: (-len(s), s))
        self._given = re.compile("|".join(map(re.escape, longest_first))) if spellings else None

    def text(self, text: str) -> str:
        """The text without secrets, and without lone surrogates, which no file could hold."""
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")
        if self._given is not None:
            text = self._given.sub(REDACTED, text)
        text = _KEY_SHAPES.sub(REDACTED, text)
        return _NAMED_SECRET.sub(lambda match: match[1] + REDACTED, text)

    def clean(self, value: _Value) -> _Value:
        """The same structure with every string in it redacted; enumerations stay as they are."""
        cleaned: _Value = self._cleaned(value)
        return cleaned

    def _cleaned(self, value: Any) -> Any:
        if type(value) is str:
            return self.text(value)
        if isinstance(value, msgspec.Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            return replace(value, **{name: self._cleaned(v) for name, v in fields.items()})
        if isinstance(value, Mapping):
            return {self._cleaned(k): self._cleaned(v) for k, v in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(self._cleaned(v) for v in value)
        return value


def _secrets_of(variables: Mapping[str, str]) -> list[str]:
    return [
        value
        for name, value in variables.items()
        if any(word in name.upper() for word in _SECRET_NAMES)
    ]


def _is_secret(text: str) -> bool:
    return len(text.strip()) >= SHORTEST_SECRET


def _spellings(secret: str) -> set[str]:
    plain = secret.strip()
    spellings = {plain, quote(plain, safe="")}
    for ascii_only in (False, True):
        once = json.dumps(plain, ensure_ascii=ascii_only)[1:-1]
        spellings |= {once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    return spellings
