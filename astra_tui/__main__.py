"""`python -m astra_tui`."""

import sys

from astra_tui.cli import main

sys.exit(main())
