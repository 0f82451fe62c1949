"""Puts the team of a run together. Only here the loop meets language models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui.agents.team import Team
from astra_tui.engine.record import Record
from astra_tui.model.errors import UserError
from astra_tui.model.events import ExchangeMade, StepRemembered
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.session.blobs import read_blob
from astra_tui.session.reading import has_session, read_journal

if TYPE_CHECKING:
    from astra_tui.agents.llm import OpenAILLM, Prices
    from astra_tui.agents.llm.roles.booking import BookedExchange

OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True)
class ModelAccess:
    """What it takes to call models. It holds the key and is never stored or printed."""

    key: str = field(default="", repr=False)
    prices: Prices | None = None


class ExchangeBook:
    """Journals every call of a model, and what the single agent remembers of them.

    It is given to the team before there is a record.
    """

    def __init__(self) -> None:
        self._record: Record | None = None

    def open(self, record: Record) -> None:
        """From now on calls are journaled there."""
        self._record = record

    def remember(self, prompt: str, answer: str) -> None:
        """A step that the single agent's conversation holds from now on."""
        assert self._record is not None
        put = self._record.store.put
        self._record.emit(StepRemembered(put(prompt), put(answer)))

    def __call__(self, exchange: BookedExchange) -> None:
        assert self._record is not None
        store = self._record.store
        self._record.emit(
            ExchangeMade(
                purpose=exchange.purpose,
                model=exchange.model,
                request=store.put(exchange.request),
                reply=store.put(exchange.reply),
                input_tokens=exchange.usage.input_tokens,
                output_tokens=exchange.usage.output_tokens,
                seconds=exchange.seconds,
                dollars=exchange.dollars,
                error=exchange.error,
            )
        )


def remembered_steps(folder: Path) -> tuple[tuple[str, str], ...]:
    """What the single agent of a session has said and was told so far; nothing in a new folder.

    Raises UserError when the journal or one of its texts cannot be read.
    """
    if not has_session(folder):
        return ()
    return tuple(
        (read_blob(folder, event.prompt), read_blob(folder, event.answer))
        for event in read_journal(folder).events
        if isinstance(event, StepRemembered)
    )


async def build_team(
    settings: RunSettings,
    access: ModelAccess,
    book: ExchangeBook,
    earlier: Sequence[tuple[str, str]] = (),
) -> Team:
    """The team that the settings name; `earlier` is what a single agent remembers already.

    Raises UserError when a model is needed and not set up.
    """
    if settings.team is TeamKind.PLAYBOOK:
        from astra_tui.agents.playbook.team import PlaybookTeam

        return PlaybookTeam()
    from astra_tui.agents.llm import Prices
    from astra_tui.agents.llm.roles.conversation import Memory
    from astra_tui.agents.llm.team import LlmTeam

    llm = _open_model(settings, access)
    if not settings.model:
        await _refuse_without_model(llm)
    return LlmTeam(
        llm,
        settings.model,
        access.prices or Prices(),
        book,
        single=settings.team is TeamKind.LLM_SINGLE,
        memory=Memory(earlier, book.remember),
    )


def _open_model(settings: RunSettings, access: ModelAccess) -> OpenAILLM:
    from astra_tui.agents.llm import Endpoint, OpenAILLM, Secret

    if not access.key and not settings.base_url:
        raise UserError(
            f"team {settings.team.value} needs a model, and there is neither a key nor a server",
            hint="set OPENAI_API_KEY, or say --base-url http://... --model NAME, "
            "or --team playbook, which needs none",
        )
    return OpenAILLM(Endpoint(settings.base_url or OPENAI_URL, Secret(access.key)))


async def _refuse_without_model(llm: OpenAILLM) -> None:
    from astra_tui.agents.llm.models import model_required, offered_models

    try:
        raise UserError(model_required(await offered_models(llm)))
    finally:
        await llm.close()
