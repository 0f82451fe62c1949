"""From the failures of the `openai` package to our own errors.

All words of a server pass `safe_text`; the package's own exceptions, whose requests hold the
key, are never chained to ours.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from astra_tui.llm.endpoint import Endpoint
from astra_tui.llm.errors import (
    AuthenticationFailed,
    LLMError,
    NoSuchModel,
    OutOfCredit,
    RateLimited,
    RequestRefused,
    ServerFailed,
    Unreachable,
    safe_text,
)
from astra_tui.llm.quirks import Rejection, is_unknown_model
from astra_tui.llm.wire_responses import StreamError

CREDIT_CODES = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
PASSING_STATUSES = (408, 409, 425)
SEE_MODELS = "list the server's models with `astra-tui doctor`, and give one as --model"


def expected_failures() -> tuple[type[Exception], ...]:
    """What a call may raise because of its server; `openai` has to be loaded already.

    The last four stand for events that are nested too deep, not JSON or not of the protocol's form.
    """
    import httpx2
    import openai

    forms = (json.JSONDecodeError, UnicodeDecodeError, msgspec.ValidationError)
    return (openai.OpenAIError, httpx2.HTTPError, StreamError, RecursionError, *forms)


def rejection_of(failure: Exception) -> Rejection | None:
    """The refusal in a failure; None where no server answered with a status."""
    status = getattr(failure, "status_code", None)
    if not isinstance(status, int):
        return None
    body = getattr(failure, "body", None)
    return Rejection(
        status=status,
        code=str(getattr(failure, "code", None) or ""),
        param=str(getattr(failure, "param", None) or ""),
        text=f"{getattr(failure, 'message', failure)} {body or ''}".lower(),
    )


def was_refused(failure: Exception) -> bool:
    """Whether the server answered with a status of failure, or was never reached: no cost."""
    import httpx2

    if rejection_of(failure) is not None:
        return True
    return isinstance(failure.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout)


def translate(failure: Exception, endpoint: Endpoint, model: str) -> LLMError:
    """Our error for a failure, with the next step."""
    if isinstance(failure.__cause__, LLMError):  # From the bounds on what a server may send.
        return failure.__cause__
    if (rejection := rejection_of(failure)) is not None:
        return _of_status(failure, rejection, endpoint, model)
    import openai

    said = safe_text(_words(failure), endpoint.api_key.reveal())
    if isinstance(failure, openai.APITimeoutError):
        return Unreachable(
            f"{endpoint.address} fell silent: {_patience(endpoint)}",
            hint="try again; a model that thinks for long needs more time (--silence-seconds)",
        )
    if isinstance(failure, openai.APIConnectionError):
        return Unreachable(
            f"no connection to {endpoint.address}, or it broke: {said}",
            hint="check that the server runs and that the base URL is right",
        )
    if isinstance(failure, ValueError | RecursionError):
        return ServerFailed(
            f"{endpoint.address} sent an event that is not of the protocol: {said}",
            hint="check the base URL, or try the other wire (--wire responses or chat)",
        )
    return _of_code(str(getattr(failure, "code", None) or ""), said)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a server asks to wait, as a number or as a date (RFC 9110, 10.2.3)."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if seconds < float("inf") else None


def _of_status(
    failure: Exception, rejection: Rejection, endpoint: Endpoint, model: str
) -> LLMError:
    said = safe_text(_words(failure), endpoint.api_key.reveal())
    where = f"{endpoint.address} answered {rejection.status}: {said}"
    wait = retry_after(_headers(failure), time.time())
    status = rejection.status
    if is_unknown_model(rejection, model):
        return NoSuchModel(f"{endpoint.address} has no model '{model}': {said}", hint=SEE_MODELS)
    if status == 401:
        return AuthenticationFailed(where, hint="check the API key and that it is of this server")
    if status == 403:
        return AuthenticationFailed(where, hint="the key may not do this; check its permissions")
    if rejection.code in CREDIT_CODES or status == 402:
        return OutOfCredit(where, hint="add credit to the account, or use another endpoint")
    if status == 429:
        return RateLimited(where, hint="wait, or lower the rate of calls", retry_after=wait)
    if status >= 500 or status in PASSING_STATUSES:
        return ServerFailed(where, hint="try again; look at the server's log", retry_after=wait)
    if status in (404, 405):
        return RequestRefused(where, hint="check the base URL: it usually ends in /v1")
    return _refused(where, rejection)


def _refused(where: str, rejection: Rejection) -> RequestRefused:
    if "context" in rejection.code or "context length" in rejection.text:
        hint = "the prompt is too long for this model; choose one with a longer context"
    else:
        hint = "the server does not take this request; try another wire (--wire) or model"
    return RequestRefused(where, hint=hint)


def _of_code(code: str, said: str) -> LLMError:
    where = f"the server stopped in the middle of its answer: {said}"
    if code in CREDIT_CODES:
        return OutOfCredit(where, hint="add credit to the account, or use another endpoint")
    if "rate_limit" in code or code == "429":
        return RateLimited(where, hint="wait, or lower the rate of calls")
    if "context_length" in code:
        hint = "the prompt is too long for this model; choose one with a longer context"
        return RequestRefused(where, hint=hint)
    return ServerFailed(where, hint="try again; look at the server's log")


def _words(failure: Exception) -> str:
    """The server's words, else the exception's, with the cause of a lost connection."""
    body = getattr(failure, "body", None)
    if isinstance(body, dict):
        for name in ("message", "detail", "error"):
            if isinstance(body.get(name), str):
                return str(body[name])
    words = str(getattr(failure, "message", None) or failure)
    cause = failure.__cause__
    return f"{words} ({cause})" if cause is not None and str(cause) else words


def _headers(failure: Exception) -> Mapping[str, str]:
    response = getattr(failure, "response", None)
    headers: Mapping[str, str] = getattr(response, "headers", {})
    return headers


def _patience(endpoint: Endpoint) -> str:
    times = endpoint.timeouts
    return f"nothing came for {times.silence:g} s (or no connection for {times.connect:g} s)"
