"""Words of the launch plan's language, with their places in the file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_tui.model.errors import Place
from astra_tui.model.launch.plan import PlanError

MAX_TEXT = 32_768
MAX_TOKENS = 8_000

_PATTERN = re.compile(
    r"""(?P<space>[ \t\r\f]+)
      | (?P<comment>\#[^\n]*)
      | (?P<newline>\n)
      | (?P<real>[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)(?![\w.]))
      | (?P<integer>0[xX][0-9a-fA-F]+\b|[0-9][0-9_]*(?![\w.]))
      | (?P<name>[A-Za-z_]\w*)
      | (?P<string>"[^"\n]*")
      | (?P<operator>//|<=|>=|==|!=|::|[-+*/%<>=():,\[\]{}])
    """,
    re.VERBOSE,
)

_HINTS = {
    "&": "use 'and'",
    "|": "use 'or'",
    "!": "use 'not'",
    "?": "write 'a if condition else b'",
    ".": "write a floating-point number as 0.5 or 1e-6, without a suffix",
    ";": "end a launch with the end of the line",
    '"': "close the quotes on the same line",
}


@dataclass(frozen=True, slots=True)
class Token:
    """One word: kind is integer, real, name, string, operator, newline or end."""

    kind: str
    text: str
    place: Place


def tokenize(text: str, start: Place, file: str = "") -> list[Token]:
    """Splits plan text into tokens. `start` is the place of its first character in the file."""
    if len(text) > MAX_TEXT:
        raise PlanError(
            f"the launch plan has {len(text)} characters; at most {MAX_TEXT} are read",
            file=file,
            place=start,
        )
    tokens: list[Token] = []
    line, column, position, depth = start.line, start.column, 0, 0
    while position < len(text):
        match = _PATTERN.match(text, position)
        if match is None:
            character = text[position]
            hint = _HINTS.get(character, "")
            if character.isdigit():
                hint = _HINTS["."]
            raise PlanError(
                f"unexpected {character!r}",
                file=file,
                place=Place(line, column),
                hint=hint,
            )
        kind, word = match.lastgroup or "", match.group()
        if kind == "newline":
            if depth == 0:
                tokens.append(Token("newline", "\n", Place(line, column)))
            line, column = line + 1, 1
        else:
            if kind not in ("space", "comment"):
                depth += (word in "([{") - (word in ")]}") if kind == "operator" else 0
                depth = max(depth, 0)
                tokens.append(Token(kind, word, Place(line, column)))
            column += len(word)
        position = match.end()
        if len(tokens) > MAX_TOKENS:
            raise PlanError(
                f"the launch plan has more than {MAX_TOKENS} words", file=file, place=start
            )
    tokens.append(Token("newline", "\n", Place(line, column)))
    tokens.append(Token("end", "", Place(line, column)))
    return tokens
