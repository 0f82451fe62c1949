"""Signatures of sessions: who vouches for a journal, in a way that cannot be computed again.

A signature is Ed25519 over the SHA-256 of the journal's bytes, unpacked. Texts are named in the
journal by their hashes, so that it stands for all of the session. It needs the package cryptography
(`pip install 'astra-tui[sign]'`); keys are those of `ssh-keygen -t ed25519`.
"""

from __future__ import annotations

import base64
import hashlib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from astra_tui.model.errors import UserError
from astra_tui.sessions.integrity import Session
from astra_tui.sessions.journal_reader import journal_bytes
from astra_tui.sessions.safe_open import read_inside, write_inside

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

SIGNATURE_NAME = "signature.json"
_LARGEST = 16 * 1024
_PURPOSE = b"astra-tui session, version 1\n"
_MAKE = "make one: ssh-keygen -t ed25519 -N '' -f FILE"


class Signature(msgspec.Struct, frozen=True):
    """What `sign` leaves in a session's folder.

    `key` is the signer's public key, as OpenSSH writes it. The first `bytes` of the journal are
    signed, `lines` of them; a session that was resumed since has more.
    """

    key: str
    bytes: int
    lines: int
    signature: str


class Signed(msgspec.Struct, frozen=True):
    """What a signature says of a session: by which key, and of how many of its lines.

    `fingerprint` is that of `ssh-keygen -l`. `problem` says why it does not hold; "" where it does.
    `trusted` says that it is one of the keys that were asked for.
    """

    fingerprint: str
    lines: int
    problem: str
    trusted: bool


def sign(session: Session, key_file: Path, key: bytes) -> Path:
    """Signs a whole session with a private key; returns the file of the signature.

    Raises UserError for a session that is not whole, and for a key that cannot be used.
    """
    if not session.trust.whole:
        message = f"only a whole session is signed, and this one is {session.trust.describe()}"
        raise UserError(message, file=str(session.folder))
    private = _private_key(key, key_file)
    journal = journal_bytes(session.folder)
    made = Signature(
        _openssh(private.public_key()),
        len(journal),
        session.trust.lines,
        base64.b64encode(private.sign(_statement(journal))).decode(),
    )
    content = msgspec.json.format(msgspec.json.encode(made)) + b"\n"
    return write_inside(session.folder, SIGNATURE_NAME, content)


def signature_of(session: Session, trusted: bytes = b"") -> Signed | None:
    """What the signature of a session says; None where it has none.

    `trusted` holds public keys, one a line, as in `id_ed25519.pub` or `authorized_keys`. Raises
    UserError where the signature cannot be read.
    """
    path = session.folder / SIGNATURE_NAME
    try:
        content = read_inside(session.folder, SIGNATURE_NAME, _LARGEST)
        found = msgspec.json.decode(content, type=Signature)
        public = _public_key(found.key.encode())
        signature = base64.b64decode(found.signature, validate=True)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, msgspec.MsgspecError, RecursionError) as error:
        raise UserError(f"this is no signature: {error}", file=str(path)) from None
    journal = journal_bytes(session.folder)
    problem = _problem(public, signature, journal, found, session)
    key = _key_part(found.key)
    known = any(_key_part(line) == key for line in trusted.decode(errors="replace").splitlines())
    return Signed(_fingerprint(key), found.lines, problem, known)


def _problem(
    public: Ed25519PublicKey,
    signature: bytes,
    journal: bytes,
    found: Signature,
    session: Session,
) -> str:
    from cryptography.exceptions import InvalidSignature

    if not 0 < found.bytes <= len(journal):
        return "the journal is shorter than what was signed"
    try:
        public.verify(signature, _statement(journal[: found.bytes]))
    except InvalidSignature:
        return "the signature is not of this journal: one of the two was altered"
    if found.bytes < len(journal):
        more = session.trust.lines - journal[: found.bytes].count(b"\n")
        return f"{more} lines were added after it was signed"
    return ""


def _statement(journal: bytes) -> bytes:
    return _PURPOSE + hashlib.sha256(journal).digest()


def _private_key(content: bytes, file: Path) -> Ed25519PrivateKey:
    serialization = _library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    loaders = (serialization.load_ssh_private_key, serialization.load_pem_private_key)
    load = loaders[b"OPENSSH" not in content]
    try:
        key = load(content, password=None)
    except TypeError:
        message = "this key has a passphrase, for which astra-tui does not ask"
        raise UserError(message, file=str(file), hint=_MAKE) from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UserError(f"this is no private key: {error}", file=str(file), hint=_MAKE) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError("this is no Ed25519 key", file=str(file), hint=_MAKE)
    return key


def _public_key(content: bytes) -> Ed25519PublicKey:
    serialization = _library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = serialization.load_ssh_public_key(content)
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from None
    if not isinstance(key, Ed25519PublicKey):
        raise TypeError("its key is no Ed25519 key")
    return key


def _openssh(key: Ed25519PublicKey) -> str:
    serialization = _library()
    encoding, form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return str(key.public_bytes(encoding, form), "ascii")


def _key_part(line: str) -> str:
    """The base64 part of a public key, wherever in a line of `authorized_keys` it stands."""
    words = line.split()
    after = [b for a, b in pairwise(words) if a == "ssh-ed25519"]
    return after[0] if after else ""


def _fingerprint(key: str) -> str:
    digest = hashlib.sha256(base64.b64decode(key)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        hint = "pip install 'astra-tui[sign]'"
        raise UserError("signatures need the package cryptography", hint=hint) from None
    return serialization
