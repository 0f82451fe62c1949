"""An OpenAI-compatible server whose answers a person writes, each after its prompt existed.

    python benchmarks/partner_server.py FOLDER [--port N]

A prompt is known by the hash of its messages. Its first request writes `FOLDER/prompts/HASH.json`
and waits until `FOLDER/answers/HASH.txt` (an answer) or `HASH.json` (a list of tool calls, {"name",
"arguments"}) stands. A run that is stopped meanwhile asks the same again when it is resumed; what a
run on a GPU will ask up to its next measurement, `partner_away.py` asks without one.
`FOLDER/log.jsonl` has a line for each request: when, which prompt, whether its answer stood, and
when that was written. It speaks the chat wire, and counts a token for four characters.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "by-hand"
"""The name by which sessions show that no model wrote the answers."""
CHARACTERS_A_TOKEN = 4
SECONDS_BETWEEN_LOOKS = 0.5
Json = dict[str, Any]


def prompt_hash(messages: list[Json]) -> str:
    """What names a prompt: sixteen digits of the SHA-256 of its messages."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


def stamp(seconds: float) -> str:
    """UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def log_message(self, *_: object) -> None:
        """The log is `log.jsonl`."""

    def do_GET(self) -> None:
        model = {"id": MODEL, "object": "model", "created": 0}
        self.send_json(200, {"object": "list", "data": [model]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/chat/completions"):
            self.send_json(404, {"error": {"message": "Not Found", "code": "not_found"}})
            return
        name = prompt_hash(body["messages"])
        if self.answer_of(name) is None:
            self.write_prompt(name, body)
            self.note_request(name, None)
        while (answer := self.answer_of(name)) is None:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        self.note_request(name, answer)
        self.stream(body, answer)

    def note_request(self, name: str, answer: Path | None) -> None:
        """A line of the log."""
        entry = {"at": stamp(time.time()), "prompt": name, "answered": answer is not None}
        if answer is not None:
            entry["answer_written"] = stamp(answer.stat().st_mtime)
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(entry) + "\n")

    def answer_of(self, name: str) -> Path | None:
        """The file that answers a prompt."""
        files = (self.folder / "answers" / f"{name}.{kind}" for kind in ("txt", "json"))
        return next((file for file in files if file.exists()), None)

    def write_prompt(self, name: str, body: Json) -> None:
        """Keep a prompt that nobody has answered; the first time is its time."""
        file = self.folder / "prompts" / f"{name}.json"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            kept = {"at": stamp(time.time()), "messages": body["messages"]}
            kept["tools"] = [tool["function"]["name"] for tool in body.get("tools", [])]
            kept["form"] = body.get("response_format")
            file.write_text(json.dumps(kept, indent=1), encoding="utf-8")

    def stream(self, body: Json, answer: Path) -> None:
        """Send an answer as the events of a chat completion."""
        written = answer.read_text(encoding="utf-8")
        delta: Json = {"role": "assistant", "content": written}
        finish = "stop"
        if answer.suffix == ".json":
            calls = enumerate(json.loads(written))
            finish, delta = "tool_calls", {"role": "assistant", "content": ""}
            delta["tool_calls"] = [
                {
                    "index": number,
                    "id": f"call_{answer.stem}_{number}",
                    "type": "function",
                    "function": {"name": c["name"], "arguments": json.dumps(c["arguments"])},
                }
                for number, c in calls
            ]
        asked = sum(len(str(message.get("content"))) for message in body["messages"])
        usage = {
            "prompt_tokens": asked // CHARACTERS_A_TOKEN,
            "completion_tokens": len(written) // CHARACTERS_A_TOKEN,
        }
        base = {"id": answer.stem, "object": "chat.completion.chunk", "created": 0, "model": MODEL}
        events = [
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {**base, "choices": [], "usage": usage},
        ]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]
        self.send("text/event-stream", 200, "".join(lines))

    def send_json(self, status: int, value: Json) -> None:
        self.send("application/json", status, json.dumps(value))

    def send(self, kind: str, status: int, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where prompts, answers and the log are")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    Handler.folder = arguments.folder
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler)
    print(f"ready http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
