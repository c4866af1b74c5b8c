"""Actions as links to pages of the console."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import quote

from markupsafe import Markup

from paddock.core.action import Action, ActionKind, fill_template, template_arguments
from paddock.core.printable import printable

_MAX_LABEL_CHARS: Final = 300
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

PAGES: Final[Mapping[ActionKind, str | None]] = {
    "apikey.add": "/settings/keys",
    "apikey.list": "/settings/keys",
    "approval.approve": "/approvals/{approval}",
    "approval.deny": "/approvals/{approval}",
    "approval.list": "/approvals",
    "approval.standing": "/approvals/standing",
    "call.explain": "/calls/{call}",
    "call.make": None,
    "call.show": "/calls/{call}",
    "call.unresolved.list": "/unknown-outcomes",
    "call.unresolved.show": "/unknown-outcomes/{call}",
    "consent.list": "/settings",
    "daemon.start": None,
    "daemon.start_delegated": None,
    "dev": None,
    "group.add": "/settings/groups",
    "group.list": "/settings/groups",
    "group.member.remove": "/settings/people/{user}",
    "group.remove": "/settings/groups",
    "host.check": "/settings/host/check",
    "inbox.list": "/inbox",
    "key.add": None,
    "key.list": None,
    "key.show": None,
    "ledger.show": "/ledger/{entry}",
    "ledger.tail": "/ledger",
    "ledger.verify": "/ledger/verify",
    "login": None,
    "plugin.accept": "/plugins/{plugin}",
    "plugin.alias.remove": None,
    "plugin.check": None,
    "plugin.configure": "/plugins/{plugin}/settings",
    "plugin.disable": "/plugins/{plugin}",
    "plugin.enable": "/plugins/{plugin}",
    "plugin.grant": "/plugins/{plugin}",
    "plugin.import": None,
    "plugin.install": "/install",
    "plugin.knob": "/plugins/{plugin}/settings",
    "plugin.list": "/plugins",
    "plugin.logs": "/plugins/{plugin}/logs",
    "plugin.new": None,
    "plugin.remove": "/plugins/{plugin}/uninstall",
    "plugin.remove_pinned": "/plugins/{plugin}/uninstall",
    "plugin.repair": "/repairs",
    "plugin.resources": "/plugins/{plugin}",
    "plugin.rollback": "/plugins/{plugin}/versions",
    "plugin.show": "/plugins/{plugin}",
    "plugin.sign": None,
    "plugin.sync": None,
    "plugin.tools": "/plugins/{plugin}",
    "plugin.try": "/plugins/{plugin}",
    "plugin.unpin": "/plugins/{plugin}/versions",
    "plugin.upgrade": "/plugins/{plugin}/upgrade",
    "plugin.upgrade_untrusted": "/plugins/{plugin}/upgrade",
    "policy.check": "/policy",
    "policy.show": "/policy",
    "restore.replace": None,
    "restore.undo": None,
    "secret.list": "/secrets",
    "secret.rotate": "/secrets",
    "secret.set": "/secrets/set?name={name}",
    "tenant.add": None,
    "tenant.list": None,
    "user.add": "/settings/people",
    "user.enable": "/settings/people/{user}",
    "user.identity.add": None,
    "user.identity.remove": None,
    "user.list": "/settings/people",
    "user.remove": "/settings/people",
    "user.role.add": "/settings/people",
    "user.role.remove": "/settings/people/{user}",
    "user.scope.add": "/settings/people/{user}",
    "user.session.list": "/settings/people",
    "user.show": "/settings/people/{user}",
    "webhook.dead_letter.list": "/settings/webhooks/{webhook}",
    "webhook.dead_letter.retry": "/settings/webhooks/{webhook}",
    "webhook.list": "/settings/webhooks",
    "webhook.remove": "/settings/webhooks",
    "webhook.rotate": "/settings/webhooks/{webhook}",
    "webhook.test": "/settings/webhooks/{webhook}",
}
"""The page of each kind, or None where the console has none; see `fill_template`."""


def page_address(action: Action) -> str | None:
    """Return the address of the page where a person does what the action says; None if it needs an unknown argument."""
    page = PAGES[action.kind]
    if page is None or any(name not in action.arguments for name in template_arguments(page)):
        return None
    return fill_template(page, action.arguments, _quote_segment)


def action_link(action: Action, names: Mapping[str, str] = _NO_NAMES) -> Markup:
    """Render an action as a link, or as text where the console has no page for it.

    Args:
        action: The action.
        names: What people are called; see `read_names`.
    """
    named, page = _named(action, names), page_address(action)
    label = printable(named.sentence.rstrip("."), _MAX_LABEL_CHARS)
    if not page:
        return Markup("{}.").format(label)
    if named is action:
        return Markup('<a href="{}">{}</a>').format(page, label)
    # Two people may be called the same.
    return Markup('<a href="{}" title="user:{}">{}</a>').format(page, action.arguments["user"], label)


def next_step(error: object, shown_call: str = "", names: Mapping[str, str] = _NO_NAMES) -> Markup:
    """Render the action of an error or problem, be it an object or its JSON; empty if it has none.

    Args:
        error: The error or problem.
        shown_call: The call whose page this is: its decision is on the page, and no link leads to the page itself.
        names: What people are called; see `read_names`.
    """
    if isinstance(error, Mapping):
        action = Action.from_json(cast("Mapping[str, Any]", error).get("action"))
    else:
        action = getattr(error, "action", None)
    if not isinstance(action, Action):
        return Markup("")
    if shown_call and action.kind.startswith("call.") and action.arguments.get("call") == shown_call:
        return Markup(' <a href="#decision">See the decision</a>') if action.kind == "call.explain" else Markup("")
    return Markup(" {}").format(action_link(action, names))


def _named(action: Action, names: Mapping[str, str]) -> Action:
    """Return an action that names a person as people know them, for its sentence alone."""
    name = names.get(f"user:{action.arguments.get('user', '')}")
    return Action(action.kind, {**action.arguments, "user": name}) if name else action


def _quote_segment(text: str) -> str:
    return quote(text, safe="")
