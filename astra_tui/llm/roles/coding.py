"""The coding agent: from a plan to a whole source."""

from __future__ import annotations

import asyncio
import re

from msgspec.structs import replace

from astra_tui.llm.asking.asker import NO_ADVICE, UNUSABLE, Asker, Step, retry_once
from astra_tui.llm.asking.facts import (
    device_text,
    included_text,
    measured_text,
    merge_text,
    plan_text,
    profile_text,
    said_text,
    task_text,
    timing_text,
)
from astra_tui.llm.asking.prompts import (
    Data,
    clipped,
    compose,
    launch_plan_rules,
    prompt_text,
    refusals,
)
from astra_tui.llm.asking.toolbox import LAST, Toolbox, open_toolbox, tools_text
from astra_tui.llm.errors import BadAnswer, is_answer
from astra_tui.llm.fences import read_whole_file
from astra_tui.llm.search_replace import apply_blocks, read_blocks
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.hunks import unified_diff
from astra_tui.model.plan import Plan
from astra_tui.model.roles import Role
from astra_tui.model.team_protocol import (
    AnswerLost,
    Brief,
    CannotFollow,
    CodeDraft,
    Failure,
    OnText,
)
from astra_tui.playbook import Evidence, Proposal
from astra_tui.playbook.propose import plan_as_set, propose_as_set

LONGEST_WHOLE_FILE = 400
"""Lines of a source above which changes are asked for instead of the file."""

SHORTEST_SHARE = 0.4
"""A new file with a smaller share of the old one's lines has lost some of it."""

MAX_MESSAGE = 6_000
MAX_SUMMARY = 300
MAX_EARLIER, MAX_EARLIER_MESSAGE, MAX_EARLIER_DIFF = 4, 600, 2_000
"""Earlier attempts that a repair is shown, and characters of each of their parts."""
KEEP = re.compile(r"\s*KEEP\b[\s:.,-]*")
"""With which an answer begins that leaves a measured attempt as it is."""
ELISION = re.compile(
    r"^\s*(?://|/\*)\s*"
    r"(?:\.\.\.|…|(?:the )?(?:rest|remainder) of|(?:existing|same|unchanged) code)",
    re.IGNORECASE | re.MULTILINE,
)
"""Comments that stand for code which the model left out."""

CODE_BEGINS = re.compile(r"^(?:\s*(?:```|~~~)|<{5,9} SEARCH|DRAFT )", re.MULTILINE)


async def follow_edit(brief: Brief, shown: Plan, edited: Plan) -> Plan:
    """What an edited plan will be coded as: a move where its words stay, else by the model.

    Raises CannotFollow where neither would do what the plan says.
    """
    if edited.move not in ("", shown.move):
        raise CannotFollow(f"the plan is not of the move '{edited.move}'", hint="say it in words")
    is_set = edited.parameters != shown.parameters
    if not edited.move or edited.change != shown.change:
        if is_set and edited.parameters:
            hint = "set parameters, or write another change"
            raise CannotFollow("a change in other words has no parameters", hint=hint)
        return replace(edited, move="", parameters=())
    if not is_set:
        return edited
    own = await asyncio.to_thread(plan_as_set, brief.source, shown, edited, Evidence.of(brief))
    return replace(edited, change=own.change, places=own.places, parameters=own.parameters)


async def write_code(
    asker: Asker, author: Author, brief: Brief, plan: Plan, failure: Failure | None, on_text: OnText
) -> CodeDraft:
    """The source after a plan. Raises AnswerLost after two answers that cannot be used.

    A plan that names a playbook move gets the move's own rewrite, and the model repairs what fails.
    Where the engineer has edited what such a plan changes, the model writes it from the beginning.
    """
    if plan.move and failure is None:
        evidence = Evidence.of(brief)
        proposal = await asyncio.to_thread(propose_as_set, brief.source, plan, evidence)
        if isinstance(proposal, Proposal) and proposal.plan.change == plan.change:
            mover = Author(AuthorKind.PLAYBOOK, plan.move)
            return CodeDraft(proposal.source, mover, proposal.plan.change)
    current = failure.source if failure is not None else brief.source
    purpose = "code" if failure is None else "repair"

    last = {LAST: failure.source} if failure is not None else {}
    box = open_toolbox(brief, Role.CODING, drafts=last)

    async def attempt(remark: str) -> CodeDraft:
        step = Step(Role.CODING, purpose, coding_prompt(brief, plan, failure, box) + remark)
        answer = await asker.say(step, on_text, box)
        chosen = box.chosen(answer) if box is not None else None
        return CodeDraft(chosen or read_source(answer, current), author, summary_of(answer))

    try:
        return await retry_once(attempt)
    except UNUSABLE as error:
        reason = f"the coding agent gave no usable code: {error.message}"
        raise AnswerLost(reason, is_answer(error)) from None


