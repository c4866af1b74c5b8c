"""What happened before the visitor came: everything of it done through the door, nothing written behind its back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from paddock.cli.daemon import DaemonClient, part
from paddock.cli.demo_client import Answer, KeyClient
from paddock.cli.demo_home import offer_more
from paddock.core.errors import PaddockError

_AT_ONCE: Final = 6


@dataclass(frozen=True, slots=True)
class Made:
    """A call of the history, and what became of it: a status, or the code of an error."""

    name: str
    outcome: str

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "outcome": self.outcome}


Step = tuple[str, Mapping[str, Any]]

ROBINS_DAY: Final[Sequence[Sequence[Step]]] = (
    (
        ("native-notes.add_note", {"text": "Mend the fence by the brook", "tags": ["fence"]}),
        ("native-notes.add_note", {"text": "Hay: enough until March", "tags": ["feed"]}),
        ("native-notes.search_notes", {"text": "hay"}),
    ),
    (("typescript-dice.roll", {"dice": "2d6"}),),
    (("slow-count.count", {"to": 3, "pause_ms": 100}),),
    (("shell-status.status.get", {}),),
    (("outbox.letters", {}), ("outbox.empty", {})),  # the second is denied, by the demo's own rule
    (
        ("broken-clock.time", {"city": "Tokyo"}),
        ("broken-clock.time", {"city": "Atlantis"}),  # its answer is an error
        ("broken-clock.wind", {"turns": 12}),  # it falls, and falls again whenever it is started
    ),
)
"""What Robin did, plugin by plugin. Calls in a row follow each other; the rows go side by side."""

AN_EARLIER_LETTER: Final = (
    "outbox.send",
    {"to": "Mr. Lindqvist, saddler", "subject": "Two halters", "text": "Two leather halters, please. Robin"},
)
CONFIRMED_ONCE: Final = ("fourth-generation-formula.book_writing_question", {"workflow_id": "demo"})
BEFORE_IT_CHANGED: Final = ("mcp-units.convert", {"value": 26.2, "from": "mi", "to": "km"})
KNOBS: Final = {"native-notes": {"page_size": 10}, "typescript-dice": {"most_dice": 20}}


def make_history(robin: KeyClient, operator: DaemonClient) -> list[Made]:
    """Do all of it, and tell what became of the calls. What a plugin that does not run leaves out is left out."""
    with ThreadPoolExecutor(_AT_ONCE) as side_by_side:
        rows = [side_by_side.submit(_in_a_row, robin, row) for row in ROBINS_DAY]
        rows.append(side_by_side.submit(_approved, robin, operator))
        rows.append(side_by_side.submit(_confirmed_for_good, operator))
        rows.append(side_by_side.submit(_with_a_server_that_changed, robin, operator))
        turned = [side_by_side.submit(_turn, operator, plugin, knobs) for plugin, knobs in KNOBS.items()]
        made = [one for row in rows for one in row.result()]
        for one in turned:
            one.result()
    return made


def _in_a_row(client: KeyClient, steps: Sequence[Step]) -> list[Made]:
    return [Made(name, outcome_of(client.call(name, params))) for name, params in steps]


def outcome_of(answer: Answer) -> str:
    """What became of a call, in a word. Pure."""
    return str(answer.body.get("status") if answer.status < 400 else answer.body.get("code"))


def _approved(robin: KeyClient, operator: DaemonClient) -> list[Made]:
    """A letter of Robin's that the operator said yes to."""
    name, params = AN_EARLIER_LETTER
    asked = robin.call(name, params)
    if not asked.waits:
        return [Made(name, outcome_of(asked))]
    operator.post(f"/approvals/{part(asked.body['approval']['approval'])}/approve", {"comment": "We need them."})
    ended = robin.end_of(asked.call_id, 60)
    return [Made(name, str(ended["status"]) if ended else "unknown")]


def _confirmed_for_good(operator: DaemonClient) -> list[Made]:
    """A call that its caller confirms once, for all times: a standing approval."""
    name, params = CONFIRMED_ONCE
    try:
        held = operator.post("/calls", {"name": name, "params": params})
        if held["status"] == "pending_approval":
            operator.post(f"/approvals/{part(held['approval']['approval'])}/approve", {"scope": "always"})
            held = operator.post("/calls", {"name": name, "params": params})
    except PaddockError as error:
        return [Made(name, error.error_code)]
    return [Made(name, str(held["status"]))]


def _with_a_server_that_changed(robin: KeyClient, operator: DaemonClient) -> list[Made]:
    """A call, and the same after the server was told to offer more: its tool waits for somebody to look at it."""
    name, params = BEFORE_IT_CHANGED
    made = _in_a_row(robin, [BEFORE_IT_CHANGED])
    plugin = name.partition(".")[0]
    offer_more(plugin)
    try:
        operator.post(f"/plugins/{part(plugin)}/enable?anew=1")
    except PaddockError:
        return made  # it does not run here
    return [*made, Made(name, outcome_of(robin.call(name, params)))]


def _turn(operator: DaemonClient, plugin: str, knobs: Mapping[str, Any]) -> None:
    try:
        operator.put(f"/plugins/{part(plugin)}/knobs", {"knobs": knobs})
    except PaddockError:
        return  # it does not run here: there is no node, for instance
