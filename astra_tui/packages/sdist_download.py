"""Downloads a source distribution and does nothing else with it.

`pip download` prepares the metadata of what it downloads, which for a source distribution means to
run its build code. This asks pip for the links of a package and for its session, so that the user's
index, proxy, certificates and credentials hold as in any run of pip, and copies what one link gives
into a file. Both are inner parts of pip, with no promise to stay; what fails here is an error line.

Started by `pip.py` as `python -m astra_tui.packages.sdist_download NAME FILE FOLDER`.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

MAX_BYTES = 4 << 30
_CHUNK = 1 << 20


def main(name: str, file: str, folder: str) -> None:
    """Writes the file of that name into the folder; what goes wrong ends the process with words."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    try:
        from pip._internal.commands import create_command
    except ImportError:
        sys.exit("ERROR: No module named pip")
    command: Any = create_command("download")
    options, _ = command.parse_args(["--no-deps", "--no-cache-dir", "--no-input", name])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session, ignore_requires_python=True)
        links = [c.link for c in finder.find_all_candidates(name) if c.link.filename == file]
        if not links:
            sys.exit(f"ERROR: No matching distribution found: the index has no {file}")
        with session.get(links[0].url_without_fragment, stream=True) as response:
            response.raise_for_status()
            _write(response.iter_content(_CHUNK), Path(folder) / file)


def _write(chunks: Any, to: Path) -> None:
    size = 0
    with to.open("xb") as written:
        for chunk in chunks:
            size += len(chunk)
            if size > MAX_BYTES:
                sys.exit(f"ERROR: the file has more than {MAX_BYTES:,} bytes")
            written.write(chunk)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(f"ERROR: {type(error).__name__}: {error}")
