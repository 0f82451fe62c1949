"""`astra-tui memory`: what was tried on this machine, predicted and measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.click_command import Options, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON
from astra_tui.model.errors import UserError, nearest

if TYPE_CHECKING:
    from astra_tui.model.experience import Experience
    from astra_tui.sessions.experience import ExperienceStore


@command(
    "list, export or forget what was tried on this machine",
    "Every plan that a session tried is kept with its prediction and its result, in your own file "
    "(ASTRA_TUI_MEMORY, or off). Planning is shown what fits. Then the ledger: predictions against "
    "measurements, by team and model.",
    flag("--operator", metavar="NAME", help="of this kernel task alone"),
    flag("--gpu", metavar="NAME", help="of this GPU alone, or of the emulator"),
    flag("--export", metavar="FILE", help="write them into a file, one JSON object a line"),
    flag("--forget", metavar="ID|all", help="forget one plan, all of a session, or all"),
    JSON,
    example="astra-tui memory --operator silu_and_mul",
)
def run(options: Options) -> int:
    """Lists, writes or forgets; forgetting takes the filters of a list."""
    from astra_tui.cli.json_answers import MemoryAnswer
    from astra_tui.model.experience import ledger_over
    from astra_tui.present.sessions import memory_blocks
    from astra_tui.sessions.experience import VARIABLE, ExperienceStore, memory_file

    file = memory_file()
    if file is None:
        raise UserError(
            "the memory is switched off", hint=f"unset {VARIABLE}, or name a file in it"
        )
    store = ExperienceStore(file)
    is_meant = _filter(options)
    if options.forget is not None:
        return _forget(store, options, is_meant)
    known = tuple(filter(is_meant, store.read()))
    if options.export is not None:
        return _export(known, Path(options.export))
    if options.json:
        plain.print_json(MemoryAnswer(str(file), known, ledger_over(known)))
    elif known:
        plain.print_blocks(memory_blocks(known, ledger_over(known)))
    else:
        plain.note(f"{file} holds nothing that fits; sessions fill it")
    return ExitCode.OK


def _filter(options: Options) -> Callable[[Experience], bool]:
    def is_meant(one: Experience) -> bool:
        return options.operator in (None, one.operator) and options.gpu in (None, one.gpu)

    return is_meant


def _forget(
    store: ExperienceStore, options: Options, is_meant: Callable[[Experience], bool]
) -> int:
    name = options.forget
    if name == "all" and options.operator is None and options.gpu is None:
        store.clear()
        plain.note(f"{store.file} is empty")
        return ExitCode.OK
    names = [n for one in store.read() for n in (one.id, one.session)]
    if name != "all" and name not in names:
        raise UserError(f"nothing is known of '{name}'", hint=nearest(name, names))
    from astra_tui.present.numbers import pluralised

    count = store.forget(lambda one: is_meant(one) and name in ("all", one.id, one.session))
    plain.note(f"{pluralised(count, 'plan')} forgotten")
    return ExitCode.OK


def _export(known: tuple[Experience, ...], file: Path) -> int:
    import msgspec

    from astra_tui.sessions.safe_open import write_inside

    lines = (msgspec.json.encode(one) + b"\n" for one in known)
    write_inside(file.parent, file.name, b"".join(lines))
    plain.note(f"{len(known)} plans are in {file}")
    return ExitCode.OK
