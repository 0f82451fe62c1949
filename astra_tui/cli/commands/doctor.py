"""`astra-tui doctor`: what works here, proven by trying it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.click_command import Options, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON
from astra_tui.model.settings import api_key

if TYPE_CHECKING:
    from astra_tui.model.environment import Probe


@command(
    "try what is installed, and say what is missing",
    "Everything reported as working was tried just now, a model's server too where one is set "
    "up (three short calls).",
    flag("--model", metavar="NAME", help="the model to try"),
    flag("--base-url", metavar="URL", help="an OpenAI-compatible server to try"),
    flag("--config", metavar="FILE", help="a TOML file of settings"),
    JSON,
    example="astra-tui doctor",
)
def run(options: Options) -> int:
    """Prints all probes, in lines or as JSON."""
    from astra_tui.cli.json_answers import DoctorAnswer
    from astra_tui.lab.doctor import examine
    from astra_tui.model.environment import lacking_probes
    from astra_tui.plain.output import Steps
    from astra_tui.present.outcomes import doctor_blocks

    probes: list[Probe] = []
    with Steps() as shown:
        for probe in chain(examine(), _endpoint(options)):
            probes.append(probe)
            shown.begin(f"tried {probe.name}: {probe.health.value}")
    code = ExitCode.UNSUPPORTED if lacking_probes(probes) else ExitCode.OK
    answer = DoctorAnswer(int(code), tuple(probes))
    plain.print_answer(answer, options.json, lambda: doctor_blocks(probes))
    return code


def _endpoint(options: Options) -> Iterator[Probe]:
    import asyncio

    from astra_tui.cli.settings import read_choices
    from astra_tui.engine.endpoint_probe import probe_endpoint

    choices = read_choices(options)
    yield asyncio.run(
        probe_endpoint(choices.base_url or "", choices.model or "", api_key(os.environ))
    )
