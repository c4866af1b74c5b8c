"""A call that waits for a person: asked here where somebody is, waited for where that was wanted, left otherwise."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from paddock.cli.output import interactive, say, styled
from paddock.core.errors import Denied, NeedsApproval
from paddock.core.printable import printable

LONGEST = 4_000  # characters of parameters; the rest is in `paddock approvals show`

# Gives an answer: whether it is a yes, and the body that goes with it. Raises Denied where it is not theirs to give.
Send: TypeAlias = Callable[[bool, Mapping[str, Any]], object]


class Waiting:
    """What to do about a call that waits for a person.

    Args:
        wait: Whether to wait for somebody where nobody here can answer.
    """

    def __init__(self, *, wait: bool) -> None:
        self._wait = wait
        self._terminal = interactive()

    def answer(self, held: Mapping[str, Any], send: Send) -> None:
        """Ask here, or return to wait for somebody.

        Raises:
            NeedsApproval: it was left for somebody; the call goes on once they said yes.
        """
        if self._terminal:
            show_preview(held["preview"], held["kind"])
            choice = _asked()
            if choice != "later":
                try:
                    send(choice != "no", {"scope": "always"} if choice == "always" else {})
                except Denied as denied:
                    say(f"{styled('not yours to answer:', 'yellow')} {denied.message}")
                else:
                    return
        approval, call = held["approval"], held["call_id"]
        if self._wait:
            say(f"waiting for a person: paddock approvals approve {approval}")
            return
        raise NeedsApproval(
            f"the call waits for a person: {held['preview']['reason']}",
            hint=f"approve it: paddock approvals approve {approval}   # then: paddock calls show {call}",
            details=held,
        )


def show_preview(preview: Mapping[str, Any], kind: str) -> None:
    """What would be done, on stderr. Nothing of it is obeyed: it is shown as it was written."""
    name = f"{preview['plugin']} {preview['callable']}"
    say(styled(f"{printable(name, 200)} waits for a person ({kind})", "bold"))
    for does in preview["does"]:
        say(f"  • it {does}")
    if preview["says"]:
        say(f"  {styled('it says of itself', 'dim')}  {printable(preview['says'], 300)}")
    say(f"  {styled('asked for by', 'dim')}       {printable(preview['requester'], 200)}")
    say(f"  {styled('because', 'dim')}            {printable(preview['reason'], 400)}")
    for line in json.dumps(preview["params"], indent=2, ensure_ascii=False)[:LONGEST].splitlines():
        say(f"    {printable(line, 400)}")


def _asked() -> str:
    sys.stderr.write("Allow it? [y]es, this once · [a]lways, for this tool · [n]o · anything else: later  ")
    sys.stderr.flush()
    said = sys.stdin.readline().strip().lower()
    return {"y": "yes", "yes": "yes", "a": "always", "always": "always", "n": "no", "no": "no"}.get(said, "later")
