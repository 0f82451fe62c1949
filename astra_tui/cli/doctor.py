"""`astra-tui doctor`: what works here, proven by trying it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

from astra_tui import plain
from astra_tui.cli.command import Options, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON
from astra_tui.model.health import Health, Probe
from astra_tui.model.settings import api_key


@command(
    "try what is installed, and say what is missing",
    "Everything reported as working was tried just now, a model's server too where one is set "
    "up (three short calls).",
    flag("--model", metavar="NAME", help="the model to try"),
    flag("--base-url", metavar="URL", help="an OpenAI-compatible server to try"),
    flag("--config", metavar="FILE", help="a TOML file of settings"),
    JSON,
)
def run(options: Options) -> int:
    """Prints each probe as it ends, or all of them as JSON."""
    from astra_tui.cli.answers import DoctorAnswer
    from astra_tui.lab.doctor import examine
    from astra_tui.plain.health import print_probe, print_prognosis

    probes: list[Probe] = []
    for probe in chain(examine(), _endpoint(options)):
        probes.append(probe)
        if not options.json:
            print_probe(probe)
    lacking = [p for p in probes if p.needed and p.health is not Health.OK]
    code = ExitCode.UNSUPPORTED if lacking else ExitCode.OK
    if options.json:
        plain.print_json(DoctorAnswer(int(code), tuple(probes)))
    else:
        print_prognosis([p.name for p in lacking])
    return code


def _endpoint(options: Options) -> Iterator[Probe]:
    import asyncio

    from astra_tui.cli.settings import read_choices
    from astra_tui.engine.endpoint_probe import probe_endpoint

    choices = read_choices(options)
    yield asyncio.run(
        probe_endpoint(choices.base_url or "", choices.model or "", api_key(os.environ))
    )
