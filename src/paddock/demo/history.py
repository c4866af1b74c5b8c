"""The demo's history: calls, approvals and changes, all made through the regular API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from msgspec import Struct

from paddock.cli.client.api_client import ApiClient, path_segment
from paddock.core.errors import PaddockError
from paddock.demo.api_client import ApiKeyClient, DemoCallResponse
from paddock.demo.home import change_example_server

_MAX_PARALLEL: Final = 6


class DemoCall(Struct, frozen=True):
    """A call of the history and its outcome: a status or an error code."""

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
    (("outbox.letters", {}), ("outbox.empty", {})),  # the second is denied by the demo's own rule
    (
        ("broken-clock.time", {"city": "Tokyo"}),
        ("broken-clock.time", {"city": "Atlantis"}),  # returns an error
        ("broken-clock.wind", {"turns": 12}),  # crashes, and crashes again after every restart
    ),
)
"""Robin's calls, by plugin. Calls in a row run in sequence, the rows in parallel."""

APPROVED_CALL: Final = (
    "outbox.send",
    {"to": "Mr. Lindqvist, saddler", "subject": "Two halters", "text": "Two leather halters, please. Robin"},
)
STANDING_APPROVAL_CALL: Final = ("fourth-generation-formula.book_writing_question", {"workflow_id": "demo"})
CHANGED_TOOL_CALL: Final = ("mcp-units.convert", {"value": 26.2, "from": "mi", "to": "km"})
DEMO_KNOBS: Final = {"native-notes": {"page_size": 10}, "typescript-dice": {"most_dice": 20}}


def make_history(robin: ApiKeyClient, operator: ApiClient) -> list[DemoCall]:
    """Make the history and return its calls. Calls of plugins that do not run are left out."""
    with ThreadPoolExecutor(_MAX_PARALLEL) as executor:
        rows = [executor.submit(_call_in_sequence, robin, row) for row in USER_CALLS]
        rows.append(executor.submit(_make_approved_call, robin, operator))
        rows.append(executor.submit(_make_standing_approval, operator))
        rows.append(executor.submit(_make_changed_tool, robin, operator))
        knob_changes = [executor.submit(_set_knobs, operator, plugin, knobs) for plugin, knobs in DEMO_KNOBS.items()]
        calls = [item for row in rows for item in row.result()]
        for item in knob_changes:
            item.result()
    return calls


def _call_in_sequence(client: ApiKeyClient, steps: Sequence[DemoStep]) -> list[DemoCall]:
    return [DemoCall(name, describe_outcome(client.call(name, params))) for name, params in steps]


def describe_outcome(response: DemoCallResponse) -> str:
    """Return a call's outcome in a word. Pure."""
    return str(response.body.get("status") if response.status < 400 else response.body.get("code"))


def _make_approved_call(robin: ApiKeyClient, operator: ApiClient) -> list[DemoCall]:
    """Make a call of Robin's that the operator approves."""
    name, params = APPROVED_CALL
    response = robin.call(name, params)
    if not response.needs_approval:
        return [DemoCall(name, describe_outcome(response))]
    operator.post(
        f"/approvals/{path_segment(response.body['approval']['approval'])}/approve", {"comment": "We need them."}
    )
    ended = robin.wait_for_end(response.call_id, 60)
    return [DemoCall(name, str(ended["status"]) if ended else "unknown")]


def _make_standing_approval(operator: ApiClient) -> list[DemoCall]:
    """Make a call that its caller confirms for good: a standing approval."""
    name, params = STANDING_APPROVAL_CALL
    try:
        call = operator.post("/calls", {"name": name, "params": params})
        if call["status"] == "pending_approval":
            operator.post(f"/approvals/{path_segment(call['approval']['approval'])}/approve", {"scope": "always"})
            call = operator.post("/calls", {"name": name, "params": params})
    except PaddockError as error:
        return [DemoCall(name, error.error_code)]
    return [DemoCall(name, str(call["status"]))]


def _make_changed_tool(robin: ApiKeyClient, operator: ApiClient) -> list[DemoCall]:
    """Make a call before and after its server's definitions change: its tool is then quarantined."""
    name, params = CHANGED_TOOL_CALL
    calls = _call_in_sequence(robin, [CHANGED_TOOL_CALL])
    plugin = name.partition(".")[0]
    change_example_server(plugin)
    try:
        operator.post(f"/plugins/{path_segment(plugin)}/enable?anew=1")
    except PaddockError:
        return calls  # it does not run here
    return [*calls, DemoCall(name, describe_outcome(robin.call(name, params)))]


def _set_knobs(operator: ApiClient, plugin: str, knobs: Mapping[str, Any]) -> None:
    try:
        operator.put(f"/plugins/{path_segment(plugin)}/knobs", {"knobs": knobs})
    except PaddockError:
        return  # it does not run here, for instance without node
