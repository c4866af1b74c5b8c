"""What a client is told about a call that waits for approval, and what its user is asked. Pure.

Chat clients have no pages and no terminal of ours, so these texts name commands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from paddock.core.errors import NeedsApproval
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable
from paddock.web.daemon_address import ConsoleAddress

SCOPE_FIELD: Final = "lasts"
_MAX_PARAMS_CHARS: Final = 1_500
_NO_CHOICE: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}
_SCOPE_CHOICE: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        SCOPE_FIELD: {
            "type": "string",
            "title": "How long does your approval last?",
            "description": "always: for this tool, until its plugin is upgraded. once: for this call alone.",
            "enum": ["always", "once"],
            "default": "always",
        }
    },
}


def question_text(pending: NeedsApproval) -> str:
    """Return the question for the person: what would be done, with which parameters, and how long an approval lasts."""
    preview: Mapping[str, Any] = pending.details["preview"]
    params = printable(json.dumps(preview["params"], ensure_ascii=False), _MAX_PARAMS_CHARS)
    choice = "Your approval lasts for this tool until its plugin is upgraded, unless you choose once."
    lasts = f" {choice}" if _lasts(pending) else ""
    return f"{pending.message.removesuffix('.')}. With: {params}. Do you want this?{lasts}"


def question_schema(pending: NeedsApproval) -> Mapping[str, Any]:
    """Return the form of the question: how long an approval lasts, if there is a choice."""
    return _SCOPE_CHOICE if _lasts(pending) else _NO_CHOICE


def _lasts(pending: NeedsApproval) -> bool:
    return pending.details["remember"] != "never"


def approval_link(console: ConsoleAddress, approval_id: str) -> str | None:
    """Return the URL of the page of an approval request, if the host has a console."""
    return None if console.url is None else f"{console.url}/approvals/{approval_id}"


def pending_text(pending: NeedsApproval, console: ConsoleAddress, tenant: str, *, identity_provider: bool) -> str:
    """Return what a client is told about a call that waits: who can answer, where, and how they sign in there.

    Args:
        pending: The call and its request.
        console: Where the console is.
        tenant: The call's tenant.
        identity_provider: Whether people sign in with an identity provider.
    """
    answerers: Sequence[str] = pending.details["answerable_by"]
    option = "" if tenant == DEFAULT_TENANT else f" --tenant {tenant}"
    others = " who did not ask for it" if pending.details["four_eyes"] else ""
    lines = [
        pending.message,
        "Nothing has happened yet. The call is made as soon as a person approves it; do not make it again.",
        f"Who can answer: {' or '.join(map(_answerer_text, answerers))}{others}. An API key cannot, nor an agent.",
        _place_text(console, pending.details["approval"], option),
    ]
    if not console.off:
        lines.append(f"To sign in there: {_sign_in_text(answerers, option, identity_provider=identity_provider)}.")
    call_id = pending.details["call_id"]
    lines.append(f"Call id: {call_id}. The same call again gives its result once there is one.")
    return "\n".join(lines)


def _answerer_text(name: str) -> str:
    kind, _, bare_name = name.partition(":")
    return {"role": f"a person with the role {bare_name}", "group": f"a member of {bare_name}"}.get(kind, name)


def _place_text(console: ConsoleAddress, approval_id: str, option: str) -> str:
    link = approval_link(console, approval_id) or f"/approvals/{approval_id} at the address that it prints"
    terminal = f"at a terminal of this host, beginning with `paddock approval show {approval_id}{option}`"
    if console.off:
        return f"Where: {terminal}. It has no console, because http.address is off."
    if console.running:
        return f"Where: {link}"
    return f"Where: no daemon runs. Start it with `paddock serve`, then open {link}. Or {terminal}."


def _sign_in_text(answerers: Sequence[str], option: str, *, identity_provider: bool) -> str:
    kind, _, name = answerers[0].partition(":") if len(answerers) == 1 else ("", "", "")
    if kind == "local":  # the operator, who has no account
        return f"with the link that `paddock login{option}` prints on the machine of this host"
    if identity_provider:
        return "with your account at the identity provider"
    person = name if kind == "user" else "NAME"
    return f"with a link from the operator of this host, who creates it with `paddock login --user {person}{option}`"
