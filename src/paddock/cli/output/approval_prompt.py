"""A call that waits for a person: asked here where somebody is, waited for where that was wanted, left otherwise."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from paddock.cli.output.report import is_interactive, print_message, styled
from paddock.core.errors import Conflict, Denied, NeedsApproval
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable
from paddock.plugins.manage.repair_text import tenant_option

MAX_PREVIEW_CHARS = 4_000  # characters of parameters; the rest is in `paddock approvals show --json`

# Gives an answer: whether it is a yes, and the body that goes with it. Raises Denied where it is not theirs to give,
# and Conflict where somebody else was first.
SendVerdict: TypeAlias = Callable[[bool, Mapping[str, Any]], Awaitable[object]]


class ApprovalPrompt:
    """What to do about a call that waits for a person.

    Args:
        wait: Whether to wait for somebody where nobody here can answer.
        served: Whether a daemon has the call. Without one there is nobody who could go on with it while we wait.
        tenant: Whose call it is.
        own: Whether whoever sits here made it.
    """

    def __init__(self, *, wait: bool, served: bool, tenant: str = DEFAULT_TENANT, own: bool = True) -> None:
        self.tenant = tenant
        self._own_call = own
        self._wait = wait
        self._has_daemon = served
        self._terminal = is_interactive()

    async def answer(self, held: Mapping[str, Any], send: SendVerdict) -> None:
        """Ask here, or return to wait for somebody. Whatever else runs in this loop goes on meanwhile.

        Raises:
            NeedsApproval: it was left for somebody; the call goes on once they said yes.
        """
        if self._terminal:
            print_preview(held["preview"], held["kind"])
            choice = await _ask_verdict(
                rememberable=held.get("remember", "never") != "never",
                theirs=self._own_call and bool(held.get("four_eyes")),  # their own yes would be refused
            )
            if choice != "later":
                try:
                    await send(choice != "no", {"scope": "always"} if choice == "always" else {})
                except Denied as denied:
                    print_message(f"{styled('not yours to answer:', 'yellow')} {printable(denied.message, 400)}")
                except Conflict as error:
                    print_message(f"{styled('too late:', 'yellow')} {printable(error.message, 400)}")
                    return
                else:
                    return
        if self._wait and self._has_daemon:
            whom = "another person" if held.get("four_eyes") else "a person"
            print_message(
                f"waiting for {whom}: paddock approvals approve {held['approval']}{tenant_option(self.tenant)}"
            )
            return
        if self._wait:
            print_message(
                f"{styled('--wait needs a daemon', 'yellow')} to wait for a person, and none runs: paddock serve"
            )
        raise approval_pending_error(held, self.tenant, served=self._has_daemon)


def approval_pending_error(held: Mapping[str, Any], tenant: str, *, served: bool) -> NeedsApproval:
    """What is told of a call that is left for somebody."""
    own = tenant_option(tenant)
    then = f"then: paddock calls follow {held['call_id']}{own}" if served else "makes the call and prints its result"
    return NeedsApproval(
        f"the call waits for a person: {held['preview']['reason']}",
        hint=f"{approve_hint(held, tenant)}   # {then}",
        details={name: value for name, value in held.items() if name != "type"},
    )


def approve_hint(held: Mapping[str, Any], tenant: str) -> str:
    """The line that approves a call, and who has to type it."""
    command = f"paddock approvals approve {held['approval']}{tenant_option(tenant)}"
    if held.get("four_eyes"):
        return f"another person has to say yes, and you can take it back (deny): {command}"
    return f"approve it: {command}"


def print_preview(preview: Mapping[str, Any], kind: str, *, over: bool = False, erased: bool = False) -> None:
    """What would be done, on stderr. Nothing of it is obeyed: it is shown as it was written.

    Args:
        preview: As `preview` of the gate gives it.
        kind: Why a person is asked.
        over: Whether it waits no more.
        erased: Whether who asked, and for what, was erased.
    """
    name = f"{preview['plugin']} {preview['callable']}"
    print_message(styled(f"{printable(name, 200)} {'waited' if over else 'waits'} for a person ({kind})", "bold"))
    for does in preview["does"]:
        print_message(f"  • it {does}")
    if preview["says"]:
        print_message(f"  {styled('it says of itself', 'dim')}  {printable(preview['says'], 300)}")
    print_message(
        f"  {styled('asked for by', 'dim')}       {'(erased)' if erased else printable(preview['requester'], 200)}"
    )
    print_message(f"  {styled('because', 'dim')}            {printable(preview['reason'], 400)}")
    if erased:
        print_message("    (the parameters were erased)")
        return
    written = json.dumps(preview["params"], indent=2, ensure_ascii=False)
    for line in written[:MAX_PREVIEW_CHARS].splitlines():
        print_message(f"    {printable(line, 400)}")
    if len(written) > MAX_PREVIEW_CHARS:
        print_message(f"    … {len(written) - MAX_PREVIEW_CHARS:,} more characters: paddock approvals show --json")


async def _ask_verdict(*, rememberable: bool, theirs: bool) -> str:
    from paddock.cli.output.question_prompt import read_terminal_line

    if theirs:
        said = await read_terminal_line("Another person has to say yes. Take it back? [y]es · anything else: later > ")
        return "no" if (said or "").strip().lower() in ("y", "yes") else "later"
    always = " · [a]lways, for this tool" if rememberable else ""
    said = await read_terminal_line(f"Allow it? [y]es, this once{always} · [n]o · anything else: later > ")
    known = {"y": "yes", "yes": "yes", "n": "no", "no": "no"} | (
        {"a": "always", "always": "always"} if rememberable else {}
    )
    return known.get((said or "").strip().lower(), "later")
