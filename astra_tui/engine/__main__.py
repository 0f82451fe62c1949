"""`python -m astra_tui.engine`: the engine process that sessions/engines.py starts. No command."""

import sys

from astra_tui.processes.exit_with_parent import hide_process

hide_process()  # Before anything takes long: keys of models are in the environment.

from astra_tui.engine.process import main  # noqa: E402

sys.exit(main())
