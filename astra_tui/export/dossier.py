"""What a maintainer needs to judge a pull request with a session's winner: a page and a patch."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from textwrap import dedent, shorten
from typing import Any, NamedTuple

import astra_tui
from astra_tui.export.artefact import rendered
from astra_tui.export.delivery import TARGETS
from astra_tui.export.header import plain
from astra_tui.export.winner import Winner, checked
from astra_tui.model.approval import ApprovalStatus, Decision
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.dtypes import DType
from astra_tui.model.export import Framework
from astra_tui.model.launch import Dispatch, find_plan, plan_of
from astra_tui.model.plan import edited_words
from astra_tui.model.state import CandidateState, SessionState
from astra_tui.model.task import KernelTask, Upstream
from astra_tui.model.timing import Ratio, Timing, mean_name

PAGE = "DOSSIER.md"
PATCH = "change.patch"

DISTRIBUTIONS = {
    Framework.FLASHINFER: "flashinfer-python",
    Framework.SGLANG: "sglang",
    Framework.VLLM: "vllm",
}
"""The packages whose sources a patch can be against."""

_NEW = "{stem}_astra{suffix}"
"""A winner's code goes into a file of its own: the pinned source stays what other code uses."""


_TO_DO = "to do by who sends it"
_DEMANDS: Mapping[Framework, tuple[tuple[str, str], ...]] = {
    Framework.FLASHINFER: (
        (
            "kernels in `include/`, free of PyTorch's headers",
            "met: the file includes CUDA's alone; the patch's path is the wheel's",
        ),
        ("binding in `csrc/`, Python in `flashinfer/`, tests in `tests/`", _TO_DO),
        ("the template of pull requests, filled in and not replaced", f"{_TO_DO}, from this page"),
        ("`pre-commit run --all-files`", _TO_DO),
        ("a reason for each choice that is not obvious", "in the plan's words, and the decisions"),
        ("unsupported architectures skip their tests", _TO_DO),
    ),
    Framework.SGLANG: (
        ("motivation, modifications", "this page"),
        ("accuracy of a model, such as GSM8K, where its output changes", f"not met; {_TO_DO}"),
        ("unit tests", _TO_DO),
        ("speed of a service, by its own benchmark", f"not met; {_TO_DO}"),
        ("`pre-commit run --all-files`", _TO_DO),
        (
            "no code twice",
            "**not met**: a second kernel for one operator; which one stays is theirs",
        ),
    ),
    Framework.VLLM: (
        ("a title tag; purpose, test plan and test result", _TO_DO),
        ("DCO: `Signed-off-by` in each commit", _TO_DO),
        (
            "use of AI in the description and as a commit trailer (`Co-authored-by`)",
            f"said above; the trailer: {_TO_DO}",
        ),
        ("no pull request by an agent alone: a person answers for each line", _TO_DO),
        ("a search for open pull requests with the same change, stated", _TO_DO),
        ("evaluation of a model where its output changes", f"not met; {_TO_DO}"),
        ("benchmarks of kernels in `benchmarks/kernels/`", _TO_DO),
        ("a registered operator: schema, meta function, `opcheck`", _TO_DO),
    ),
}
"""From FlashInfer's CONTRIBUTING.md, pull request template and docs/code_review_guidance.md,
SGLang's contribution guide and template, and vLLM's docs/contributing/README.md, AGENTS.md and
template, as of autumn 2026."""

_WAITS = re.compile(r"griddepcontrol\s*\.\s*wait|cudaGridDependencySynchronize|PDLWaitPrimary")
_MARKS = (
    ("licence header", re.compile(r"SPDX-|[Ll]icen[sc]e")),
    ("include guard", re.compile(r"#pragma once|#ifndef")),
    ("namespace", re.compile(r"\bnamespace\b")),
)
"""What a file of theirs has, and how a text shows it."""
_LOWER_BOUND = re.compile(r"\w+ >= \d+")
_FILE = ".toml"
"""What the name of an engineer ends with whose answers come from a file of decisions."""
_REASON = 200
"""Characters of a reason at a gate that the page has; the session has them all."""