async def mend_code(
    asker: Asker, author: Author, brief: Brief, plan: Plan, failure: Failure, on_text: OnText
) -> CodeDraft | str:
    """The next attempt after code that was judged, or why there is none; "" without an answer."""
    box = open_toolbox(brief, Role.CODING, drafts={LAST: failure.source})
    step = Step(Role.CODING, "reflect", coding_prompt(brief, plan, failure, box))
    try:
        answer = await asker.say(step, on_text, box)
        if (kept := KEEP.match(answer)) is not None:
            return clipped(" ".join(answer[kept.end() :].split()), MAX_SUMMARY)
        chosen = box.chosen(answer) if box is not None else None
        source = chosen or read_source(answer, failure.source)
    except NO_ADVICE:
        return ""
    return CodeDraft(source, author, summary_of(answer)) if source != failure.source else ""


def coding_prompt(
    brief: Brief, plan: Plan, failure: Failure | None, box: Toolbox | None = None
) -> str:
    """The prompt for code; after a failure with the source that failed, and why."""
    current = failure.source if failure is not None else brief.source
    form = "form_blocks" if is_long(current) else "form_whole"
    return compose(
        "code",
        {
            "round": str(brief.round),
            "form": prompt_text(form).strip(),
            "launch_plan": launch_plan_rules(),
            "refusals": refusals(),
            "failure": _failure_text(brief, failure),
            "included": included_text(brief),
            "merge": merge_text(brief.second),
            "tools": f"{tools_text(box)}{prompt_text('choose_draft')}" if box is not None else "",
        },
        {
            "plan": Data("plan", plan_text(plan)),
            "task": Data("task", task_text(brief.task)),
            "source": Data("kernel source", current),
            "said": Data("words of the engineer", said_text(brief)),
            "device": Data("device", device_text(brief)),
        },
    )


def read_source(answer: str, current: str) -> str:
    """The source in an answer. Raises BadAnswer and Truncated where there is no whole one."""
    if is_long(current):
        return apply_blocks(current, read_blocks(answer))
    source = read_whole_file(answer)
    if (gap := ELISION.search(source)) is not None:
        raise BadAnswer(
            f"the file leaves out code, at '{gap[0].strip()}'", hint="write the whole file"
        )
    if _size(source) < SHORTEST_SHARE * _size(current):
        raise BadAnswer(
            f"the file has {_size(source)} lines of code and the old one {_size(current)}",
            hint="write the whole file, with all of its kernels and the launch plan",
        )
    return source


def summary_of(answer: str) -> str:
    """What the model says before its code, on one line."""
    before = CODE_BEGINS.split(answer, maxsplit=1)[0]
    return " ".join(before.split())[:MAX_SUMMARY]


def is_long(source: str) -> bool:
    """Whether a source is changed in blocks instead of being written again."""
    return source.count("\n") > LONGEST_WHOLE_FILE


def _failure_text(brief: Brief, failure: Failure | None) -> str:
    if failure is None:
        return ""
    message = Data("what failed", clipped(failure.message, MAX_MESSAGE))
    base = Data("kernel source before the change", brief.source)
    earlier = _earlier_text(brief, failure.earlier)
    counted = filter(None, (profile_text(failure.profile), timing_text(failure.timing)))
    profile = Data("profile", "\n".join(counted))
    if failure.stage == "verdict":
        measured = Data("profile", measured_text(brief))
        data = {"message": message, "profile": profile, "measured": measured, "base": base}
        return compose("reflect", {}, data) + earlier
    known = compose("failure_profile", {}, {"profile": profile}) if profile.text else ""
    words = {"stage": failure.stage, "profile": known}
    return compose("failure", words, {"message": message, "base": base}) + earlier


def _earlier_text(brief: Brief, earlier: tuple[Failure, ...]) -> str:
    """Attempts before the last one: what they changed, and what came out."""
    if not earlier:
        return ""
    told = []
    for number, one in enumerate(earlier[-MAX_EARLIER:], max(1, len(earlier) - MAX_EARLIER + 1)):
        diff = unified_diff(brief.source, one.source, "before", f"attempt {number}")
        result = clipped(one.message, MAX_EARLIER_MESSAGE)
        told.append(
            f"attempt {number}, result at the step {one.stage!r}: {result}\n"
            f"{clipped(diff, MAX_EARLIER_DIFF)}"
        )
    return compose("earlier", {}, {"earlier": Data("earlier attempts", "\n".join(told))})


def _size(source: str) -> int:
    """Lines of a source that are neither empty nor a whole line of comment."""
    lines = (line.strip() for line in source.split("\n"))
    return sum(1 for line in lines if line and not line.startswith("//"))
