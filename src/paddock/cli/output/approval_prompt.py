"""The prompt for a call that needs approval: ask at the terminal, wait for another person, or leave it pending."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.outcome_text import scope_text
from paddock.cli.output.question_prompt import RunPrompt, read_terminal_line
from paddock.cli.output.report import is_interactive, print_message, styled
from paddock.core.errors import Conflict, Denied, NeedsApproval
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable

MAX_PREVIEW_CHARS = 4_000  # of the parameters; the rest is in `paddock approval show --json`

_ALWAYS_WORDS = ("a", "always")
_ALWAYS_OR_ONCE = "[y]es, always for this tool until it is upgraded · [o]nce, this call alone"
_LASTING_SCOPES: Mapping[str, str] = {
    "y": "always",
    "yes": "always",
    "a": "always",
    "always": "always",
    "o": "once",
    "once": "once",
}
_SINGLE_SCOPES: Mapping[str, str] = {"y": "once", "yes": "once", "o": "once", "once": "once"}

# Sends a verdict, which is whether it approves and the request body, and returns the request as it is then. Raises
# Denied where the person may not give it, and Conflict where another answer came first.
SendVerdict: TypeAlias = Callable[[bool, Mapping[str, Any]], Mapping[str, Any]]


class ApprovalPrompt:
    """Handles a call that waits for approval.

    Args:
        wait: Whether to wait for another person if nobody here can answer.
        has_daemon: Whether a daemon runs the call. Without one, nothing could continue the call while we wait.
        tenant: The call's tenant.
        own_call: Whether the person at this terminal made the call.
    """

    def __init__(self, *, wait: bool, has_daemon: bool, tenant: str = DEFAULT_TENANT, own_call: bool = True) -> None:
        self.tenant = tenant
        self._own_call = own_call
        self._wait = wait
        self._has_daemon = has_daemon
        self._terminal = is_interactive()

    def answer(self, request: Mapping[str, Any], send: SendVerdict, run: RunPrompt) -> None:
        """Ask at the terminal, or return in order to wait for another person.

        Args:
            request: The approval request.
            send: Sends the verdict.
            run: Runs the prompt, while calls go on.

        Raises:
            NeedsApproval: it was left pending; the call continues once it is approved.
        """
        if self._terminal:
            print_preview(request["preview"], request["kind"])
            prompt = _ask_verdict(
                request,
                needs_other_person=self._own_call
                and bool(request.get("four_eyes")),  # their own approval would be rejected
            )
            choice = run(prompt)
            if choice != "later":
                try:
                    answered = send(choice != "no", {} if choice == "no" else {"scope": choice})
                except Denied as denied:
                    print_message(f"{styled('not yours to answer:', 'yellow')} {printable(denied.message, 400)}")
                except Conflict as error:
                    print_message(f"{styled('too late:', 'yellow')} {printable(error.message, 400)}")
                    return
                else:
                    print_chosen_scope(answered, self.tenant)
                    return
        if self._wait and self._has_daemon:
            approver = "another person" if request.get("four_eyes") else "a person"
            print_message(
                f"waiting for {approver}: paddock approval approve {request['approval']}{tenant_option(self.tenant)}"
            )
            return
        if self._wait:
            print_message(
                f"{styled('--wait needs a daemon', 'yellow')} to wait for a person, and none runs: paddock serve"
            )
        raise approval_pending_error(request, self.tenant, has_daemon=self._has_daemon)


def approval_pending_error(request: Mapping[str, Any], tenant: str, *, has_daemon: bool) -> NeedsApproval:
    """Build the error for a call that is left waiting for approval."""
    from paddock.manifest.effects import waiting_text

    preview = request["preview"]
    if has_daemon:
        follow = f"paddock call follow {request['call_id']}{tenant_option(tenant)}"
        next_step = f"   # {'once it is approved' if request.get('four_eyes') else 'then'}: {follow}"
    else:
        next_step = "" if request.get("four_eyes") else "   # makes the call and prints its result"
    return NeedsApproval(
        f"the call waits for a person: {waiting_text(preview['does'], preview['reason'])}",
        hint=approve_hint(request, tenant) + next_step,
        details={name: value for name, value in request.items() if name != "type"},
    )


def approve_hint(request: Mapping[str, Any], tenant: str) -> str:
    """Return the command that approves a call, or withdraws one that another person has to approve; else who can."""
    approval = f"{request['approval']}{tenant_option(tenant)}"
    answerers = request.get("answerable_by") or ()
    if request["kind"] in ("confirmation", "consent") and len(answerers) == 1 and answerers[0].startswith("user:"):
        # The operator at this terminal may not be one who can answer.
        person = printable(answerers[0].removeprefix("user:"), 100)
        login = f"paddock login --user {person}{tenant_option(tenant)}"
        return f"only {person} can answer it, signed in at the console; a link for that: {login}"
    if request.get("four_eyes"):
        return f"another person has to approve it; to withdraw it: paddock approval deny {approval}"
    return f"approve it: paddock approval approve {approval}"


def print_chosen_scope(approval: Mapping[str, Any], tenant: str) -> None:
    """Print how long a confirmation lasts, how to end it, and which other requests it answered."""
    if approval["standing"]:
        remove = f"paddock approval standing remove {approval['standing']}{tenant_option(tenant)}"
        print_message(f"  it holds for {scope_text(approval['answers'][-1])}; to end that: {remove}")
    elif approval["remember"] != "never" and approval["state"] in ("approved", "consumed"):
        print_message("  it holds for this call alone; the next one asks again")
    for covered in approval["also_approved"]:
        print_message(f"  it waited for the same, and is approved too: {covered['id']}")


def ask_scope() -> str | None:
    """Ask a person who approves a confirmation how long that lasts; None if they do not approve it after all."""
    sys.stderr.write(f"Approve it? {_ALWAYS_OR_ONCE} · anything else: no > ")
    sys.stderr.flush()
    return _LASTING_SCOPES.get(sys.stdin.readline().strip().lower())


def print_preview(
    preview: Mapping[str, Any], kind: str, *, requester: str = "", closed: bool = False, erased: bool = False
) -> None:
    """Print what the call would do on stderr. Its text is shown verbatim and never interpreted.

    Args:
        preview: The gate's preview of the call.
        kind: Why an approval is needed.
        requester: The name of who asked; else the principal is shown.
        closed: Whether the request is closed.
        erased: Whether the requester and the parameters were erased.
    """
    name = f"{preview['plugin']} {preview['callable']}"
    print_message(styled(f"{printable(name, 200)} {'waited' if closed else 'waits'} for a person ({kind})", "bold"))
    for action in preview["does"]:
        print_message(f"  • it {action}")
    if preview["says"]:
        print_message(f"  {styled('it says of itself', 'dim')}  {printable(preview['says'], 300)}")
    asked_by = "(erased)" if erased else printable(requester or preview["requester"], 200)
    print_message(f"  {styled('asked for by', 'dim')}       {asked_by}")
    print_message(f"  {styled('because', 'dim')}            {printable(preview['reason'], 400)}")
    if erased:
        print_message("    (the parameters were erased)")
        return
    params = json.dumps(preview["params"], indent=2, ensure_ascii=False)
    for line in params[:MAX_PREVIEW_CHARS].splitlines():
        print_message(f"    {printable(line, 400)}")
    if len(params) > MAX_PREVIEW_CHARS:
        print_message(f"    … {len(params) - MAX_PREVIEW_CHARS:,} more characters: paddock approval show --json")


async def _ask_verdict(request: Mapping[str, Any], *, needs_other_person: bool) -> str:
    """Ask for `once`, `always`, `no` or `later`."""
    if needs_other_person:
        line = await read_terminal_line(
            "Another person has to approve it. Withdraw it? [y]es · anything else: later > "
        )
        return "no" if (line or "").strip().lower() in ("y", "yes") else "later"
    rememberable = request.get("remember", "never") != "never"
    yes = _ALWAYS_OR_ONCE if rememberable else "[y]es, this once"
    scopes = _LASTING_SCOPES if rememberable else _SINGLE_SCOPES
    while True:
        line = await read_terminal_line(f"Allow it? {yes} · [n]o · anything else: later > ")
        typed = (line or "").strip().lower()
        if typed in _ALWAYS_WORDS and not rememberable:
            print_message(f"  a request of kind {request['kind']} is approved for exactly this call, never for others")
            continue
        return "no" if typed in ("n", "no") else scopes.get(typed, "later")
