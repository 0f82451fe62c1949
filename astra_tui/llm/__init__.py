"""The seam between the agents and a language model, and all that implements it.

`LLM.complete` is the only door. `OpenAILLM` speaks to servers over two wires (Responses and chat
completions), `Recorder` and `Replayer` wrap or replace it. Importing this package is cheap: the
`openai` package is loaded in a thread by the first real call.
"""

from __future__ import annotations

from astra_tui.llm.client import OpenAILLM
from astra_tui.llm.endpoint import Endpoint, Retries, Secret, Timeouts
from astra_tui.llm.errors import (
    AuthenticationFailed,
    BadAnswer,
    DeadlineExceeded,
    LLMError,
    NoSuchModel,
    RateLimited,
    RequestRefused,
    ServerFailed,
    Truncated,
    UnknownRequest,
    Unreachable,
)
from astra_tui.llm.messages import (
    LLM,
    AnswerSchema,
    Delta,
    DeltaKind,
    Message,
    OnDelta,
    Prices,
    Reply,
    Request,
    Speaker,
    ToolCall,
    ToolSpec,
    Usage,
    cost,
)
from astra_tui.llm.recording import Exchange, Recorder, Replayer
from astra_tui.llm.structured import Answer, ask
from astra_tui.llm.tools import ToolRun, run_tools

__all__ = [
    "LLM",
    "Answer",
    "AnswerSchema",
    "AuthenticationFailed",
    "BadAnswer",
    "DeadlineExceeded",
    "Delta",
    "DeltaKind",
    "Endpoint",
    "Exchange",
    "LLMError",
    "Message",
    "NoSuchModel",
    "OnDelta",
    "OpenAILLM",
    "Prices",
    "RateLimited",
    "Recorder",
    "Replayer",
    "Reply",
    "Request",
    "RequestRefused",
    "Retries",
    "Secret",
    "ServerFailed",
    "Speaker",
    "Timeouts",
    "ToolCall",
    "ToolRun",
    "ToolSpec",
    "Truncated",
    "UnknownRequest",
    "Unreachable",
    "Usage",
    "ask",
    "cost",
    "run_tools",
]
