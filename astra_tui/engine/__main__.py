"""`python -m astra_tui.engine`: the engine process that session/spawn.py starts. No command."""

import sys

from astra_tui.engine.process import main

sys.exit(main())
