"""What a maintainer needs to judge a pull request with a session's winner: a page and a patch."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from textwrap import dedent
from typing import Any, NamedTuple

import astra_tui
from astra_tui.export.artefact import rendered
from astra_tui.export.delivery import TARGETS
from astra_tui.export.header import plain
from astra_tui.export.winner import Winner
from astra_tui.model.approval import ApprovalStatus, Decision
from astra_tui.model.author import AuthorKind
from astra_tui.model.dtypes import DType
from astra_tui.model.export import Framework
from astra_tui.model.launch import find_plan
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
_DEMANDS: Mapping[Framework | None, tuple[tuple[str, str], ...]] = {
    Framework.FLASHINFER: (
        ("kernels in `include/`, free of PyTorch's headers", "met: the file includes CUDA's alone"),
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
}
"""From FlashInfer's CONTRIBUTING.md, pull request template and docs/code_review_guidance.md, and
SGLang's contribution guide and template, as of autumn 2026."""


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


@dataclass(frozen=True)
class Dossier:
    """A winner for the maintainers of the framework whose kernel its session began with."""

    winner: Winner
    task: KernelTask
    state: SessionState
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
            "framework": self.framework,
            "title": TARGETS[self.framework].title if self.framework else "",
            "package": self._upstream.package if self.framework else None,
            "changed": self._changed_file if self.framework else "",
            "rows": rows,
            "of_all": self._found.shipped is not None,
            "mean": mean,
            "mean_name": mean_name(timing.weights) if timing else "geometric mean",
            "slower": [row for row in rows if row.ratio.high < 1],
            "gpu": timing.gpu if timing else "",
            "plan": dedent(find_plan(self.winner.text).text).strip(),
            "own_plan": dedent(find_plan(self.winner.baseline).text).strip(),
            "objections": list(self._objections(rows)),
            "audit": self._audited(),
            "accuracy": self._accuracy(),
            "sanitizer": self._found.sanitizer,
            "decided": [self._decided(d) for d in self.state.decisions.values()],
            "by_model": any(s.author.kind is AuthorKind.MODEL for s in self.winner.steps),
            "engineers": list(
                dict.fromkeys(
                    d.by.name
                    for d in self.state.decisions.values()
                    if d.by.kind is AuthorKind.ENGINEER
                )
            ),
            "demands": list(self._demands(rows)),
            "version": astra_tui.__version__,
        }

    def _demands(self, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
        """What contributors are asked for, and whether this page has it."""
        shapes = ", ".join(row.shape for row in rows)
        yield (
            "performance: times before and after, with GPU and sizes, that can be repeated",
            f"met for {shapes}" if rows else "not met",
        )
        yield (
            "no loss where others run it",
            (
                "**not met**: slower on " + ", ".join(r.shape for r in rows if r.ratio.high < 1)
                if any(r.ratio.high < 1 for r in rows)
                else "met on these shapes; others were not timed"
            ),
        )
        yield (
            "tests with a reference",
            ("the session's cases against float64; not in the framework's own test files"),
        )
        yield from _DEMANDS.get(self.framework, ())

    def _objections(self, rows: Sequence[Row]) -> Iterator[str]:
        """What speaks against it, as far as the session knows."""
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

    def _audited(self) -> str:
        """How the check did on kernels that are known to be wrong, or right."""
        if self.audit is None:
            return ""
        judged: Counter[str] = Counter()
        good: Counter[str] = Counter()
        for kind in self.audit["kinds"]:
            judged[kind["group"]] += kind["judged"]
            good[kind["group"]] += kind["judged"] - len(kind["failures"])
        parts = (f"{good[group]:,} of {judged[group]:,} {group}" for group in judged)
        head = self.audit["head"]
        return f"{', '.join(parts)} ({head['device']}, gate {head['gate'][:8]})"

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
            return list(_of_shipped(shipped.times.shapes)), shipped.speedup
        timing = self._timing
        if timing is None or self.framework is None:
            return [], None
        name = f"{self._upstream.origin} as it is"
        rows = [
            Row(
                w.workload, w.dtype.value, w.cold.candidate_us, name, w.cold.base_us,
                w.cold.speedup, w.producer,
            )
            for w in timing.workloads
        ]  # fmt: skip
        return rows, timing.speedup

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
            decision.by.describe(),
            plain(decision.reason),
            plain(said),
        )


def _worst(candidate: CandidateState, dtype: DType) -> tuple[float, str]:
    """The largest error over what is allowed, and its case."""
    found = [
        (error.error / error.allowed, result.case.name)
        for result in candidate.results
        if result.case.dtype is dtype and (error := result.worst) and error.allowed
    ]
    return max(found, default=(0.0, ""))


def _of_shipped(shapes: Sequence[Any]) -> Iterator[Row]:
    for shape in shapes:
        fastest = shape.fastest.get("best")
        times = {version.name: version.us for version in shape.versions}
        if fastest is not None:
            yield Row(
                shape.workload, shape.dtype.value, times["best"], fastest.name,
                times[fastest.name], fastest.speedup, False,
            )  # fmt: skip


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
    return Dossier(winner, task, state, to if theirs else None, audit)
