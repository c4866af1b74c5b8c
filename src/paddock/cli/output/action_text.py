"""Actions as commands to type."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from paddock.core.action import Action, ActionKind, fill_template
from paddock.core.ids import DEFAULT_TENANT

COMMANDS: Final[Mapping[ActionKind, str]] = {
    "apikey.add": "paddock apikey add {owner|NAME}[ --role {role}][ --tenant {tenant}]",
    "apikey.list": "paddock apikey list[ --tenant {tenant}]",
    "approval.approve": "paddock approval approve {approval}[ --tenant {tenant}]",
    "approval.deny": "paddock approval deny {approval}[ --tenant {tenant}]",
    "approval.list": "paddock approval list --all[ --tenant {tenant}]",
    "approval.standing": "paddock approval standing list[ --tenant {tenant}]",
    "call.explain": "paddock explain {call}[ --tenant {tenant}]",
    "call.make": "paddock call {callable}",
    "call.show": "paddock call show {call|ID}[ --tenant {tenant}]",
    "call.unresolved.list": "paddock call unresolved list[ --tenant {tenant}]",
    "call.unresolved.show": "paddock call unresolved show {call}[ --tenant {tenant}]",
    "consent.list": "paddock consent list[ --tenant {tenant}]",
    "daemon.start": "paddock serve",
    "daemon.start_delegated": "systemd-run --user --scope -p Delegate=yes paddock serve",
    "dev": "paddock dev {path|DIR}[ --secret {secrets}]",
    "group.add": "paddock group add {group|NAME}[ --tenant {tenant}]",
    "group.list": "paddock group list[ --tenant {tenant}]",
    "group.member.remove": "paddock group member remove {group} {user}[ --tenant {tenant}]",
    "group.remove": "paddock group remove NAME[ --tenant {tenant}]",
    "host.check": "[sudo -u {user} ]paddock doctor",
    "inbox.list": "paddock inbox list[ --tenant {tenant}]",
    "key.add": "paddock key add FILE",
    "key.list": "paddock key list",
    "key.show": "paddock key show {file|FILE}",
    "ledger.show": "paddock ledger show {entry}",
    "ledger.tail": "paddock ledger tail[ --type {type}][ --tenant {tenant}]",
    "ledger.verify": "paddock ledger verify[ --anchor {anchor}]",
    "login": "paddock login",
    "plugin.accept": "paddock plugin accept {plugin}[ {name}][ --tenant {tenant}]",
    "plugin.alias.remove": "paddock plugin alias {alias} --remove",
    "plugin.check": "paddock plugin check {path|DIR}",
    "plugin.configure": "paddock plugin configure {plugin|NAME}[ {field}][ --tenant {tenant}]",
    "plugin.disable": "paddock plugin disable {plugin}[ --tenant {tenant}]",
    "plugin.enable": "paddock plugin enable {plugin}[ --tenant {tenant}][ --grant {grants}]",
    "plugin.grant": "paddock plugin grant {plugin}[ {capabilities}][ --tenant {tenant}]",
    "plugin.import": "paddock import {file|FILE}[ --only {only}][ --capability {capability}]",
    "plugin.install": "paddock plugin install {source|SOURCE}[ --name {name}][ --program {program}][ --with {package}]"
    "[ --capability {capability}]",
    "plugin.knob": "paddock plugin knob {plugin}[ {knob}=VALUE][ --tenant {tenant}]",
    "plugin.list": "paddock plugin list[ --tenant {tenant}]",
    "plugin.logs": "paddock plugin logs {plugin}[ --tenant {tenant}]",
    "plugin.new": "paddock plugin new NAME DIR",
    "plugin.remove": "paddock plugin remove {plugin}",
    "plugin.remove_pinned": "paddock plugin remove {plugin}[ --version {version}] --force",
    "plugin.repair": "paddock plugin repair {plugin}",
    "plugin.resources": "paddock plugin resources {plugin}[ --tenant {tenant}]",
    "plugin.rollback": "paddock plugin rollback {plugin}[ --to {version}]",
    "plugin.show": "paddock plugin show {plugin|NAME}[ --tenant {tenant}]",
    "plugin.sign": "paddock plugin sign {path|DIR} --key FILE",
    "plugin.sync": "paddock plugin sync {path|DIR}",
    "plugin.tools": "paddock plugin tools {plugin}[ --tenant {tenant}]",
    "plugin.try": "paddock plugin try {plugin}",
    "plugin.unpin": "paddock plugin pin {plugin} --off",
    "plugin.upgrade": "paddock plugin upgrade {plugin}[ --arg {argument}][ --capability {capabilities}]",
    "plugin.upgrade_untrusted": "paddock plugin upgrade {plugin} --less-trust",
    "policy.check": "paddock policy check",
    "policy.show": "paddock policy show[ {rule}]",
    "restore.replace": "paddock restore {file} --replace",
    "restore.undo": "paddock restore --undo",
    "secret.list": "paddock secret list[ --tenant {tenant}]",
    "secret.rotate": "paddock secret rotate",
    "secret.set": "paddock secret set {name}[ --user {user}][ --tenant {tenant}]",
    "tenant.add": "paddock tenant add {tenant|NAME}",
    "tenant.list": "paddock tenant list",
    "user.add": "paddock user add {user|NAME}[ --tenant {tenant}]",
    "user.enable": "paddock user enable {user}[ --tenant {tenant}]",
    "user.identity.add": "paddock user identity add {user|NAME} --subject SUBJECT",
    "user.identity.remove": "paddock user identity remove {user|NAME}",
    "user.list": "paddock user list[ --tenant {tenant}]",
    "user.remove": "paddock user remove NAME[ --tenant {tenant}]",
    "user.role.add": "paddock user role add {user|NAME} {role}[ --tenant {tenant}]",
    "user.role.remove": "paddock user role remove {user} {role}[ --tenant {tenant}]",
    "user.scope.add": "paddock user scope add {user|NAME}[ {scopes}][ --tenant {tenant}]",
    "user.session.list": "paddock user session list",
    "user.show": "paddock user show {user}[ --tenant {tenant}]",
    "webhook.dead_letter.list": "paddock webhook dead-letter list {webhook}[ --tenant {tenant}]",
    "webhook.dead_letter.retry": "paddock webhook dead-letter retry {webhook} --all[ --tenant {tenant}]",
    "webhook.list": "paddock webhook list[ --tenant {tenant}]",
    "webhook.remove": "paddock webhook remove {webhook|ID}[ --tenant {tenant}]",
    "webhook.rotate": "paddock webhook rotate {webhook}[ --tenant {tenant}]",
    "webhook.test": "paddock webhook test {webhook}[ --tenant {tenant}]",
}
"""The command of each kind; see `fill_template`."""


def command_line(action: Action) -> str:
    """Return the command that does what the action says, quoted for a shell."""
    return fill_template(COMMANDS[action.kind], action.arguments, shlex.quote, repeat=True)


def remedy_lines(hint: str, action: Action | None) -> list[str]:
    """Return a hint and the command of an action, each as a line."""
    return [line for line in (hint, command_line(action) if action else "") if line]


def remedy_lines_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the lines of `remedy_lines` for an error or a status in JSON."""
    return remedy_lines(str(fields.get("hint") or ""), Action.from_json(fields.get("action")))


def tenant_option(tenant: str) -> str:
    """Return the command-line option for a tenant other than the default one, with a leading space."""
    return "" if tenant == DEFAULT_TENANT else f" --tenant {tenant}"
