"""From what an engineer wrote to demands that a rule can check; English, and read with caution.

A clause becomes a demand only where all of it is understood. What is not is handed back as it
stands, for a reader who knows more than rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Sort(StrEnum):
    """What can be demanded of a source."""

    BLOCK_MOST = "threads a block at most"
    BLOCK_EXACT = "threads a block"
    BLOCK_MULTIPLE = "threads a block are a multiple"
    SHARED_MOST = "bytes of shared memory at most"
    REGISTERS_MOST = "registers at most"
    WIDTH_MOST = "bytes an access at most"
    LINES_MOST = "lines of source at most"
    ONE_LAUNCH = "one launch"
    SHUFFLES = "shuffles"
    ATOMICS = "atomics"
    SHARED = "shared memory"
    BARRIERS = "barriers"
    ASSEMBLY = "inline assembly"
    FAST_MATH = "approximate math"
    DOUBLE = "double precision"
    HALF_MATH = "half-precision arithmetic"
    ASYNC_COPIES = "asynchronous copies"
    TENSOR_CORES = "tensor cores"
    CLUSTERS = "clusters"
    DEPENDENT_LAUNCH = "dependent launches"
    VECTORS = "vector accesses"
    SPILLS = "spills"
    INCLUDES = "new includes"
    MACROS = "new macros"
    UNROLLING = "unroll pragmas"
    LAUNCH_BOUNDS = "launch bounds"
    WORD = "a word"
    SAME_FUNCTION = "an unchanged function"
    SAME_PLAN = "an unchanged launch plan"
    SAME_GRID = "an unchanged grid"
    SAME_BLOCK = "an unchanged block"


@dataclass(frozen=True)
class Demand:
    """One clause that a rule can check. `narrowed`: it is said of a part of the kernel only, so
    that a source which does so everywhere keeps it, and one that does not may keep it too.
    """

    sort: Sort
    words: str
    number: int = 0
    name: str = ""
    narrowed: bool = False


@dataclass
class Reading:
    """What a text demands, and the clauses of it that no rule reads."""

    demands: list[Demand] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    allowed: set[Sort] = field(default_factory=set)
    """What it says may be used: it takes back what was said before."""


_NOUNS: dict[Sort, str] = {
    Sort.SHUFFLES: r"(?:warp[- ])?(?:shuffles?|shuffle (?:instructions|intrinsics|reductions?))"
    r"|__shfl\w*|shfl\w*",
    Sort.ATOMICS: r"(?:(?:global|shared|float) )?atomics?(?: (?:operations|instructions|adds?))?"
    r"|atomic[A-Z]\w*",
    Sort.SHARED: r"(?:static |dynamic )?shared memory|smem|__shared__(?: (?:arrays|memory))?",
    Sort.BARRIERS: r"(?:block[- ]wide )?barriers?|__syncthreads(?:\(\))?",
    Sort.ASSEMBLY: r"(?:inline )?(?:asm|assembly|assembler|ptx)(?: (?:statements|blocks|code))?",
    Sort.FAST_MATH: r"fast[- ]math(?: (?:intrinsics|functions))?"
    r"|approximate (?:math|intrinsics|functions|divisions?|exponentials?)",
    Sort.DOUBLE: r"doubles?(?:[- ]precision)?(?: (?:arithmetic|math))?|float64|fp64",
    Sort.HALF_MATH: r"(?:half(?:[- ]precision)?|fp16|float16|bf16|half2) (?:arithmetic|math|sums?)",
    Sort.ASYNC_COPIES: r"async(?:hronous)? copies|cp\.async|memcpy_async|tma|bulk copies",
    Sort.TENSOR_CORES: r"tensor[- ]cores?|mma(?: instructions)?|wmma",
    Sort.CLUSTERS: r"(?:thread[- ]block )?clusters?|distributed shared memory",
    Sort.DEPENDENT_LAUNCH: r"pdl|(?:programmatic )?dependent launch(?:es)?",
    Sort.VECTORS: r"vector(?:i[sz]ed)? (?:loads?|stores?|accesses|memory accesses)"
    r"|wide (?:loads?|stores?|accesses)",
    Sort.SPILLS: r"(?:register )?spill(?:s|ing|ed registers)",
    Sort.INCLUDES: r"(?:#?includes?|headers?|header files)",
    Sort.MACROS: r"(?:macros?|#?defines?|preprocessor macros)",
    Sort.UNROLLING: r"(?:loop )?unrolling|(?:#?pragma )?unroll(?: pragmas?)?",
    Sort.LAUNCH_BOUNDS: r"(?:__)?launch[_ ]bounds(?:__)?",
    Sort.ONE_LAUNCH: r"(?:second|extra|additional|further|other) (?:kernels?|launch(?:es)?)",
}
_UNITS: dict[Sort, str] = {
    Sort.BLOCK_MOST: r"threads?(?: (?:per|in a|in each|in one|a|each) block)?",
    Sort.SHARED_MOST: r"(?P<unit>kb|kib|k|bytes?|b)(?: of)?(?: static| dynamic)? "
    r"(?:shared memory|smem)(?: (?:per|a) block)?",
    Sort.REGISTERS_MOST: r"registers?(?: (?:per|a) thread)?",
    Sort.WIDTH_MOST: r"bytes? (?:per|an|at an) (?:access|load|store)",
    Sort.LINES_MOST: r"lines(?: of (?:code|source))?",
}
_CODE_WORD = r"`(?P<code>[A-Za-z_]\w*)(?:\(\))?`|(?P<bare>__[a-z]\w*|\w+_\w+)(?:\(\))?"

_START = (
    r"(?:(?:please|and|but|also|so|now|ok|again|then|just|we want|i want|we need|i need|"
    r"there (?:must|should|may) be|there is to be|it (?:must|should) (?:have|stay)|"
    r"(?:the (?:kernel|code|file|source)|it)(?: (?:must|should|may)(?! not)(?: have)?)?)\s+)*"
)
_NOT = (
    r"(?:(?:do not|don'?t|must not|mustn'?t|should not|shouldn'?t|cannot|can'?t|may not|never|"
    r"no more|not to|stop|avoid|do it) (?:ever )?(?:use|using|add|adding|introduce|introducing|"
    r"write|writing|have|having|contain|containing|put in|bring in|rely on|without)"
    r"|(?:use|do it with|have|with|stay away from) no|stay away from|keep away from"
    r"|no|never|without|avoid|not)"
    r"(?: (?:any|new|more|further|additional|other|extra|explicit|manual|of the))*"
)
_MOST = (
    r"(?:at most|at the most|up to|a maximum of|max(?:imum)?(?: of)?|no more than|not more than|"
    r"never more than|never above|never over|not above|not over|(?:do not|don'?t|never) "
    r"(?:use|have|exceed|go (?:above|over|beyond))(?: more than)?|(?P<strict>under|below|"
    r"fewer than|less than))"
)
_HAVE = (
    r"(?:(?:the |a |each |all )?(?:use|keep|have|has|stay|stays|within|with|at|is|are|be|must|"
    r"should|may|to|of|size|blocks?|grid blocks?|file|source|kernel|it)\s+)*"
)
_UNIVERSAL = (
    r"(?: (?:at all|please|here|anywhere|ever|any ?more|again|in (?:this|the|my|our) "
    r"(?:file|kernel|code|source|kernels)|anywhere in (?:this|the) (?:file|kernel|code|source)|"
    r"in it|from now on|this time|whatsoever))*"
)
_PART = re.compile(
    r"(?:in|for|on|when|where|unless|except|if|within|inside|outside|at(?! most| the most)|"
    r"during|while|by|with|to|"
    r"before|after|of|across|between|per|until|only|as long as|other than|apart from|save|but)\b",
    re.IGNORECASE,
)
_GIVEN = re.compile(r"(?:if|when|where|unless|while|for|in|on|as long as|whenever|once)\b", re.I)
_NO_ORDER = re.compile(
    r"(?:why|what|should|shall|could|can|would|maybe|perhaps|is|are|do you|does|did)\b", re.I
)
_BREAKS = re.compile(
    r"(?<=[\w)`%])(?P<comma>,)\s+|\s+(?P<or>or|nor)\s+|\s+(?:and|but|yet)\s+|\s+[-\u2013\u2014]+\s+"
    r"|\s*\((?!\))|(?<!\()\)\s*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|:\s+|\n+")
_POLITE = re.compile(r"please|thanks|thank you|ok(?:ay)?|always|ever", re.I)
_BECAUSE = re.compile(r"(?:because|since|as it|as we|as they|due to|for reasons|given)\b", re.I)


def read(text: str) -> Reading:
    """What a text demands. Of a sentence with a condition, demands are narrowed."""
    reading = Reading()
    for sentence in _SENTENCE.split(text.strip()):
        if sentence.strip(" .;!"):
            _read_sentence(sentence.strip(), reading)
    return reading


def _read_sentence(sentence: str, reading: Reading) -> None:
    if sentence.endswith("?") or _NO_ORDER.match(sentence):
        reading.unread.append(sentence)
        return
    found: list[Demand | str] = []
    narrowed = bool(_GIVEN.match(sentence))
    mood = ""
    for clause in _clauses(sentence):
        last = found[-1] if found else None
        if _BECAUSE.match(clause):
            break  # A reason demands nothing, and may take the rest of the sentence.
        if isinstance(last, Demand) and _PART.match(clause):
            found[-1] = replace(last, narrowed=True)
            found.append(clause)
            continue
        demand, mood = _demand(clause, mood)
        if demand is None and isinstance(last, Demand) and _is_implied(clause, last):
            continue
        allowed = set() if demand else set(_allowed(clause))
        reading.allowed |= allowed
        if not allowed:
            found.append(demand or clause)
    for one in found:
        if isinstance(one, Demand):
            reading.demands.append(replace(one, narrowed=one.narrowed or narrowed))
        else:
            reading.unread.append(one)


def _clauses(sentence: str) -> Iterator[str]:
    begin = 0
    for match in _BREAKS.finditer(sentence):
        yield from _meant(sentence[begin : match.start()])
        begin = match.end()
    yield from _meant(sentence[begin:])


def _meant(part: str) -> Iterator[str]:
    part = part.strip(" .;!,")
    if part and not _POLITE.fullmatch(part):
        yield part


def _demand(clause: str, mood: str) -> tuple[Demand | None, str]:
    """What a clause demands; `mood` is what the clause before began with, for lists."""
    for read_one in (_limit, _same, _exact, _prohibition):
        demand, new_mood = read_one(clause, mood)
        if demand is not None:
            return demand, new_mood
    return None, ""


def _limit(clause: str, mood: str) -> tuple[Demand | None, str]:
    begins = rf"{_START}{_HAVE}"
    for sort, unit in _UNITS.items():
        number = r"(?P<number>\d[\d,]*)\s*"
        shapes = [rf"{begins}{_MOST} {number}{unit}", rf"{begins}{number}{unit} {_LAST_MOST}"]
        if mood == "most":
            shapes.append(rf"{number}{unit}")
        if sort is Sort.BLOCK_MOST:
            shapes.append(
                rf"{_START}(?:keep )?(?:the )?block sizes? (?:is |at |to )?{_MOST} {number}"
            )
        if sort is Sort.WIDTH_MOST:
            shapes.append(
                rf"{_START}no (?:loads?|stores?|access(?:es)?) (?:is )?wider than {number}bytes?"
            )
        for shape in shapes:
            match = re.fullmatch(rf"{shape}{_UNIVERSAL}(?P<rest> .+)?", clause, re.IGNORECASE)
            if match is None or not _only_part(match["rest"]):
                continue
            groups = match.groupdict()
            most = int(match["number"].replace(",", "")) - bool(groups.get("strict"))
            if (groups.get("unit") or "").lower() in ("kb", "kib", "k"):
                most *= 1024
            return Demand(sort, clause, most, narrowed=bool(match["rest"])), "most"
    return None, ""


_LAST_MOST = r"(?:at most|at the most|max(?:imum)?|or fewer|or less)"


def _exact(clause: str, mood: str) -> tuple[Demand | None, str]:  # noqa: ARG001
    shapes = {
        Sort.BLOCK_MULTIPLE: [
            r"(?:a |the )?block sizes? (?:that (?:is|are) |is |are |has to be |must be |stays )?"
            r"(?:a )?multiples? of (?P<number>\d+)",
            r"threads (?:per|a|in a) block (?:is |are |must be )?(?:a )?multiples? of "
            r"(?P<number>\d+)",
        ],
        Sort.BLOCK_EXACT: [
            r"(?:(?:use|keep|stay at|stay with|with|exactly|always|blocks of) )+"
            r"(?P<number>\d+) threads(?: (?:per|a|in a|in each) block)?",
            r"(?:keep |use )?(?:the |a )?block size (?:of |at |is |stays |must be |must stay )?"
            r"(?:at )?(?:exactly )?(?P<number>\d+)",
        ],
        Sort.ONE_LAUNCH: [
            r"(?:keep (?:it )?(?:to |at |as )?|use |stay (?:at |with )?|only )?(?:one|a single|1) "
            r"(?:kernel launch|launch|kernel)(?: only)?",
        ],
    }  # fmt: skip
    for sort, forms in shapes.items():
        for form in forms:
            match = re.fullmatch(rf"{_START}{form}{_UNIVERSAL}", clause, re.IGNORECASE)
            if match is not None:
                number = match.groupdict().get("number")
                return Demand(sort, clause, int(number or 0)), ""
    return None, ""


_ALONE = (
    r"(?:(?:do not|don'?t|never|must not) (?:touch|change|edit|modify|rewrite|rename|alter) "
    r"(?P<a>.+)"
    r"|leave (?P<b>.+?)(?: alone| as (?:it|they) (?:is|are)| untouched| unchanged)"
    r"|keep (?P<c>.+?)(?: as (?:it|they) (?:is|are)| untouched| unchanged)"
    r"|(?P<d>.+?) (?:must |has to |should |is to )?(?:stays?|remains?) "
    r"(?:as it is|unchanged|untouched))"
)


def _same(clause: str, mood: str) -> tuple[Demand | None, str]:
    match = re.fullmatch(rf"{_START}{_ALONE}{_UNIVERSAL}", clause, re.IGNORECASE)
    groups = match.groupdict().values() if match else ()
    what = next((g for g in groups if g), clause if mood == "same" else "")
    what = re.sub(r"^(?:the|any of|anything in|all of)\s+", "", what, flags=re.IGNORECASE)
    for sort, form in (
        (Sort.SAME_PLAN, r"launch plan|@launch(?: comment)?"),
        (Sort.SAME_GRID, r"grid(?: sizes?)?"),
        (Sort.SAME_BLOCK, r"blocks?(?: sizes?)?"),
    ):
        if re.fullmatch(form, what, re.IGNORECASE):
            return Demand(sort, clause), "same"
    named = re.fullmatch(
        rf"(?:(?:kernel|function|device function|helper)\s+)?(?:{_CODE_WORD})"
        r"(?:\s+(?:kernel|function|itself))?",
        what,
    )
    if what and named:
        return Demand(Sort.SAME_FUNCTION, clause, name=named["code"] or named["bare"]), "same"
    return None, ""


def _prohibition(clause: str, mood: str) -> tuple[Demand | None, str]:
    bans = [rf"{_START}(?:{_NOT}) (?:the )?(?P<what>.+)", rf"{_START}(?P<what>.+?)-free"]
    after = (
        r"(?:is|are) (?:not (?:allowed|wanted|supported|available|permitted|ok)|forbidden|banned|"
        r"out|prohibited|off limits|taboo)"
    )
    shapes = [*bans, rf"(?P<what>.+?) {after}{_UNIVERSAL}"]
    if mood == "no":
        shapes.append(r"(?P<what>.+)")
    for shape in shapes:
        match = re.fullmatch(shape, clause, re.IGNORECASE)
        if match is not None and (demand := _banned(match["what"], clause)):
            return demand, "no"
    return None, ""


def _banned(what: str, clause: str) -> Demand | None:
    for sort, noun in _NOUNS.items():
        if re.fullmatch(rf"(?:{noun}){_UNIVERSAL}", what, re.IGNORECASE):
            return Demand(sort, clause)
        match = re.fullmatch(rf"(?:{noun}){_UNIVERSAL}(?P<rest> .+)", what, re.IGNORECASE)
        if match is not None and _only_part(match["rest"]):
            return Demand(sort, clause, narrowed=True)
    match = re.fullmatch(rf"(?:{_CODE_WORD}){_UNIVERSAL}(?P<rest> .+)?", what)
    if match is not None and _only_part(match["rest"]):
        name = match["code"] or match["bare"]
        return Demand(Sort.WORD, clause, name=name, narrowed=bool(match["rest"]))
    return None


def _only_part(rest: str | None) -> bool:
    """Whether what follows a demand says where it holds, and nothing else."""
    return not rest or bool(_PART.match(rest.strip()))


def _is_implied(clause: str, last: Demand) -> bool:
    """As "never 512" after "at most 256 threads"."""
    match = re.fullmatch(r"(?:never|not|no) (\d+)(?: threads)?", clause, re.IGNORECASE)
    limited = last.sort in (Sort.BLOCK_MOST, Sort.BLOCK_EXACT)
    return match is not None and limited and int(match[1]) > last.number


def _allowed(clause: str) -> Iterable[Sort]:
    may = (
        r"(?:please |now |you may |we may |you can |feel free to |do |let'?s )*(?:use|allow|try) "
        r"(?:the |a |some )?(?P<what>.+)"
    )
    fine = r"(?P<what>.+?) (?:is|are) (?:now )?(?:fine|ok(?:ay)?|allowed|permitted|welcome)"
    for shape in (may, fine):
        match = re.fullmatch(
            rf"{_START}{shape}{_UNIVERSAL}(?: after all| again| now)?", clause, re.I
        )
        if match is not None:
            what = match["what"]
            yield from (s for s, noun in _NOUNS.items() if re.fullmatch(noun, what, re.I))
