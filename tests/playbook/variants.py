"""Rewrites a kernel source without changing what it means: other names, layout, loops, types.

The launch plan follows the names. Only text is changed, token by token, by means of their own:
nothing here shares code with the playbook's editing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from astra_tui.model.launch import find_plan, plan_of

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>\#[^\n]*)
      | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<number>[0-9](?:[eE][+-]|[\w.])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<sign><<=|>>=|\+\+|--|->|::|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def _tokens(text: str) -> list[tuple[str, str]]:
    return [(m.lastgroup or "", m[0]) for m in _TOKEN.finditer(text)]


def _split(source: str) -> tuple[str, str, str]:
    """The text before the launch plan, the plan, and the text behind it."""
    found = find_plan(source)
    return source[: found.begin], source[found.begin : found.end], source[found.end :]


_DECLARED = re.compile(
    r"\b(?:T|float|int|int64_t|unsigned)\s*\**\s*(?:__restrict__\s+)?([A-Za-z_]\w*)\s*(?=[=,;)\[])"
)


def renamed(source: str) -> str:
    """Every parameter, local and kernel gets a name that says nothing."""
    before, plan, after = _split(source)
    kernels = {launch.kernel for launch in plan_of(source).launches()}
    names = [*dict.fromkeys([*kernels, *_DECLARED.findall(after)])]
    new = {name: f"q{number}_" for number, name in enumerate(names)}
    code, last = "", ""
    for kind, text in _tokens(after):
        code += new.get(text, text) if kind == "word" and last != "." else text
        last = text
    for kernel in kernels:
        plan = re.sub(rf"\b{kernel}(?=\s*<)", new[kernel], plan)
    return before + plan + code


def one_line_each(source: str) -> str:
    """No comments, no indentation, one statement a line, braces on lines of their own."""
    before, plan, after = _split(source)
    pieces: list[str] = []
    depth = 0
    for kind, text in _tokens(after):
        if kind == "comment":
            continue
        if kind == "space":
            pieces.append(" ")
        elif kind == "directive":
            pieces.append(f"\n{text}\n")
        else:
            depth += text.count("(") - text.count(")")
            breaks = text in ("{", "}") or (text == ";" and depth == 0)
            pieces.append(f"\n{text}\n" if text in ("{", "}") else f"{text}\n" if breaks else text)
    lines = (line.strip() for line in "".join(pieces).splitlines())
    return before + plan + "\n\n" + "\n".join(line for line in lines if line) + "\n"


def crowded(source: str) -> str:
    """A comment in every gap, wide spaces, and braces around single statements."""
    before, plan, after = _split(_with_braces(source))
    out: list[str] = []
    for number, (kind, text) in enumerate(_tokens(after)):
        if kind == "space":
            out.append(text if number % 3 else f"  /* {number} */{text}")
        else:
            out.append(text)
    return before + plan + "".join(out)


def _with_braces(source: str) -> str:
    return re.sub(r"(if \([^;{]*?\)) ([^;{]*;)", r"\1 { \2 }", source)


_FOR = re.compile(r"( *)for \((?P<init>[^;]*); (?P<test>[^;]*); (?P<step>[^;{]*)\) \{\n")


def with_while(source: str) -> str:
    """Every `for` becomes a `while`, in a block of its own."""
    before, plan, after = _split(source)
    while match := _FOR.search(after):
        indent, end = match[1], _closing(after, match.end())
        body = after[match.end() : end]
        text = (
            f"{indent}{match['init']};\n{indent}while ({match['test']}) {{\n{body}"
            f"  {match['step']};\n{indent}"
        )
        if re.search(rf"{re.escape(match['init'])};", after[end:] + after[: match.start()]):
            text = f"{indent}{{\n{text}}}\n{indent}"
        after = after[: match.start()] + text + after[end:]
    return before + plan + after


def _closing(text: str, start: int) -> int:
    """Where the brace that is open at `start` closes."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise ValueError("a brace is never closed")


def flipped(source: str) -> str:
    """`i < n` becomes `n > i`, `i += s` becomes `i = i + s`, `h /= 2` becomes `h >>= 1`."""
    before, plan, after = _split(source)
    after = re.sub(r"; (\w+) < ([\w.]+);", r"; \2 > \1;", after)
    after = re.sub(r"; (\w+) > 0;", r"; 0 < \1;", after)
    after = re.sub(r"; (\w+) \+= ([\w.]+)\) \{", r"; \1 = \1 + \2) {", after)
    after = re.sub(r"(\w+) /= 2", r"\1 >>= 1", after)
    after = re.sub(r"if \(threadIdx\.x < (\w+)\)", r"if (\1 > threadIdx.x)", after)
    return before + plan + after


def aliased(source: str) -> str:
    """threadIdx.x and blockDim.x reach the code through locals."""
    before, plan, after = _split(source)
    head, brace, body = after.partition(") {\n")
    body = body.replace("threadIdx.x", "lane_").replace("blockDim.x", "count_")
    named = "  const int lane_ = threadIdx.x;\n  const int count_ = blockDim.x;\n"
    return before + plan + head + brace + named + body


def concrete(cuda: str, plan_type: str) -> Callable[[str], str]:
    """`T` is spelled out, so that the kernel is no template any more."""

    def change(source: str) -> str:
        before, plan, after = _split(source)
        after = re.sub(r"template <typename T>\n", "", after)
        after = re.sub(r"\bT\b", cuda, after)
        plan = plan.replace("<T>", "").replace("sizeof(T)", f"sizeof({plan_type})")
        return before + plan + after

    return change


def other_parameter(source: str) -> str:
    """The template parameter has another name than the plan's `T`."""
    before, plan, after = _split(source)
    return before + plan + re.sub(r"\bT\b", "scalar_t", after)


VARIANTS: dict[str, Callable[[str], str]] = {
    "renamed": renamed,
    "one line each": one_line_each,
    "crowded": crowded,
    "while": with_while,
    "flipped": flipped,
    "aliased": aliased,
    "half": concrete("__half", "float16"),
    "bfloat16": concrete("__nv_bfloat16", "bfloat16"),
    "float": concrete("float", "float32"),
    "scalar_t": other_parameter,
    "all at once": lambda s: renamed(one_line_each(with_while(flipped(aliased(s))))),
}
