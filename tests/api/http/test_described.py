"""Every answer is one that the published description has: schemathesis with all its checks against a real daemon.

What it makes up it sends to plugins, calls and requests that are there, so that handlers are reached and not only
refused. The names of members are closed here, so that an answer has none that is not described.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import requests
import schemathesis
from requests.adapters import HTTPAdapter
from schemathesis.core.parameters import ParameterLocation
from schemathesis.engine import from_schema
from schemathesis.engine.events import NonFatalError, ScenarioFinished
from schemathesis.hooks import unregister

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.mail import mail
from fixtures.parrot import parrot

EXAMPLES = Path(__file__).parents[3] / "examples"
# Switched on and off, and moved between versions, while the others are called.
SWITCHES = ("enable", "disable", "activate", "deactivate", "pin", "rollback")


def closed(schema: Any) -> Any:
    """The same with no members but those that are described, where some are."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(part) for name, part in schema.items()}
    return inner | ({"additionalProperties": False} if "properties" in inner and "required" in inner else {})


CHECKS = {
    # A plugin that fails is 502, one that is slow 504; 500 and 503 would be ours.
    "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", "502", "504"]},
    # What a plugin takes is its own to say: 400 where a body is described as any object.
    "positive_data_acceptance": {"expected-statuses": ["2xx", "400", "401", "403", "404", "409", "413", "429", "502"]},
    # Many long texts together are refused for their size before anybody looks at them.
    "negative_data_rejection": {
        "expected-statuses": ["400", "401", "403", "404", "405", "409", "413", "415", "429", "502"]
    },
}
# Headers that mean nothing here are no mistake: every proxy adds some.
UNKNOWN_HEADER = "in header - object with unexpected properties"
IDENTITY = ["tenants", "people", "groups", "api-keys", "consents"]
OTHERS = ["ledger", "policy", "daemon", "artifacts", "events", "webhooks", "secrets", "sign-in", "openapi.json"]
GROUPS = [["plugins"], ["calls", "approvals", "inbox"], IDENTITY, OTHERS]
of_each_group = pytest.mark.parametrize("tags", GROUPS, ids=["plugins", "calls", "identity", "others"])


def _only_the_beginning(send: Callable[..., requests.Response]) -> Callable[..., requests.Response]:
    """Of what goes on and on only the beginning is read."""

    def sent(adapter: HTTPAdapter, request: Any, stream: bool = False, **named: Any) -> requests.Response:
        del stream
        answer = send(adapter, request, stream=True, **named)
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer._content = next(answer.iter_content(64), b"")
            answer.close()
        return answer

    return sent


@dataclass(frozen=True, slots=True)
class There:
    """A daemon with things to ask about, and a key of somebody who operates it."""

    daemon: Daemon
    url: str
    key: str
    names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Generator[There, None, None]:
    folder = tmp_path_factory.mktemp("described")
    paddock = Paddock(folder / "home")
    sources = {
        "parrot": parrot(folder / "parrot"),
        "switched": parrot(folder / "switched", "switched"),
        "mail": mail(folder / "mail"),
        "shu_notes": EXAMPLES / "shu-notes",
        "fourth-generation-formula": EXAMPLES / "fourth-generation-formula",
        "memory-markdown": EXAMPLES / "memory-markdown",
    }
    for name, source in sources.items():
        paddock("plugin", "install", source, "--yes")
        paddock("plugin", "enable", name)
    paddock("plugin", "upgrade", "switched", parrot(folder / "newer", "switched", "1.1.0"), "--yes")
    paddock.quickly("user", "add", "olga", "--role", "operator", "--role", "member")
    made = paddock.quickly("apikey", "add", "olga", "--role", "operator", "--role", "member", "--json").json
    spare = paddock.quickly("apikey", "add", "olga", "--json").json["id"]
    key = made["token"]
    with daemon(paddock) as started, pytest.MonkeyPatch.context() as patched:
        patched.setattr(HTTPAdapter, "send", _only_the_beginning(HTTPAdapter.send))
        found = There(started, "http://{}:{}".format(*started.tcp), key, _names(started))

        @schemathesis.hook
        def before_call(context: Any, case: Any, kwargs: Any) -> None:
            del context, kwargs
            about_what_is_there(case, found.names)
            if case.path_parameters.get("id") == made["id"]:
                case.path_parameters["id"] = spare  # it found its own key in an answer, and needs it for the rest

        yield found
        unregister(before_call)


