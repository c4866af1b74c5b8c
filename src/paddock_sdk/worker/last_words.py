"""Why a plugin cannot be loaded, as the last lines of its log: for people, and for the host's diagnosis."""

from __future__ import annotations

import os

from paddock_sdk.worker.guard import RefusedImport
from paddock_sdk.worker.loading import LoadError, below


def last_words(error: BaseException, root: str) -> str:
    """One line where one says it all; else the traceback as Python writes it, of the plugin's own steps."""
    if isinstance(error, LoadError):
        return str(error)
    import traceback  # late: only a failing plugin pays for it

    told = traceback.TracebackException.from_exception(error)
    # What this program did to get there helps nobody.
    own = [step for step in told.stack if below(os.path.abspath(step.filename), root)]  # noqa: PTH100
    if isinstance(error, RefusedImport) and own:
        return f"{own[-1].filename.removeprefix(root.rstrip('/') + '/')}, line {own[-1].lineno}: {error}"
    told.stack[:] = own
    return "".join(told.format(chain=False)).rstrip()
