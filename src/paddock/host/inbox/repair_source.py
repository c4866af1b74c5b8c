"""Repairs in the inbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.core.action import Action, ActionKind
from paddock.core.call import OPERATOR
from paddock.core.ids import Tenant
from paddock.host.inbox.item import InboxChoice, InboxItem, InboxKind, hashed_item_id
from paddock.host.inbox.source import OperatorSource
from paddock.host.repairs.repair import Repair, RepairButton, RepairLink, Severity
from paddock.host.repairs.repair_service import RepairService
from paddock.manifest.effects import Risk

_KIND: Final = InboxKind.REPAIR
_RISKS: Final = {
    Severity.URGENT: Risk.DANGER,
    Severity.BROKEN: Risk.WARNING,
    Severity.NOTICE: Risk.NOTICE,
}
_OTHER_SOURCES: Final = frozenset({"effect.in_doubt", "plugin.definitions"})  # repairs that sum up other items
_PLUGIN_ACTIONS: Final[Mapping[str, ActionKind]] = {
    "plugin.modified": "plugin.repair",
    "plugin.version_gone": "plugin.unpin",
    "plugin.given_up": "plugin.enable",
    "plugin.down": "plugin.enable",
    "plugin.configuration": "plugin.configure",
    "plugin.configuration_unused": "plugin.enable",
}


def repair_source(repairs: RepairService) -> OperatorSource:
    """Return the source of problems that a person has to fix.

    Args:
        repairs: Detects them; a list of a few seconds ago is good enough here, since every page counts them.
    """

    async def list_items(tenant: Tenant) -> list[InboxItem]:
        found = await repairs.recent_repairs(tenant)
        return [repair_item(repair, tenant) for repair in found.open if repair.kind not in _OTHER_SOURCES]

    return OperatorSource(_KIND, list_items)


def repair_item(repair: Repair, tenant: Tenant) -> InboxItem:
    """Return a repair as an item; its first button can be pressed from the list. Pure."""
    buttons = [option for option in repair.ways if isinstance(option, RepairButton)]
    links = [option for option in repair.ways if isinstance(option, RepairLink)]
    plugin = repair.subject if repair.kind.startswith("plugin.") else ""
    return InboxItem(
        id=hashed_item_id("rep", repair.id),
        kind=_KIND,
        title=repair.title,
        detail=repair.cause,
        risk=_RISKS[repair.severity],
        link=links[0].path if links and not buttons else "/repairs",
        plugin=plugin,
        answerable_by=(f"role:{OPERATOR}",),
        choices=tuple(InboxChoice(one.action, one.words, one.asks, one.host_only) for one in buttons),
        binding=repair.fingerprint,
        action=repair_action(repair, tenant),
        reference=repair.id,
        created_at=repair.since or None,
    )


def repair_action(repair: Repair, tenant: Tenant) -> Action:
    """Return what to do about a repair on the command line. Pure."""
    subject, family = repair.subject, repair.kind.partition(".")[0]
    if repair.kind in _PLUGIN_ACTIONS:
        return Action.of(_PLUGIN_ACTIONS[repair.kind], plugin=subject)
    match repair.kind, family:
        case "secret.missing", _:
            return Action.of("secret.set", name=subject.rpartition("/")[2], tenant=tenant)
        case "secret.rotation", _:
            return Action.of("secret.rotate")
        case "webhook.dead_letters", _:
            return Action.of("webhook.dead_letter.retry", webhook=subject, tenant=tenant)
        case _, "webhook":
            return Action.of("webhook.list", tenant=tenant)
        case _, "api_key":
            return Action.of("apikey.list", tenant=tenant)
        case _:
            return Action.of("host.check")
