"""Tests of the promises in docs/reliability.md; more of them, elsewhere, have the marker `reliability`."""

import os

#: They run a short form of themselves; with CALLERID_RELIABILITY=long, the whole one.
LONG = os.environ.get("CALLERID_RELIABILITY") == "long"
