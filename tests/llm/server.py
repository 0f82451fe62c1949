"""An OpenAI-compatible server on loopback that answers from a script; only the standard library.

    python tests/llm/server.py [SCRIPT.json] [--port N]

It prints `ready http://127.0.0.1:PORT/v1` when it listens (port 0, the default, takes any free
one), streams over both wires, and ends on SIGTERM. The script is one JSON object; all keys may be
left out:

    key       the only key that is accepted; without it any is
    models    names of the models (default: ["test-model"])
    wires     which of "chat" and "responses" exist (default: both)
    usage     false: no answer says how many tokens it took
    strict    true: schemas of answers are refused as OpenAI refuses those that its strict mode does
              not take
    newline   "\\r\\n": lines of the stream end so
    forward   the base URL of another server, which answers what no entry fits; an entry with
              "forward": true sends its answer up to the fault
    refuse    rules; the first that fits refuses the request:
                param      a parameter, nested ones with dots ("response_format.type")
                value      refuse this value only (without it: any value)
                unless     refuse every value but this one, and its absence
                tools      true: only requests with tools
                wire       only this wire
                status, message, code    of the refusal (400, a sentence, "unsupported_parameter")
    replies   what is answered; the first entry that fits and is not used up is taken:
                when       {"system": part of the system prompt, "user": part of the last message}
                times      how often it may be taken (default 1; null: for ever)
                text       the answer, or a JSON value that is encoded as the answer
                reasoning  what the model thinks first
                tool_calls [{"name": ..., "arguments": text or object}]
                finish     "stop", "length", "content_filter", or null for no end mark
                repeat_ids true: every piece of a tool call repeats its id and name
                refusal    words with which the model declines
                piece      characters of a piece of the stream (default 16)
                halves     true: pieces are counted in UTF-16 units, so that some end in half a
                           character
                fault      what goes wrong instead or on the way:
                  "status"   answers `status` with `error` ({"message", "code"}) and `headers`;
                             "{key}" in the message stands for the key that was sent
                  "drop"     closes the connection without an answer
                  "break"    closes it after `after` events
                  "stall"    falls silent after `after` events
                  "error"    sends `error` as an event after `after` events
                  "garbage"  sends an event that is not JSON after `after` events
                  "html"     answers 200 with a page
                  "flood"    sends `bytes` without the end of a line, as an answer, or as the
                             error of a `status`
                  "deep"     sends an event that is nested 100,000 deep
                  "gzip"     says that its answer is compressed

For tests: PUT /script takes a new script, GET /log tells the requests since, and GET /aborted
answers when a client has gone away while its answer was stalled.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]
USAGE = {"input": 120, "cached": 20, "output": 30, "reasoning": 10}


class Server:
    """The state between requests: the script, what is left of it, and the log."""

    def __init__(self, script: Json):
        self.load(script)

    def load(self, script: Json) -> None:
        """Start a script from its beginning."""
        self.script = script
        self.left = [dict(entry) for entry in script.get("replies", [])]
        self.log: list[Json] = []
        self.aborted = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection; several requests one after another."""
        try:
            while await self.one_request(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def one_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection can go on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:])
        }
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        body = json.loads(content or b"{}")
        answer = Answering(self, reader, writer, headers)
        if path == "/script":
            self.load(body)
            return await answer.plain(200, {})
        if path == "/log":
            return await answer.plain(200, {"requests": self.log})
        if path == "/aborted":
            await self.aborted.wait()
            return await answer.plain(200, {})
        self.log.append({"method": method, "path": path, "body": body})
        return await answer.api(path, body)

    def next_reply(self, system: str, user: str) -> Json | None:
        """The entry for a request, taken from the script."""
        for entry in self.left:
            when = entry.get("when", {})
            fits = when.get("system", "") in system and when.get("user", "") in user
            times = entry.get("times", 1)
            if fits and times != 0:
                entry["times"] = None if times is None else times - 1
                return entry
        return None


