"""What calls cost, where the user gave the prices; none are built in, since they go stale."""

from __future__ import annotations

import msgspec

from astra_tui.llm.messages import Usage


class Prices(msgspec.Struct, frozen=True):
    """Dollars for a million tokens; None where the price is not known."""

    input_per_million: float | None = None
    output_per_million: float | None = None
    cached_per_million: float | None = None


def cost(usage: Usage, prices: Prices) -> float | None:
    """Dollars of some calls; None where a price that matters is not known.

    Cached tokens without a price of their own cost as much as others.
    """
    cached = prices.cached_per_million
    cached = prices.input_per_million if cached is None else cached
    parts = (
        (usage.input_tokens - usage.cached_tokens, prices.input_per_million),
        (usage.cached_tokens, cached),
        (usage.output_tokens, prices.output_per_million),
    )
    total = 0.0
    for tokens, price in parts:
        if tokens and price is None:
            return None
        total += tokens * (price or 0.0) / 1e6
    return total
