"""The rules about what may happen: whether they can be used as they stand in their files."""

from __future__ import annotations

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.errors import Invalid, PaddockError
from paddock.doctor.check import Check, Status

_WHY = (
    "No rules are taken from files with a mistake: every call is refused, and no daemon starts. "
    "One that runs goes on with the rules that it has."
)
_MOST = 10


def check_rules(directories: Directories, settings: Settings | None) -> Check:
    """Read them as a call does."""
    # Imported here: the engine takes longer to load than the other probes.
    from paddock.policy.loading import load_policy
    from paddock.policy.rules import SHIPPED

    if settings is None:
        return Check("rules", Status.WARN, "could not be looked at: the settings have to be mended first")
    try:
        rules = load_policy(directories, settings.policy).rules.rules
    except Invalid as error:
        details = tuple(map(str, error.problems[:_MOST]))
        return Check("rules", Status.FAIL, error.message, _WHY, "paddock policy check", error.error_code, details)
    except PaddockError as error:
        return Check("rules", Status.FAIL, error.message, _WHY, error.hint, error.error_code)
    own = sum(rule.origin != SHIPPED for rule in rules)
    return Check("rules", Status.OK, f"{len(rules)} hold, {own} of them your own")
