"""Everything that somebody has to see to, by the facts of one moment. Pure."""

from __future__ import annotations

from paddock.host.repairs.facts import Facts
from paddock.host.repairs.host_detectors import of_host
from paddock.host.repairs.plugin_detectors import of_plugins
from paddock.host.repairs.repair import Repair, worst_first

_FLEETING = ("machine.", "host.", "plugin.down:", "plugin.configuration_unused:", "secret.key_missing:")


def is_fleeting(repair: str) -> bool:
    """Whether a repair, by its id, may only seem to be gone: its process is just being started again, or nobody has
    looked at the machine yet. What somebody said of it stays until its cause is another."""
    return repair.startswith(_FLEETING)


def detect(facts: Facts) -> list[Repair]:
    """All repairs, the worst first."""
    return worst_first((*of_host(facts), *of_plugins(facts)))
