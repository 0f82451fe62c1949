"""`doctor` tries a model's server: a real one, on loopback."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_tui.cli import answers
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.engine.endpoint_probe import probe_endpoint
from astra_tui.model.health import Health
from tests.cli.command import Shell
from tests.cli.test_json import decoded

SERVER = Path(__file__).parents[1] / "llm" / "server.py"
KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"key": KEY, "models": ["small", "large"]}))
    with subprocess.Popen(
        [sys.executable, str(SERVER), str(script)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[1]
        server.terminate()


def test_without_a_model_it_lists_what_the_server_offers(shell: Shell, url: str) -> None:
    outcome = shell.run("doctor", "--json", "--base-url", url, OPENAI_API_KEY=KEY)
    assert KEY not in outcome.out + outcome.err
    answer = decoded(outcome, answers.DoctorAnswer)
    assert outcome.code == answer.exit_code == ExitCode.OK
    probes = {p.name: p for p in answer.probes}
    assert set(probes) >= {"compiler", "emulator", "torch", "GPU"}
    assert probes["language model"].health == "missing"
    assert "large, small" in probes["language model"].remedy


def test_a_key_that_the_server_refuses_is_said_to_be_refused(url: str) -> None:
    found = asyncio.run(probe_endpoint(url, "small", "sk-other-000000"))
    assert found.health is Health.BROKEN
    assert "sk-other" not in str(found)