def _names(started: Daemon) -> dict[str, list[str]]:
    said = started.ask("POST", "/plugins/parrot/call/say", {"text": "hello"}).body
    waits = [started.ask("POST", "/plugins/mail/call/send", {"to": "bob"}).body for _ in range(8)]
    approvals = [one["approval"]["approval"] for one in waits]
    given = started.ask("POST", f"/approvals/{approvals[0]}/approve", {"scope": "always"}).body
    entry = started.ask("GET", "/ledger?limit=1").body["entries"][0]["id"]
    return {
        "name": ["parrot", "mail", "shu_notes", "fourth-generation-formula", "memory-markdown"],
        "method": ["say", "count", "note", "look", "send", "shu_notes", "book_writing_question"],
        "action": ["add_note", "send", "say"],
        "prompt": ["weekly_reflection", "transfer_conversation_starter"],
        "calls": [said["call_id"], *(one["call_id"] for one in waits)],
        "approvals": approvals,
        "standing": [given["standing"]] if given.get("standing") else approvals,
        "ledger": [entry, said["call_id"]],
        "question": ["1"],
    }


def about_what_is_there(case: Any, names: dict[str, list[str]]) -> None:
    """Three of four times, what the address names is something that there is."""
    path = case.meta.components.get(ParameterLocation.PATH)
    if path is None or not path.mode.is_positive:
        return
    for name, made_up in case.path_parameters.items():
        chosen = crc32(str(made_up).encode())
        known = _known(case.operation.path, name, names)
        if known and chosen % 4:
            case.path_parameters[name] = known[chosen // 4 % len(known)]


def _known(path: str, name: str, names: dict[str, list[str]]) -> list[str]:
    if name == "name" and path.rpartition("/")[2] in SWITCHES:
        return ["switched"]
    if name == "id":
        return next((names[part] for part in ("standing", "calls", "approvals", "ledger") if f"/{part}/" in path), [])
    return names.get(name, [])


def wrong(there: There, tags: Sequence[str], examples: int, *, borders: bool) -> list[str]:
    """Everything that is not as described, of requests to each operation under these tags.

    There are as many made up ones as `examples` says, beside the examples of the description, and with `borders` about
    fifty at the borders of each operation's schemas.
    """
    checks = schemathesis.Config.from_dict({"checks": CHECKS})
    schema = schemathesis.openapi.from_url(f"{there.url}/api/v1/openapi.json", headers=there.headers, config=checks)
    schema.raw_schema["components"]["schemas"] = closed(schema.raw_schema["components"]["schemas"])
    schema.config.update(headers=there.headers, request_timeout=PATIENCE)
    schema.config.generation.update(max_examples=examples, no_shrink=True)
    schema.config.phases.update(phases=["examples", *(["coverage"] if borders else []), "fuzzing"])

    found: list[str] = []
    for event in from_schema(schema.include(tag=list(tags))).execute():
        if isinstance(event, ScenarioFinished):
            found += _failures(event.recorder)
        elif isinstance(event, NonFatalError):
            found.append(f"{event.label}: {event.value!r}")
    return found


def _failures(recorder: Any) -> Iterator[str]:
    for case_id, checks in recorder.checks.items():
        for check in checks:
            if check.failure_info is not None and UNKNOWN_HEADER not in str(check.failure_info.failure):
                case, answer = recorder.cases[case_id].value, recorder.interactions[case_id].response
                said = "nothing" if answer is None else f"{answer.status_code} {answer.text[:300]}"
                asked = f"{case.method} {case.formatted_path} {case.query} {str(case.body)[:300]}"
                yield f"{check.name}: {check.failure_info.failure}\n  {asked}\n  {said}"


def test_every_answer_is_described(there: There) -> None:
    found = wrong(there, [tag for group in GROUPS for tag in group], 4, borders=False)

    assert not found, "\n".join(found)


def test_every_operation_is_among_these(there: There) -> None:
    described = there.daemon.ask("GET", "/openapi.json").body

    assert {one["name"] for one in described["tags"]} == {tag for group in GROUPS for tag in group}


@pytest.mark.slow
@of_each_group
def test_every_answer_of_hundreds_to_each_operation_is_described(there: There, tags: list[str]) -> None:
    found = wrong(there, tags, 500, borders=True)

    assert not found, "\n".join(found)
