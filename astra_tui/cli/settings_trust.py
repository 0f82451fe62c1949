"""What the settings of a session may not decide, since a stranger may have made it."""

from __future__ import annotations

from pathlib import Path

from astra_tui.cli.settings import Choices
from astra_tui.model.errors import UserError
from astra_tui.model.settings import RunSettings, TeamKind


def refuse_foreign_server(
    before: RunSettings, choices: Choices, folder: Path, *, trust: bool
) -> None:
    """A key must not go to a server that no one here has named."""
    if choices.base_url is not None or trust or not before.base_url:
        return
    if (choices.team or before.team) is not TeamKind.PLAYBOOK:
        raise UserError(
            f"the session names the model's server, {before.base_url}, to which your key would go",
            file=str(folder),
            hint=f"if it is yours, say: --base-url {before.base_url}",
        )
