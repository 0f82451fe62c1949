from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.model.approval import ApprovalStatus
from astra_tui.model.digest import content_hash
from astra_tui.model.events import ErrorOccurred, ExchangeMade, NoteAdded
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.sessions.journal_writer import REDACTED, Journal, Redactor

from .samples import ENGINEER, PLAN_QUESTION, accepted, opened, whole_session

PLAIN = "correct-horse-battery"
ESCAPED = 'qu"ote\\back/slash\nline é'
FROM_VARIABLE = "hunter2hunter2"
SHAPED = (
    "sk-proj-abcdefghijklmnop1234",
    "hf_abcdefghijklmnopqrstuv",
    "ghp_abcdefghijklmnopqrstuvwxyz012345",
    "eyJhbGciOi.something_long",
)
ENVIRONMENT = {"MY_API_TOKEN": FROM_VARIABLE, "HOME": "/home/somebody", "SHORT_KEY": "abc"}
REDACTOR = Redactor([PLAIN, ESCAPED], ENVIRONMENT)


def texts_with_secrets() -> list[str]:
    request = json.dumps({"headers": {"Authorization": f"Bearer {SHAPED[3]}"}, "key": ESCAPED})
    return [
        f"before {PLAIN} after",
        f"{ESCAPED}",
        request,
        json.dumps({"reply": request}),
        f"https://host/?api_key={FROM_VARIABLE}",
        f"error: 401 for {SHAPED[0]}, {SHAPED[1]} and {SHAPED[2]}",
    ]


def traces_of_secrets(folder: Path) -> list[str]:
    """Files of a session with a secret, or with a piece of the one that is escaped."""
    secrets = [PLAIN, FROM_VARIABLE, *SHAPED, "back", "slash\\nline"]
    return [
        f"{path}: {secret}"
        for path in folder.rglob("*")
        if path.is_file()
        for secret in secrets
        if secret.encode() in path.read_bytes() or secret in str(path)
    ]


def test_no_file_of_a_session_holds_a_secret(tmp_path):
    with Journal.create(tmp_path, REDACTOR) as journal:
        journal.append(opened())
        for text in texts_with_secrets():
            journal.append(NoteAdded(text, ENGINEER))
            journal.append(ErrorOccurred("model", text))
            journal.append(ExchangeMade("code", "m", journal.put(text), "", 1, 1, 1.0, error=text))
            source = journal.put_source(f"// {text}\n__global__ void k() {{}}\n")
            assert journal.get(source).endswith("\n__global__ void k() {}\n")
            assert content_hash(journal.get(source)) == source
    assert traces_of_secrets(tmp_path) == []
    assert len(read_journal(tmp_path).state().notes) == len(texts_with_secrets())


def test_the_trace_finder_finds_what_an_open_writer_leaves(tmp_path):
    with Journal.create(tmp_path, Redactor(environment={})) as journal:
        journal.append(NoteAdded(f"{PLAIN} {ESCAPED}", ENGINEER))
    assert len(traces_of_secrets(tmp_path)) == 3


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abcdefgh12", f"Authorization: Bearer {REDACTED}"),
        ("OPENAI_API_KEY='abcdefgh12'", "OPENAI_API_KEY='abcdefgh12'"),
        ("api-key: abcdefgh12", f"api-key: {REDACTED}"),
        ('{"api_key": "abcdefgh12"}', f'{{"api_key": "{REDACTED}"}}'),
        ('{\\"api_key\\": \\"abcdefgh12\\"}', f'{{\\"api_key\\": \\"{REDACTED}\\"}}'),
        (f"{FROM_VARIABLE}x", f"{REDACTED}x"),
        ("task-level-parallelism-of-warps", "task-level-parallelism-of-warps"),
        ("abc /home/somebody", "abc /home/somebody"),
    ],
)
def test_texts(text, clean):
    assert REDACTOR.text(text) == clean


def test_the_longer_of_two_secrets_goes_whole():
    redactor = Redactor(["abcdefgh", "abcdefghijkl"], {})
    assert redactor.text("abcdefghijkl abcdefgh") == f"{REDACTED} {REDACTED}"


def test_lone_surrogates_can_be_written(tmp_path):
    with Journal.create(tmp_path, REDACTOR) as journal:
        journal.append(NoteAdded("a\ud800b", ENGINEER))
    assert read_journal(tmp_path).events == (NoteAdded("a?b", ENGINEER),)


def test_words_of_the_model_are_no_secrets():
    event = accepted(PLAN_QUESTION)
    cleaned = Redactor(["accepted", "engineer"], {}).clean(event)
    assert cleaned.decision.status is ApprovalStatus.ACCEPTED
    assert cleaned == event


def test_events_without_secrets_stay_what_they_are():
    assert [REDACTOR.clean(e) for e in whole_session()] == whole_session()


@settings(deadline=None, max_examples=150)
@given(
    secret=st.text(st.characters(codec="utf-8", exclude_categories=("Zs", "Cc")), min_size=8),
    before=st.text(max_size=8),
    after=st.text(max_size=8),
)
def test_a_given_secret_never_comes_through(secret, before, after):
    redactor = Redactor([secret], {})
    for text in (secret, json.dumps(secret), json.dumps(json.dumps(secret))):
        assert secret not in redactor.text(before + text + after).replace(REDACTED, "\0")


@settings(deadline=None, max_examples=100)
@given(st.text())
def test_redaction_is_stable(text):
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once
