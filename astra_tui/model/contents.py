"""Names for contents: the same bytes have the same name everywhere."""

from __future__ import annotations

import hashlib


def content_hash(content: bytes | str) -> str:
    """SHA-256 of some bytes, or of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
