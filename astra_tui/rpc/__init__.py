"""Typed calls between processes: a request's type says which replies it has, and how long it may
take. Errors keep their file and line. What carries the messages is for the caller to choose.
"""

from __future__ import annotations

from astra_tui.rpc.calls import Call, Channel, Message, Request, serve
from astra_tui.rpc.failure import Failure, FailureKind, ServerUnfit, ServiceFailed

__all__ = [
    "Call",
    "Channel",
    "Failure",
    "FailureKind",
    "Message",
    "Request",
    "ServerUnfit",
    "ServiceFailed",
    "serve",
]