class Answering:
    """One answer."""

    def __init__(
        self,
        server: Server,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        headers: dict[str, str],
    ):
        self.server = server
        self.script = server.script
        self.reader = reader
        self.writer = writer
        self.key = headers.get("authorization", "").removeprefix("Bearer ")

    async def api(self, path: str, body: Json) -> bool:
        if self.script.get("key", self.key) != self.key:
            message = f"Incorrect API key provided: {self.key}."
            return await self.error(401, message, "invalid_api_key")
        models = self.script.get("models", ["test-model"])
        if path == "/v1/models":
            listed = [{"id": name, "object": "model", "created": 0} for name in models]
            return await self.plain(200, {"object": "list", "data": listed})
        wire = {"/v1/chat/completions": "chat", "/v1/responses": "responses"}.get(path)
        if wire is None or wire not in self.script.get("wires", ["chat", "responses"]):
            return await self.plain(404, {"detail": "Not Found"})
        if body.get("model") not in models:
            message = f"The model `{body.get('model')}` does not exist or you have no access to it."
            return await self.error(404, message, "model_not_found")
        if (rule := self.refusing_rule(wire, body)) is not None:
            message = rule.get("message", f"Unsupported parameter: '{rule['param']}'.")
            code = rule.get("code", "unsupported_parameter")
            return await self.error(rule.get("status", 400), message, code, rule["param"])
        if self.script.get("strict") and (problem := schema_problem(wire, body)):
            param = "text.format.schema" if wire == "responses" else "response_format"
            return await self.error(400, problem, "invalid_json_schema", param)
        if any(m.get("content", "") is None for m in body.get("messages", [])):
            return await self.error(422, "content: Input should be a valid string", "invalid")
        entry = self.server.next_reply(*said(wire, body))
        if "forward" in self.script and (entry or {"forward": True}).get("forward"):
            return await self.forward(path, body, entry)
        if entry is None:
            return await self.error(400, "the script has no reply for this", "script")
        return await self.reply(entry, wire, body)

    async def forward(self, path: str, body: Json, entry: Json | None) -> bool:
        """The answer of another server, cut after some of its events where an entry says so."""
        place = urlsplit(self.script["forward"])
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            content = json.dumps(body).encode()
            head = (
                f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
            )
            writer.write(head.encode() + content)
            events = 0
            while part := await reader.read(65_536):
                self.writer.write(part)
                await self.writer.drain()
                events += part.count(b"data: ")
                if entry is not None and events >= entry["after"]:
                    break
        finally:
            writer.close()
        return False

    def refusing_rule(self, wire: str, body: Json) -> Json | None:
        for rule in self.script.get("refuse", []):
            if rule.get("wire", wire) != wire or (rule.get("tools") and not body.get("tools")):
                continue
            value = at(body, rule["param"])
            if "unless" in rule:
                refused = value != rule["unless"]
            else:
                refused = value is not None and rule.get("value", value) == value
            if refused:
                return rule
        return None

    async def reply(self, entry: Json, wire: str, body: Json) -> bool:
        fault = entry.get("fault")
        if fault == "drop":
            return False
        if fault == "status":
            error = {"message": "injected", **entry.get("error", {})}
            headers = entry.get("headers", {})
            message = error["message"].replace("{key}", self.key)
            return await self.error(entry["status"], message, error.get("code"), headers=headers)
        if fault == "html":
            self.head(200, "text/html", {"Content-Length": "13"})
            self.writer.write(b"<html></html>")
            await self.writer.drain()
            return True
        if fault == "flood":
            return await self.flood(entry.get("status", 200), entry["bytes"])
        events = chat_events(entry, body, self.script)
        if wire == "responses":
            events = responses_events(entry, body, self.script)
        return await self.stream(events, entry, wire)

    async def stream(self, events: list[Json | str], entry: Json, wire: str) -> bool:
        """Send events, with the entry's fault after `after` of them."""
        fault = entry.get("fault")
        extra = {"Content-Encoding": "gzip"} if fault == "gzip" else {}
        self.head(200, "text/event-stream", {"Transfer-Encoding": "chunked", **extra})
        for event in events[: entry.get("after", 1)] if fault else events:
            await self.event(event, wire)
        if fault == "break":
            return False
        if fault == "stall":
            await self.stall()
            return False
        if fault == "garbage":
            await self.event("{not json", wire)
        elif fault == "deep":
            await self.event('{"choices":' + "[" * 100_000 + "]" * 100_000 + "}", wire)
        elif fault == "error":
            error = {"message": "injected", **entry.get("error", {})}
            message = error["message"].replace("{key}", self.key)
            if wire == "chat":
                await self.event({"error": {**error, "message": message}}, wire)
            else:
                failed = {"status": "failed", "error": {**error, "message": message}}
                await self.event({"type": "response.failed", "response": failed}, wire)
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()
        return True

    async def flood(self, status: int, size: int) -> bool:
        """One line without an end, as long as someone reads it."""
        kind = "text/event-stream" if status == 200 else "application/json"
        self.head(status, kind, {"Transfer-Encoding": "chunked"})
        part = b"x" * 65_536
        for _ in range(size // len(part)):
            self.writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await self.writer.drain()
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()
        return True

    async def stall(self) -> None:
        """Silence until the client goes away."""
        if await self.reader.read(1) == b"":
            self.server.aborted.set()

    async def event(self, event: Json | str, wire: str) -> None:
        newline = self.script.get("newline", "\n")
        data = event if isinstance(event, str) else json.dumps(event)
        name = (
            f"event: {event['type']}{newline}" if isinstance(event, dict) and wire != "chat" else ""
        )
        text = f"{name}data: {data}{newline}{newline}".encode()
        self.writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
        await self.writer.drain()

    async def error(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> bool:
        error = {"message": message, "type": "error", "param": param, "code": code}
        return await self.plain(status, {"error": error}, headers)

    async def plain(self, status: int, value: Any, headers: dict[str, str] | None = None) -> bool:
        content = json.dumps(value).encode()
        self.head(
            status, "application/json", {"Content-Length": str(len(content)), **(headers or {})}
        )
        self.writer.write(content)
        await self.writer.drain()
        return True

    def head(self, status: int, kind: str, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} -", f"Content-Type: {kind}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())


def at(value: Any, path: str) -> Any:
    """What is at a dotted path of a JSON value; None where nothing is."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


NESTING = 10
PROPERTIES = 5_000
"""What OpenAI's guide to structured outputs says of the size of a schema."""
KNOWN_KEYS = {
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum",
    "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems",
    "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
}  # fmt: skip


def schema_problem(wire: str, body: Json) -> str:
    """What OpenAI would say of the strict schema of a request, "" for nothing."""
    form = at(body, "text.format" if wire == "responses" else "response_format.json_schema")
    if not isinstance(form, dict) or not form.get("strict"):
        return ""
    name, schema = form.get("name", ""), form.get("schema", {})
    begin = f"Invalid schema for response_format '{name}': "
    if not name or len(name) > 64 or set(name) - set(NAME_SIGNS):
        return (
            f"Invalid 'name': '{name}'. Expected a string that matches '^[a-zA-Z0-9_-]{{1,64}}$'."
        )
    if schema.get("type") != "object" or "anyOf" in schema:
        return f"{begin}schema must be a JSON Schema of 'type: \"object\"'."
    problem = node_problem(schema, (), set(schema.get("$defs", {})))
    if not problem and count_properties(schema) > PROPERTIES:
        problem = "In context=(), too many properties."
    return begin + problem if problem else ""


NAME_SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


def node_problem(node: Any, where: tuple[str, ...], names: set[str]) -> str:
    """What is wrong with a part of a schema; the first thing that is found."""
    if not isinstance(node, dict):
        return f"In context={where}, {node!r} is not of type 'object', 'boolean'."
    if "$ref" in node:
        others = sorted(set(node) - {"$ref"})
        if others:
            return f"context={where}, $ref cannot have keywords {{{str(others)[1:-1]}}}."
        if node["$ref"].removeprefix("#/$defs/") not in names:
            return (
                f"In context={where}, reference to component '{node['$ref']}' which was not found."
            )
        return ""
    for key in node:
        if key not in KNOWN_KEYS or (key == "$defs" and where):
            return f"In context={where}, '{key}' is not permitted."
    if "type" not in node and "anyOf" not in node:
        return f"In context={where}, schema must have a 'type' key."
    if where.count("properties") > NESTING:
        return f"In context={where}, the schema is nested too deeply."
    if node.get("type") == "object":
        properties = node.get("properties", {})
        if node.get("additionalProperties") is not False:
            closed = "'additionalProperties' is required to be supplied and to be false"
            return f"In context={where}, {closed}."
        missing = [name for name in properties if name not in node.get("required", [])]
        if missing or set(node.get("required", [])) - set(properties):
            return (
                f"In context={where}, 'required' is required to be supplied and to be an array "
                f"including every key in properties. Missing '{(missing or ['?'])[0]}'."
            )
    if node.get("type") == "array" and "items" not in node:
        return f"In context={where}, array schema missing items."
    inner: list[tuple[Any, tuple[str, ...]]] = []
    for key in ("properties", "$defs"):
        inner += [(part, (*where, key, name)) for name, part in node.get(key, {}).items()]
    inner += [(part, (*where, "anyOf", str(n))) for n, part in enumerate(node.get("anyOf", []))]
    inner += [(node["items"], (*where, "items"))] if "items" in node else []
    return next((p for part, place in inner if (p := node_problem(part, place, names))), "")


def count_properties(node: Any) -> int:
    if isinstance(node, list):
        return sum(map(count_properties, node))
    if not isinstance(node, dict):
        return 0
    return len(node.get("properties", {})) + sum(map(count_properties, node.values()))


def said(wire: str, body: Json) -> tuple[str, str]:
    """The system prompt and the last message of a request."""
    if wire == "responses":
        last = body["input"][-1] if body["input"] else {}
        return body.get("instructions", ""), last.get("content") or last.get("output") or ""
    messages = body["messages"]
    system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
    return system, messages[-1]["content"]


def text_of(entry: Json) -> str:
    text = entry.get("text", "")
    return text if isinstance(text, str) else json.dumps(text)


def calls_of(entry: Json) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each tool call."""
    return [
        (
            f"call_{n}",
            call["name"],
            call["arguments"]
            if isinstance(call["arguments"], str)
            else json.dumps(call["arguments"]),
        )
        for n, call in enumerate(entry.get("tool_calls", []))
    ]


def pieces(text: str, entry: Json) -> list[str]:
    size = entry.get("piece", 16)
    if entry.get("halves"):
        units = text.encode("utf-16-be", "surrogatepass")
        text = "".join(chr(int.from_bytes(units[i : i + 2])) for i in range(0, len(units), 2))
    return [text[start : start + size] for start in range(0, len(text), size)]


def chat_events(entry: Json, body: Json, script: Json) -> list[Json | str]:
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in pieces(entry.get("reasoning", ""), entry)]
    deltas += [{"content": piece} for piece in pieces(text_of(entry), entry)]
    if "refusal" in entry:
        deltas.append({"refusal": entry["refusal"]})
    for index, (name_id, name, arguments) in enumerate(calls_of(entry)):
        for n, piece in enumerate(pieces(arguments, entry) or [""]):
            call: Json = {"index": index, "function": {"arguments": piece}}
            if n == 0 or entry.get("repeat_ids"):
                call["id"] = name_id
                call["function"]["name"] = name
            deltas.append({"tool_calls": [call]})
    base = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    events: list[Json | str] = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    finish = entry.get("finish", "tool_calls" if entry.get("tool_calls") else "stop")
    if finish is not None:
        end = {"index": 0, "delta": {}, "finish_reason": finish}
        events.append({**base, "choices": [end]})
    if script.get("usage", True) and at(body, "stream_options.include_usage"):
        usage = {
            "prompt_tokens": USAGE["input"],
            "completion_tokens": USAGE["output"],
            "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
            "completion_tokens_details": {"reasoning_tokens": USAGE["reasoning"]},
        }
        events.append({**base, "choices": [], "usage": usage})
    return [*events, "[DONE]"]


def responses_events(entry: Json, body: Json, script: Json) -> list[Json | str]:
    events: list[Json | str] = [{"type": "response.created", "response": {"status": "queued"}}]
    if "reasoning" in entry:
        events += [
            {"type": "response.reasoning_summary_text.delta", "delta": piece}
            for piece in pieces(entry["reasoning"], entry)
        ]
        thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e30="}
        events.append({"type": "response.output_item.done", "output_index": 0, "item": thought})
    events += [
        {"type": "response.output_text.delta", "delta": piece}
        for piece in pieces(text_of(entry), entry)
    ]
    if "refusal" in entry:
        events.append({"type": "response.refusal.delta", "delta": entry["refusal"]})
    for index, (call_id, name, arguments) in enumerate(calls_of(entry), 1):
        call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        events.append({"type": "response.output_item.done", "output_index": index, "item": call})
    finish = entry.get("finish", "stop")
    if finish is None:
        return events
    response: Json = {"model": body["model"], "status": "completed"}
    if script.get("usage", True):
        response["usage"] = {
            "input_tokens": USAGE["input"],
            "output_tokens": USAGE["output"],
            "input_tokens_details": {"cached_tokens": USAGE["cached"]},
            "output_tokens_details": {"reasoning_tokens": USAGE["reasoning"]},
        }
    if finish == "stop":
        return [*events, {"type": "response.completed", "response": response}]
    reason = "max_output_tokens" if finish == "length" else finish
    response["incomplete_details"] = {"reason": reason}
    return [*events, {"type": "response.incomplete", "response": response}]


async def main(arguments: list[str]) -> None:
    port = int(arguments[arguments.index("--port") + 1]) if "--port" in arguments else 0
    files = [a for a in arguments if a.endswith(".json")]
    script = json.loads(Path(files[0]).read_text(encoding="utf-8")) if files else {}
    server = Server(script)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port)
    port = listening.sockets[0].getsockname()[1]
    print(f"ready http://127.0.0.1:{port}/v1", flush=True)
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
