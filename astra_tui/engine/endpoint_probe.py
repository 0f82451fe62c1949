"""What `doctor` says about a model's server, after three short calls."""

from __future__ import annotations

from astra_tui.engine.team_factory import OPENAI_URL
from astra_tui.model.environment import Health, Probe
from astra_tui.model.errors import UserError
from astra_tui.present import numbers

_NAME = "language model"
_GIVES = "the teams llm and llm-single"


async def probe_endpoint(base_url: str, model: str, key: str) -> Probe:
    """Tries the model of a server; a model that is not named is MISSING with those on offer."""
    if not (base_url or key):
        return Probe(
            _NAME, Health.MISSING, "neither a key nor a server is set", _GIVES,
            "set OPENAI_API_KEY or --base-url; --team playbook needs neither", needed=False,
        )  # fmt: skip
    from astra_tui.llm import Endpoint, OpenAILLM, Secret
    from astra_tui.llm.models import model_required, offered_models, probe

    try:
        endpoint = Endpoint(base_url or OPENAI_URL, Secret(key))
    except UserError as error:
        return _probe(Health.BROKEN, error.message, error.hint)
    async with OpenAILLM(endpoint) as llm:
        if not model:
            try:
                offered = await offered_models(llm)
            except UserError as error:
                return _probe(Health.BROKEN, error.message, error.hint)
            return _probe(Health.MISSING, "no model is named", model_required(offered))
        tried = await probe(llm, model)
    if tried.error:
        return _probe(Health.BROKEN, f"{model}: {tried.error}", "check --model and --base-url")
    able = [
        f"{tried.wire} wire",
        f"schemas by {tried.schema}",
        "streams" if tried.streaming else "does not stream",
        "tools" if tried.tools else "no tools",
    ]
    return _probe(
        Health.OK, f"{model}: {', '.join(able)}; {numbers.seconds(tried.seconds)} for a line"
    )


def _probe(health: Health, detail: str, remedy: str = "") -> Probe:
    return Probe(_NAME, health, detail, _GIVES, remedy, needed=False)
