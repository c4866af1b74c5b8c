"""Remedies as data: what a person can do about an error, as one of a closed set of kinds with named arguments.

The command line renders an action as a command to type, the console as a link to a page. `Action.sentence` is for
everything without a renderer of its own: MCP clients, logs and one-line texts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias, TypedDict, cast, get_args

ActionKind: TypeAlias = Literal[
    "apikey.add",
    "apikey.list",
    "approval.approve",
    "approval.deny",
    "approval.list",
    "approval.standing",
    "call.explain",
    "call.make",
    "call.show",
    "call.unresolved.list",
    "call.unresolved.show",
    "consent.list",
    "daemon.start",
    "daemon.start_delegated",
    "dev",
    "group.add",
    "group.list",
    "group.member.remove",
    "group.remove",
    "host.check",
    "inbox.list",
    "key.add",
    "key.list",
    "key.show",
    "ledger.show",
    "ledger.tail",
    "ledger.verify",
    "login",
    "plugin.accept",
    "plugin.alias.remove",
    "plugin.check",
    "plugin.configure",
    "plugin.disable",
    "plugin.enable",
    "plugin.grant",
    "plugin.import",
    "plugin.install",
    "plugin.knob",
    "plugin.list",
    "plugin.logs",
    "plugin.new",
    "plugin.remove",
    "plugin.remove_pinned",
    "plugin.repair",
    "plugin.resources",
    "plugin.rollback",
    "plugin.show",
    "plugin.sign",
    "plugin.sync",
    "plugin.tools",
    "plugin.try",
    "plugin.unpin",
    "plugin.upgrade",
    "plugin.upgrade_untrusted",
    "policy.check",
    "policy.show",
    "restore.replace",
    "restore.undo",
    "secret.list",
    "secret.rotate",
    "secret.set",
    "tenant.add",
    "tenant.list",
    "user.add",
    "user.enable",
    "user.identity.add",
    "user.identity.remove",
    "user.list",
    "user.remove",
    "user.role.add",
    "user.role.remove",
    "user.scope.add",
    "user.session.list",
    "user.show",
    "webhook.dead_letter.list",
    "webhook.dead_letter.retry",
    "webhook.list",
    "webhook.remove",
    "webhook.rotate",
    "webhook.test",
]

ActionValue: TypeAlias = str | tuple[str, ...]

# Not DEFAULT_TENANT: `ids.py` needs the errors, which carry actions.
_DEFAULT_TENANT: Final = "default"

SENTENCES: Final[Mapping[ActionKind, str]] = {
    "apikey.add": "Create an API key[ for {owner}][ with the role {role}][ in the tenant {tenant}].",
    "apikey.list": "List the API keys[ of the tenant {tenant}].",
    "approval.approve": "Approve or deny the request {approval}[ of the tenant {tenant}].",
    "approval.deny": "Deny or withdraw the request {approval}[ of the tenant {tenant}].",
    "approval.list": "List the approval requests[ of the tenant {tenant}].",
    "approval.standing": "List the standing approvals[ of the tenant {tenant}].",
    "call.explain": "Look at the explanation of {call}[ of the tenant {tenant}].",
    "call.make": "Call {callable}.",
    "call.show": "Look at the call {call}[ of the tenant {tenant}].",
    "call.unresolved.list": "List the calls whose outcome is unknown[ (tenant {tenant})].",
    "call.unresolved.show": "Look at the call {call}, whose outcome is unknown[ (tenant {tenant})].",
    "consent.list": "List the consents[ of the tenant {tenant}].",
    "daemon.start": "Start the daemon.",
    "daemon.start_delegated": "Start the daemon in a systemd scope with delegated cgroups.",
    "dev": "Start the dev host of {path|DIR}[, with the secrets {secrets}].",
    "group.add": "Add the group {group|NAME}[ to the tenant {tenant}].",
    "group.list": "List the groups[ of the tenant {tenant}].",
    "group.member.remove": "Remove the user {user} from the group {group}[ of the tenant {tenant}].",
    "group.remove": "Remove the groups[ of the tenant {tenant}].",
    "host.check": "Check this machine with the doctor[ as the user {user}].",
    "inbox.list": "Look at the inbox[ of the tenant {tenant}].",
    "key.add": "Create a signing key.",
    "key.list": "List the trusted signing keys.",
    "key.show": "Print the public half of the signing key[ in {file}].",
    "ledger.show": "Look at the ledger entry {entry}.",
    "ledger.tail": "Look at the newest ledger entries[ of type {type}][ of the tenant {tenant}].",
    "ledger.verify": "Verify the ledger[ against the checkpoints in {anchor}].",
    "login": "Create a sign-in link.",
    "plugin.accept": "Review and accept the changed definition[ {name}] of the plugin {plugin}[ (tenant {tenant})].",
    "plugin.alias.remove": "Remove the alias {alias}.",
    "plugin.check": "Check the manifest[ in {path}].",
    "plugin.configure": "Set the configuration[ field {field}] of the plugin {plugin|NAME}[ in the tenant {tenant}].",
    "plugin.disable": "Disable the plugin {plugin}[ in the tenant {tenant}].",
    "plugin.enable": "Enable the plugin {plugin}[ in the tenant {tenant}][, granting {grants}].",
    "plugin.grant": "Grant capabilities to the plugin {plugin}[: {capabilities}][ (tenant {tenant})].",
    "plugin.import": "Import the MCP servers[ {only}] from {file|FILE}[, with the capability {capability}].",
    "plugin.install": "Install the plugin from {source|SOURCE}[ as {name}][, its program {program}]"
    "[, with the Python package {package}][, with the capability {capability}].",
    "plugin.knob": "Set the knob[ {knob}] of the plugin {plugin}[ in the tenant {tenant}].",
    "plugin.list": "List the installed plugins[ of the tenant {tenant}].",
    "plugin.logs": "Read the log of the plugin {plugin}[ in the tenant {tenant}].",
    "plugin.new": "Create the plugin in another folder.",
    "plugin.remove": "Remove the plugin {plugin}.",
    "plugin.remove_pinned": "Remove[ version {version} of] the plugin {plugin} even though it is pinned.",
    "plugin.repair": "Repair the plugin {plugin}.",
    "plugin.resources": "List the resources of the plugin {plugin}[ in the tenant {tenant}].",
    "plugin.rollback": "Roll the plugin {plugin} back[ to version {version}].",
    "plugin.show": "Look at the plugin {plugin|NAME}[ in the tenant {tenant}].",
    "plugin.sign": "Sign the package[ in {path}] again.",
    "plugin.sync": "Write the program's declarations into the manifest[ in {path}].",
    "plugin.tools": "List the tools of the plugin {plugin}[ in the tenant {tenant}].",
    "plugin.try": "Try which grants the plugin {plugin} needs.",
    "plugin.unpin": "Unpin the plugin {plugin}.",
    "plugin.upgrade": "Upgrade the plugin {plugin}[, adding the argument {argument}][, with {capabilities}].",
    "plugin.upgrade_untrusted": "Upgrade the plugin {plugin} to a package that is trusted less.",
    "policy.check": "Check the policy rules.",
    "policy.show": "Look at the policy rule[ {rule}].",
    "restore.replace": "Restore {file} and move aside what is in the home.",
    "restore.undo": "Put back what was in the home before an interrupted restore.",
    "secret.list": "List the secrets[ of the tenant {tenant}].",
    "secret.rotate": "Rotate the key of the secrets.",
    "secret.set": "Set the secret {name}[ of the user {user}][ in the tenant {tenant}].",
    "tenant.add": "Add the tenant {tenant|NAME}.",
    "tenant.list": "List the tenants.",
    "user.add": "Add the user {user|NAME}[ to the tenant {tenant}].",
    "user.enable": "Enable the user {user}[ of the tenant {tenant}].",
    "user.identity.add": "Link the user {user|NAME} to an identity of the identity provider.",
    "user.identity.remove": "Unlink the user {user|NAME} from the identity provider.",
    "user.list": "List the users[ of the tenant {tenant}].",
    "user.remove": "Remove the users[ of the tenant {tenant}].",
    "user.role.add": "Give the user {user|NAME} the role {role}[ in the tenant {tenant}].",
    "user.role.remove": "Take the role {role} from the user {user}[ in the tenant {tenant}].",
    "user.scope.add": "Give the user {user|NAME} the scopes {scopes}[ in the tenant {tenant}].",
    "user.session.list": "List the console sessions.",
    "user.show": "Look at the user {user}[ of the tenant {tenant}].",
    "webhook.dead_letter.list": "List the undelivered events of the webhook {webhook}[ of the tenant {tenant}].",
    "webhook.dead_letter.retry": "Retry the undelivered events of the webhook {webhook}[ of the tenant {tenant}].",
    "webhook.list": "List the webhooks[ of the tenant {tenant}].",
    "webhook.remove": "Remove the webhook {webhook|ID}[ of the tenant {tenant}].",
    "webhook.rotate": "Create a new secret for the webhook {webhook}[ of the tenant {tenant}].",
    "webhook.test": "Send a test event to the webhook {webhook}[ of the tenant {tenant}].",
}
"""What each kind asks a person to do; see `fill_template`. The names in braces are the arguments of the kind."""


class ActionJson(TypedDict):
    """What a person can do about the error. The command line shows it as a command, the console as a link."""

    kind: ActionKind
    arguments: Annotated[dict[str, str | list[str]], "By name, such as `plugin`; only those that are known."]


@dataclasses.dataclass(frozen=True, slots=True)
class Action:
    """One remedy. Build it with `Action.of`.

    Attributes:
        kind: What to do.
        arguments: With what; only those that are known. Never a secret: actions are shown and recorded.
    """

    kind: ActionKind
    arguments: Mapping[str, ActionValue] = dataclasses.field(default_factory=dict[str, ActionValue], hash=False)

    @classmethod
    def of(cls, kind: ActionKind, **arguments: ActionValue) -> Action:
        """Build an action without its empty arguments; the default tenant needs no mention either."""
        known = {
            name: value
            for name, value in arguments.items()
            if value and not (name == "tenant" and value == _DEFAULT_TENANT)
        }
        return cls(kind, known)

    @classmethod
    def from_json(cls, value: object) -> Action | None:
        """Read an action from JSON; None without one, or for a kind that only another version of Paddock knows."""
        if not isinstance(value, Mapping):
            return None
        fields = cast("Mapping[str, Any]", value)
        kind, given = fields.get("kind"), fields.get("arguments")
        if kind not in SENTENCES or not isinstance(given, Mapping):
            return None
        arguments: dict[str, ActionValue] = {
            str(name): tuple(map(str, cast("list[Any]", one))) if isinstance(one, list) else str(one)
            for name, one in cast("Mapping[str, Any]", given).items()
        }
        return cls(kind, arguments)

    def to_json(self) -> ActionJson:
        """The action as part of error bodies, with lists for tuples."""
        arguments: dict[str, str | list[str]] = {
            name: value if isinstance(value, str) else list(value) for name, value in self.arguments.items()
        }
        return {"kind": self.kind, "arguments": arguments}

    @property
    def sentence(self) -> str:
        """The action in plain words."""
        return fill_template(SENTENCES[self.kind], self.arguments)


def with_sentence(hint: str, action: Action | None) -> str:
    """A hint followed by the action in plain words, for readers without a renderer."""
    return " ".join(part for part in (_as_sentence(hint), action.sentence if action else "") if part)


def _as_sentence(text: str) -> str:
    return f"{text}." if text and text[-1] not in ".!?" else text


def action_kinds() -> tuple[ActionKind, ...]:
    """Every kind, in alphabetical order."""
    return get_args(ActionKind)


_PART: Final = re.compile(r"\[(?P<optional>[^\]]*)\]|(?P<required>[^\[]+)")
_ARGUMENT: Final = re.compile(r"\{(?P<name>[a-z_]+)(?:\|(?P<placeholder>[A-Z]+))?\}")


def fill_template(
    template: str,
    arguments: Mapping[str, ActionValue],
    quote: Callable[[str], str] = str,
    *,
    repeat: bool = False,
) -> str:
    """Fill arguments into a template.

    `{name}` is an argument and `{name|NAME}` one that may be missing, for which NAME then stands. A part in square
    brackets is left out if an argument in it is missing.

    Args:
        template: Such as `plugin show {plugin}[ --tenant {tenant}]`.
        arguments: The values by name.
        quote: Applied to each value.
        repeat: Whether an optional part is repeated for each of several values; else they are joined by commas.
    """
    filled: list[str] = []
    for optional, part in _parts(template):
        names = template_arguments(part)
        if optional and any(name not in arguments for name in names):
            continue
        values = arguments.get(next(iter(names), ""), "")
        if repeat and optional and not isinstance(values, str):
            filled += [_fill(part, {**arguments, next(iter(names)): value}, quote) for value in values]
        else:
            filled.append(_fill(part, arguments, quote))
    return "".join(filled)


def template_arguments(template: str) -> Mapping[str, bool]:
    """The arguments of a template by name, and whether one has to be given."""
    return {
        match["name"]: not optional and match["placeholder"] is None
        for optional, part in _parts(template)
        for match in _ARGUMENT.finditer(part)
    }


@cache
def _parts(template: str) -> tuple[tuple[bool, str], ...]:
    """Split a template into parts, each with whether it is optional."""
    return tuple(
        (match["optional"] is not None, match["optional"] if match["optional"] is not None else match["required"])
        for match in _PART.finditer(template)
    )


def _fill(part: str, arguments: Mapping[str, ActionValue], quote: Callable[[str], str]) -> str:
    def value_of(match: re.Match[str]) -> str:
        value = arguments.get(match["name"])
        if value is None:
            return match["placeholder"] or match["name"].upper()
        return quote(value) if isinstance(value, str) else ", ".join(map(quote, value))

    return _ARGUMENT.sub(value_of, part)
