"""What happened before the visitor came: everything of it done through the door, nothing written behind its back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from paddock.cli.client.daemon_client import DaemonClient, path_segment
from paddock.core.errors import PaddockError
from paddock.demo.api_client import ApiKeyClient, DemoCallResponse
from paddock.demo.home import change_example_server

_MAX_PARALLEL: Final = 6


@dataclass(frozen=True, slots=True)
class DemoCall:
    """A call of the history, and what became of it: a status, or the code of an error."""

    name: str
    outcome: str

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "outcome": self.outcome}


DemoStep = tuple[str, Mapping[str, Any]]

USER_CALLS: Final[Sequence[Sequence[DemoStep]]] = (
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

APPROVED_CALL: Final = (
    "outbox.send",
    {"to": "Mr. Lindqvist, saddler", "subject": "Two halters", "text": "Two leather halters, please. Robin"},
)
STANDING_APPROVAL_CALL: Final = ("fourth-generation-formula.book_writing_question", {"workflow_id": "demo"})
CHANGED_TOOL_CALL: Final = ("mcp-units.convert", {"value": 26.2, "from": "mi", "to": "km"})
DEMO_KNOBS: Final = {"native-notes": {"page_size": 10}, "typescript-dice": {"most_dice": 20}}


def make_history(robin: ApiKeyClient, operator: DaemonClient) -> list[DemoCall]:
    """Do all of it, and tell what became of the calls. What a plugin that does not run leaves out is left out."""
    with ThreadPoolExecutor(_MAX_PARALLEL) as side_by_side:
        rows = [side_by_side.submit(_call_in_sequence, robin, row) for row in USER_CALLS]
        rows.append(side_by_side.submit(_make_approved_call, robin, operator))
        rows.append(side_by_side.submit(_make_standing_approval, operator))
        rows.append(side_by_side.submit(_make_changed_tool, robin, operator))
        turned = [side_by_side.submit(_set_knobs, operator, plugin, knobs) for plugin, knobs in DEMO_KNOBS.items()]
        made = [one for row in rows for one in row.result()]
        for one in turned:
            one.result()
    return made


def _call_in_sequence(client: ApiKeyClient, steps: Sequence[DemoStep]) -> list[DemoCall]:
    return [DemoCall(name, describe_outcome(client.call(name, params))) for name, params in steps]


def describe_outcome(answer: DemoCallResponse) -> str:
    """What became of a call, in a word. Pure."""
    return str(answer.body.get("status") if answer.status < 400 else answer.body.get("code"))


def _make_approved_call(robin: ApiKeyClient, operator: DaemonClient) -> list[DemoCall]:
    """A letter of Robin's that the operator said yes to."""
    name, params = APPROVED_CALL
    asked = robin.call(name, params)
    if not asked.needs_approval:
        return [DemoCall(name, describe_outcome(asked))]
    operator.post(
        f"/approvals/{path_segment(asked.body['approval']['approval'])}/approve", {"comment": "We need them."}
    )
    ended = robin.wait_for_end(asked.call_id, 60)
    return [DemoCall(name, str(ended["status"]) if ended else "unknown")]


def _make_standing_approval(operator: DaemonClient) -> list[DemoCall]:
    """A call that its caller confirms once, for all times: a standing approval."""
    name, params = STANDING_APPROVAL_CALL
    try:
        held = operator.post("/calls", {"name": name, "params": params})
        if held["status"] == "pending_approval":
            operator.post(f"/approvals/{path_segment(held['approval']['approval'])}/approve", {"scope": "always"})
            held = operator.post("/calls", {"name": name, "params": params})
    except PaddockError as error:
        return [DemoCall(name, error.error_code)]
    return [DemoCall(name, str(held["status"]))]


def _make_changed_tool(robin: ApiKeyClient, operator: DaemonClient) -> list[DemoCall]:
    """A call, and the same after the server was told to offer more: its tool waits for somebody to look at it."""
    name, params = CHANGED_TOOL_CALL
    made = _call_in_sequence(robin, [CHANGED_TOOL_CALL])
    plugin = name.partition(".")[0]
    change_example_server(plugin)
    try:
        operator.post(f"/plugins/{path_segment(plugin)}/enable?anew=1")
    except PaddockError:
        return made  # it does not run here
    return [*made, DemoCall(name, describe_outcome(robin.call(name, params)))]


def _set_knobs(operator: DaemonClient, plugin: str, knobs: Mapping[str, Any]) -> None:
    try:
        operator.put(f"/plugins/{path_segment(plugin)}/knobs", {"knobs": knobs})
    except PaddockError:
        return  # it does not run here: there is no node, for instance
