"""The results of `astra-tui audit`, summed up for docs/gate.md.

    astra-tui audit --device emulator --jobs 16 --resume audit_emulator.jsonl
    python benchmarks/audit_summary.py audit_emulator.jsonl > benchmarks/results/audit_emulator.json
    python docs/generate.py

Nothing is judged here. Kernels that the zoo no longer has, or has changed, are left out, and so are
those of an audit that ended before it had judged them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from astra_tui.lab.audit.running import Results, items_of
from astra_tui.lab.audit.zoo import read_zoo
from astra_tui.model.audit import NOT_JUDGED, AuditHead, summarise


def main() -> None:
    """Prints one JSON object for the file of results that is named."""
    file = Path(sys.argv[1])
    with file.open("rb") as lines:
        head = msgspec.json.decode(lines.readline(), type=AuditHead)
    zoo = read_zoo(Path(__file__).parents[1] / "tests" / "zoo")
    records = (r for r in Results(file, head).of(items_of(zoo)) if r.outcome not in NOT_JUDGED)
    summary = summarise(head, f"astra-tui audit --device {head.device}", records)
    print(msgspec.json.format(msgspec.json.encode(summary), indent=1).decode())


if __name__ == "__main__":
    main()