class Row(NamedTuple):
    """One shape against the fastest shipped kernel that the session timed there."""

    shape: str
    dtype: str
    ours_us: float
    shipped: str
    shipped_us: float
    ratio: Ratio
    behind: bool
    """Whether each launch followed another kernel, whose time both have in them."""


class Decided(NamedTuple):
    """One answer at a gate."""

    gate: str
    round: int
    status: str
    by: str
    reason: str
    said: str
    """What an edited plan says that the shown one did not."""

    @property
    def words(self) -> str:
        """The answer, without what an edited plan says."""
        because = shorten(self.reason, _REASON, placeholder=" ... (whole in the session)")
        answer = f"{self.gate} of round {self.round}: {self.status} by {self.by}"
        return f"{answer}: {because}" if because else answer


@dataclass(frozen=True)
class Dossier:
    """A winner for the maintainers of the framework whose kernel its session began with."""

    winner: Winner
    task: KernelTask
    state: SessionState
    to: Framework
    framework: Framework | None
    """None where the task's source is not one of theirs: then there is no patch."""
    audit: Mapping[str, Any] | None = None
    """What `astra-tui audit --json` found of the check, where it was given."""

    @property
    def files(self) -> dict[str, str]:
        """The page, and the patch where there is one."""
        page = {PAGE: rendered("dossier.md.jinja", self._words())}
        return {**page, PATCH: self.patch} if self.framework is not None else page

    @property
    def patch(self) -> str:
        """Adds the winner's code next to the framework's kernel, as a new file."""
        path = PurePosixPath(self._changed_file)
        new = path.with_name(_NEW.format(stem=path.stem, suffix=path.suffix))
        text = _code(self.winner.text).splitlines(keepends=True)
        lines = difflib.unified_diff([], text, "/dev/null", f"b/{new}")
        return "".join(lines)

    @property
    def _upstream(self) -> Upstream:
        assert self.task.upstream is not None
        return self.task.upstream

    @property
    def _changed_file(self) -> str:
        """The pinned file that the session's first source includes by name."""
        files = self._upstream.files
        named = [p for p in files if PurePosixPath(p).name in self.winner.baseline]
        return named[0] if named else next(iter(files))

    @property
    def _found(self) -> CandidateState:
        return self.state.candidates[self.winner.candidate]

    def _words(self) -> dict[str, Any]:
        rows, mean = self._rows()
        timing = self._timing
        return {
            "winner": self.winner,
            "task": self.task,
            "to": self.to,
            "title": self._title,
            "package": self._upstream.package if self.framework else None,
            "changed": self._changed_file if self.framework else "",
            "rows": rows,
            "of_all": self._found.shipped is not None,
            "mean": mean if all(row.ratio.low >= 1 for row in rows) else None,
            "mean_name": mean_name(timing.weights) if timing else "geometric mean",
            "checked": checked(self._found),
            "steps": [(step, _who(step.author)) for step in self.winner.steps],
            "gpu": timing.gpu if timing else "",
            "plan": dedent(find_plan(self.winner.text).text).strip(),
            "own_plan": dedent(find_plan(self.winner.baseline).text).strip(),
            "objections": list(self._objections(rows)),
            "audit": self._audited(),
            "accuracy": self._accuracy(),
            "sanitizer": self._found.sanitizer,
            "decided": Counter(self._decided(d) for d in self.state.decisions.values()).items(),
            "by_model": any(s.author.kind is AuthorKind.MODEL for s in self.winner.steps),
            "people": [name for name in self._engineers if not name.endswith(_FILE)],
            "by_file": bool(self._engineers),
            "untold": self.to not in _DEMANDS,
            "demands": list(self._demands(rows)),
            "version": astra_tui.__version__,
        }

    def _demands(self, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
        """What contributors are asked for, and whether this page has it."""
        by_us = f"; by astra-tui alone: {'; '.join(row.shape for row in rows)}" if rows else ""
        yield (
            "performance: times before and after, with GPU and sizes, that can be repeated",
            f"**not met**: their own benchmark was not run{by_us}",
        )
        slower = "; ".join(row.shape for row in rows if row.ratio.high < 1)
        yield (
            "no loss where others run it",
            f"**not met**: slower on {slower}" if slower else f"not known: {len(rows)} shapes",
        )
        yield (
            "tests with a reference",
            ("the session's cases against float64; not in the framework's own test files"),
        )
        yield from _DEMANDS.get(self.to, ())

    def _objections(self, rows: Sequence[Row]) -> Iterator[str]:
        """What speaks against it, as far as the session knows."""
        yield from self._launch_objections(rows)
        for row in rows:
            if row.ratio.high < 1:
                yield f"slower on {row.shape}: {100 * (1 / row.ratio.value - 1):.1f} %"
        if not rows:
            yield "it was not timed against a shipped kernel"
        elif self.task.rows:
            found = sorted({w.dims[self.task.rows] for w in self.task.workloads})
            yield f"timed on {len(rows)} shapes alone, of {found[0]:,} to {found[-1]:,} rows"
        dtypes = {row.dtype for row in rows}
        if rows and dtypes != {d.value for d in self.task.dtypes}:
            yield f"timed in {', '.join(sorted(dtypes))} alone"
        if not self._found.sanitizer:
            yield "compute-sanitizer was not run in the session"
        yield "one GPU; other architectures are compiled at most"
        if self.framework is not None:
            yield "the code that launches it is not in the patch, and no service ran with it"
            missing = [name for name, mark in _MARKS if not mark.search(self.winner.text)]
            if missing:
                yield f"the new file has no {', no '.join(missing)}"

    def _launch_objections(self, rows: Sequence[Row]) -> Iterator[str]:
        """What a maintainer's own launcher would do that the session's plans do not."""
        if self.framework is None:
            return
        old, new = plan_of(self.winner.baseline), plan_of(self.winner.text)
        if rows and self._found.shipped is None and not any(x.pdl for x in old.launches()):
            yield (
                "the shipped source was timed without programmatic dependent launch; "
                f"{self._title}'s own launcher may turn it on, and that was not timed"
            )
            if any(x.pdl for x in new.launches()):
                yield (
                    "this kernel was timed with it: how much of the difference the kernel makes, "
                    "and how much the launch, is not known"
                )
        if not _WAITS.search(self.winner.text):
            yield (
                "the patch's kernel does not wait for the launch before it "
                f"(`griddepcontrol.wait`): under {self._title}'s launcher with programmatic "
                "dependent launch it would read its inputs too early"
            )
        only = [text for text in self.task.accepts_text if not _LOWER_BOUND.fullmatch(text)]
        if only:
            sizes = f"the patch is for {', '.join(f'`{text}`' for text in only)} only"
            guards = [any(isinstance(x, Dispatch) for x in plan.steps) for plan in (old, new)]
            unguarded = ", and its launch plan does not check that, where the first one's did"
            yield (
                f"{sizes}{unguarded if guards == [True, False] else ''}; whether the shipped "
                "kernel serves more was not looked at"
            )

    def _audited(self) -> str:
        """How the check did on kernels that are known to be wrong, or right."""
        if self.audit is None:
            return ""
        total: Counter[str] = Counter()
        for kind in self.audit["kinds"]:
            group = kind["group"]
            total[group] += kind["judged"]
            total[f"{group} failed"] += len(kind["failures"])
            total[f"{group} refused"] += kind["wrong"]
        failed = total["honest failed"]
        left = failed - total["honest refused"]
        head = self.audit["head"]
        return (
            f"{total['planted failed'] or 'none'} of {total['planted']:,} planted wrong kernels "
            f"and {total['mutant failed'] or 'none'} of {total['mutant']:,} mutants passed; of "
            f"{total['honest']:,} correct ones {total['honest refused'] or 'none'} were refused "
            f"and {left or 'none'} left open ({head['device']}, gate {head['gate'][:8]})"
        )

    @property
    def _title(self) -> str:
        return TARGETS[self.to].title

    @property
    def _engineers(self) -> list[str]:
        """Under whose names there are decisions of an engineer."""
        made = (d.by for d in self.state.decisions.values())
        return list(dict.fromkeys(by.name for by in made if by.kind is AuthorKind.ENGINEER))

    def _shape(self, workload: str) -> str:
        """Its dimensions by their names."""
        dims = {w.name: w.dims for w in self.task.workloads}.get(workload, {})
        return ", ".join(f"{name}={value}" for name, value in dims.items()) or workload

    @property
    def _timing(self) -> Timing | None:
        assert self.state.opened is not None
        base = self.state.opened.baseline
        return self._found.timing(base, final=True) or self._found.timing(base)

    def _rows(self) -> tuple[list[Row], Ratio | None]:
        """Against the fastest shipped kernel, or the framework's own that the session began with.

        Nothing where the session timed neither.
        """
        shipped = self._found.shipped
        if shipped is not None and shipped.times is not None:
            return list(self._of_shipped(shipped.times.shapes)), shipped.speedup
        timing = self._timing
        if timing is None or self.framework is None:
            return [], None
        name = "the shipped source, launched by the plan below"
        rows = [
            Row(
                self._shape(w.workload), w.dtype.value, w.cold.candidate_us, name, w.cold.base_us,
                w.cold.speedup, w.producer,
            )
            for w in timing.workloads
        ]  # fmt: skip
        return rows, timing.speedup

    def _of_shipped(self, shapes: Sequence[Any]) -> Iterator[Row]:
        for shape in shapes:
            fastest = shape.fastest.get("best")
            times = {version.name: version.us for version in shape.versions}
            if fastest is not None:
                yield Row(
                    self._shape(shape.workload), shape.dtype.value, times["best"], fastest.name,
                    times[fastest.name], fastest.speedup, False,
                )  # fmt: skip

    def _accuracy(self) -> list[tuple[Any, ...]]:
        """For each element type its tolerances with their source, the worst error of a case, and
        that of the source that the session began with, as far as its cases were kept.
        """
        assert self.state.opened is not None
        baseline = self.state.candidates[self.state.opened.baseline]
        found = []
        for dtype in self.task.dtypes:
            allowed = self.task.tolerances[dtype]
            share, case = _worst(self._found, dtype)
            own, _ = _worst(baseline, dtype)
            source = plain(allowed.source)
            found.append((dtype.value, allowed.atol, allowed.rtol, source, share, plain(case), own))
        return found

    def _decided(self, decision: Decision) -> Decided:
        question = self.state.questions.get(decision.question)
        said = ""
        if decision.status is ApprovalStatus.EDITED and decision.plan is not None and question:
            shown = self.state.round(question.round).proposals[question.proposal].plan
            said = edited_words(shown, decision.plan)
        return Decided(
            decision.gate.value,
            question.round if question else 0,
            decision.status.value,
            plain(_who(decision.by)),
            plain(decision.reason),
            plain(said),
        )


def _who(author: Author) -> str:
    """The author, for readers who do not know how sessions name them."""
    match author.kind:
        case AuthorKind.MODEL:
            return f"a language model (recorded as {author.name})"
        case AuthorKind.ENGINEER if author.name.endswith(_FILE):
            return f"a file of decisions written beforehand ({author.name})"
        case AuthorKind.POLICY:
            return f"a rule ({author.name}), without a question"
    return author.describe()


def _worst(candidate: CandidateState, dtype: DType) -> tuple[float, str]:
    """The largest error over what is allowed, and its case."""
    found = [
        (error.error / error.allowed, result.case.name)
        for result in candidate.results
        if result.case.dtype is dtype and (error := result.worst) and error.allowed
    ]
    return max(found, default=(0.0, ""))


def _code(source: str) -> str:
    """A source whose launch plan is said in words: another host launches it."""
    plan = find_plan(source)
    begin, end = plan.begin, plan.end
    words = dedent(plan.text).strip().splitlines()
    said = "\n".join(["// Its launch plan, as astra-tui had it:", *(f"//   {w}" for w in words)])
    return f"{source[:begin]}{said}{source[end:]}"


def dossier(
    winner: Winner,
    task: KernelTask,
    state: SessionState,
    to: Framework,
    audit: Mapping[str, Any] | None = None,
) -> Dossier:
    """For a framework's maintainers; with a patch where the task's source is of its package."""
    package = task.upstream.package if task.upstream is not None else None
    theirs = package is not None and package.name == DISTRIBUTIONS.get(to)
    return Dossier(winner, task, state, to, to if theirs else None, audit)
