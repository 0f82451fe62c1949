"""All operators, and the choice among those that a kernel looks like."""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_tui.drafting.operators import (
    KernelFacts,
    activation,
    attention,
    bits,
    cache,
    concat,
    elementwise,
    embedding,
    gating,
    loss,
    moe,
    norm,
    optimiser,
    quantise,
    rope,
    sampling,
    softmax,
)
from astra_tui.drafting.operators.matching import Match, Reference, recognise
from astra_tui.model.errors import UserError, nearest

OPERATORS = (
    *norm.OPERATORS,
    *activation.OPERATORS,
    *rope.OPERATORS,
    *quantise.OPERATORS,
    *softmax.OPERATORS,
    *gating.OPERATORS,
    *sampling.OPERATORS,
    *cache.OPERATORS,
    *attention.OPERATORS,
    *moe.OPERATORS,
    *embedding.OPERATORS,
    *loss.OPERATORS,
    *optimiser.OPERATORS,
    *bits.OPERATORS,
    *concat.OPERATORS,
    *elementwise.OPERATORS,
)

LEAST_SCORE = 60
"""Below this a match is a guess, and is named only."""
MARGIN = 15
"""Matches that lie closer than this are left to the engineer."""
_MAX_GUESSES = 2
_LEAST_GUESS = 40
_TORCH_NAMES = {"torch", "math", "reference", "ceil_div"}


@dataclass(frozen=True)
class Choice:
    """What a kernel looks like, the likeliest first.

    `offered` are the operators whose reference is written: one, or several that only the engineer
    can tell apart; `guesses` the next likely ones.
    """

    offered: tuple[Match, ...]
    guesses: tuple[Match, ...]

    @property
    def reference(self) -> Reference | None:
        """The reference to use until the engineer says otherwise, if one stands out."""
        return self.offered[0].reference if len(self.offered) == 1 else None

    @property
    def open_points(self) -> list[str]:
        """What the engineer has to confirm or decide."""
        if len(self.offered) == 1:
            match, reference = self.offered[0], self.offered[0].reference
            found = [f"reference.py: looks like {match.operator} ({match.reason}); confirm"]
            return [*found, *(reference.questions if reference is not None else ())]
        if self.offered:
            listed = "; or ".join(f"{m.operator} ({m.reason})" for m in self.offered)
            return [f"reference.py: say which operator this is: {listed}"]
        told = "reference.py: write what the operator computes, in float64"
        if self.guesses:
            listed = "; ".join(f"{m.operator} ({m.reason})" for m in self.guesses)
            told += f"; nearest: {listed}"
        return [told]


def choose(facts: KernelFacts, operator: str = "") -> Choice:
    """The operators that a kernel looks like, or the one that the engineer names.

    Raises UserError where there is no such operator, or its arguments do not fit the kernel's.
    """
    if operator:
        return Choice((_named(operator, facts),), ())
    if (facts.names | set(facts.dims)) & _TORCH_NAMES or not facts.tensors:
        return Choice((), ())
    found = [m for m in (recognise(operator, facts) for operator in OPERATORS) if m is not None]
    found.sort(key=lambda match: -match.score)
    fitting = [m for m in found if m.reference is not None and m.score >= LEAST_SCORE]
    offered = [m for m in fitting if m.score > fitting[0].score - MARGIN]
    guesses = [m for m in found if m not in offered and m.score >= _LEAST_GUESS][:_MAX_GUESSES]
    return Choice(tuple(offered), tuple(guesses))


def _named(name: str, facts: KernelFacts) -> Match:
    """An operator of the library, as it fits a kernel."""
    named = [o for o in OPERATORS if o.name == name]
    if not named:
        raise UserError(
            f"there is no operator {name!r} to write reference.py from",
            hint=nearest(name, [o.name for o in OPERATORS]),
        )
    fitting = [m for o in named if (m := recognise(o, facts)) is not None and m.reference]
    if not fitting:
        raise UserError(
            f"the kernel's tensors do not fit {name!r}",
            hint="answer their roles and shapes first ([args.NAME]), or name a Python file",
        )
    return max(fitting, key=lambda match: match.score)


def reference_text(name: str, facts: KernelFacts, choice: Choice) -> str:
    """The text of reference.py for the operators that are offered.

    Of several each is a function of its own, and `reference` fails until one is chosen.
    """
    names = [_function_name(m.operator) for m in choice.offered]
    single = len(names) == 1
    what = choice.offered[0].operator if single else "one of " + ", ".join(names)
    functions = [
        _function("reference" if single else function, facts, match.reference)
        for function, match in zip(names, choice.offered, strict=True)
        if match.reference is not None
    ]
    helper = _CEIL_DIV if any("ceil_div(" in text for text in functions) else ""
    if not single:
        functions.append(_UNDECIDED.format(names=" or ".join(names)))
    title = re.sub(r"[^\w. -]", "_", name)
    head = f'"""Float64 reference of {title}: {what}."""\n\n'
    modules = [m for m in ("math", "torch") if any(f"{m}." in text for text in functions)]
    imports = "\n".join(f"import {module}" for module in modules)
    if modules == ["math", "torch"]:
        imports = "import math\n\nimport torch"
    return "\n\n\n".join(p for p in (head + imports, helper, *functions) if p) + "\n"


_CEIL_DIV = "def ceil_div(a: int, b: int) -> int:\n    return -(-a // b)"

_UNDECIDED = '''\
def reference() -> dict[str, torch.Tensor]:
    """Delete this and rename the function that is right to `reference`."""
    raise NotImplementedError("reference.py is not decided yet: choose {names}")'''


def _function_name(operator: str) -> str:
    return re.sub(r"\W+", "_", operator).strip("_").lower()


def _function(name: str, facts: KernelFacts, reference: Reference) -> str:
    outputs = [f'"{output}": {text}' for output, text in reference.outputs.items()]
    body = "\n".join((*reference.lines, *outputs))
    types = {t.name: "torch.Tensor" for t in facts.tensors}
    types |= {s.name: "float" if s.dtype.is_float else "int" for s in facts.scalars}
    types |= dict.fromkeys(facts.dims, "int")
    code = re.sub(r"\"[^\"]*\"", "", body)
    used = [n for n in types if re.search(rf"(?<![\w.]){n}(?!\w)", code)]
    arguments = ", ".join(f"{n}: {types[n]}" for n in used)
    head = f"def {name}({arguments}) -> dict[str, torch.Tensor]:"
    if len(head) > 100:
        listed = "".join(f"    {n}: {types[n]},\n" for n in used)
        head = f"def {name}(\n{listed}) -> dict[str, torch.Tensor]:"
    returned = f"    return {{{', '.join(outputs)}}}"
    if len(returned) > 100:
        returned = "\n".join(("    return {", *(f"        {o}," for o in outputs), "    }"))
    lines = [f"    {line}" if line else "" for line in reference.lines]
    return "\n".join((head, f'    """{reference.summary}"""', *lines, returned))
