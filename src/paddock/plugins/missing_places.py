"""Places that a plugin asks for and that are not there: it is not started without them."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable

from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, FileAccess
from paddock.plugins.glances import Glances

PATIENCE = 0.5  # seconds for all looks together: a dead disk never answers


def missing_places(capabilities: Iterable[Capability]) -> list[Problem]:
    """A warning for each absolute path that is asked for and is known not to be there."""
    asked = [one for one in capabilities if isinstance(one, FileAccess) and not one.root]
    deadline = time.monotonic() + PATIENCE
    seen = [(one, _HERE.at(one.path, max(0.0, deadline - time.monotonic()))) for one in asked]
    return [_warning(one) for one, there in seen if there is False]


def is_there(path: str) -> bool | None:
    """Whether anything stands at a path; None where we may not look."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return None
    return True


# One for the whole process, since it bounds how many of its threads hang.
_HERE = Glances(is_there)


def _warning(capability: FileAccess) -> Problem:
    message = f"{printable(capability.path)} does not exist, and the plugin does not start without it"
    hint = f"make it before you say yes: mkdir -p {shlex.quote(capability.path)}"
    return Problem(str(capability), message, hint, "place_missing")
