"""Actions as commands to type."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from paddock.core.action import Action, ActionKind, fill_template

COMMANDS: Final[Mapping[ActionKind, str]] = {
    "apikey.add": "apikey add {owner|NAME}[ --role {role}][ --tenant {tenant}]",
    "apikey.list": "apikey list[ --tenant {tenant}]",
    "approval.approve": "approval approve {approval}[ --tenant {tenant}]",
    "approval.list": "approval list --all[ --tenant {tenant}]",
    "approval.standing": "approval standing list[ --tenant {tenant}]",
    "call.explain": "explain {call}[ --tenant {tenant}]",
    "call.make": "call {callable}",
    "call.show": "call show {call|ID}[ --tenant {tenant}]",
    "call.unresolved.list": "call unresolved list[ --tenant {tenant}]",
    "call.unresolved.show": "call unresolved show {call}[ --tenant {tenant}]",
    "consent.list": "consent list[ --tenant {tenant}]",
    "daemon.start": "serve",
    "group.add": "group add {group|NAME}[ --tenant {tenant}]",
    "group.list": "group list[ --tenant {tenant}]",
    "group.remove": "group remove NAME[ --tenant {tenant}]",
    "host.check": "doctor",
    "key.add": "key add FILE",
    "key.list": "key list",
    "key.show": "key show {file|FILE}",
    "ledger.show": "ledger show {entry}",
    "ledger.tail": "ledger tail[ --type {type}][ --tenant {tenant}]",
    "ledger.verify": "ledger verify",
    "login": "login",
    "plugin.accept": "plugin accept {plugin}[ {name}]",
    "plugin.alias.remove": "plugin alias {alias} --remove",
    "plugin.check": "plugin check {path|DIR}",
    "plugin.configure": "plugin configure {plugin}[ {field}][ --tenant {tenant}]",
    "plugin.disable": "plugin disable {plugin}[ --tenant {tenant}]",
    "plugin.enable": "plugin enable {plugin}[ --tenant {tenant}][ --grant {grants}]",
    "plugin.import": "import {file}[ --only {only}][ --capability {capability}]",
    "plugin.install": "plugin install {source}[ --name {name}]",
    "plugin.list": "plugin list[ --tenant {tenant}]",
    "plugin.logs": "plugin logs {plugin}[ --tenant {tenant}]",
    "plugin.new": "plugin new NAME DIR",
    "plugin.remove": "plugin remove {plugin}",
    "plugin.repair": "plugin repair {plugin}",
    "plugin.resources": "plugin resources {plugin}[ --tenant {tenant}]",
    "plugin.rollback": "plugin rollback {plugin}[ --to {version}]",
    "plugin.show": "plugin show {plugin}[ --tenant {tenant}]",
    "plugin.sign": "plugin sign {path|DIR} --key FILE",
    "plugin.tools": "plugin tools {plugin}[ --tenant {tenant}]",
    "plugin.unpin": "plugin pin {plugin} --off",
    "plugin.upgrade": "plugin upgrade {plugin}[ --capability {capabilities}]",
    "policy.check": "policy check",
    "policy.show": "policy show[ {rule}]",
    "secret.list": "secret list[ --tenant {tenant}]",
    "secret.rotate": "secret rotate",
    "secret.set": "secret set {name}[ --user {user}][ --tenant {tenant}]",
    "tenant.add": "tenant add {tenant|NAME}",
    "tenant.list": "tenant list",
    "user.add": "user add {user|NAME}[ --tenant {tenant}]",
    "user.enable": "user enable {user}[ --tenant {tenant}]",
    "user.identity": "user identity list {user|NAME}",
    "user.list": "user list[ --tenant {tenant}]",
    "user.remove": "user remove NAME[ --tenant {tenant}]",
    "user.role": "user role add {user|NAME} {role}[ --tenant {tenant}]",
    "user.sessions": "user session list",
    "user.show": "user show {user}[ --tenant {tenant}]",
    "webhook.dead": "webhook dead-letter list {webhook}[ --tenant {tenant}]",
    "webhook.list": "webhook list[ --tenant {tenant}]",
    "webhook.remove": "webhook remove {webhook|ID}[ --tenant {tenant}]",
    "webhook.retry": "webhook dead-letter retry {webhook} --all[ --tenant {tenant}]",
    "webhook.rotate": "webhook rotate {webhook}[ --tenant {tenant}]",
    "webhook.test": "webhook test {webhook}[ --tenant {tenant}]",
}
"""The command of each kind, after `paddock`; see `fill_template`."""


def command_line(action: Action) -> str:
    """Return the command that does what the action says, quoted for a shell."""
    return f"paddock {fill_template(COMMANDS[action.kind], action.arguments, shlex.quote, repeat=True)}"


def remedy_lines(hint: str, action: Action | None) -> list[str]:
    """Return a hint and the command of an action, each as a line."""
    return [line for line in (hint, command_line(action) if action else "") if line]
