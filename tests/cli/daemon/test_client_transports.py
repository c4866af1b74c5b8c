"""One contract for both ways to the API: over a daemon's socket, and into a host in this process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon, eventually
from fixtures.mail import mail
from fixtures.maker import CONTENT, maker
from fixtures.parrot import parrot
from paddock.cli.client import in_process
from paddock.cli.client.api_client import ApiClient, open_client
from paddock.cli.client.event_loop import open_runner
from paddock.cli.client.follow import make_call
from paddock.cli.client.prompt_relay import PromptRelay
from paddock.cli.client.transport import ApiRequest
from paddock.cli.output.approval_prompt import ApprovalPrompt
from paddock.cli.output.question_prompt import QuestionPrompt
from paddock.cli.output.report import DEBUG_HINT, InterruptedCommand
from paddock.core.errors import CallerError, Denied, HostError, Invalid, NotFound, TimedOut
from paddock.core.secret import Secret
from paddock.web.routing.error_formats import full_problem


@pytest.fixture(scope="module", params=["daemon", "in process"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Paddock, None, None]:
    folder: Path = tmp_path_factory.mktemp("transports")
    paddock = Paddock(folder / "home")
    for package in (parrot(folder / "parrot"), mail(folder / "mail"), maker(folder / "maker")):
        paddock.quickly("plugin", "install", package, "--yes")
        paddock.quickly("plugin", "enable", package.name)
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "ann", "--role", "guest")
    if request.param == "in process":
        yield paddock
        return
    with daemon(paddock):
        yield paddock


@pytest.fixture
def client(home: Paddock, monkeypatch: pytest.MonkeyPatch) -> Generator[ApiClient, None, None]:
    for name, value in home.environment.items():
        monkeypatch.setenv(name, value)
    with open_client() as opened:
        yield opened


def made(client: ApiClient, name: str, **params: Any) -> dict[str, Any]:
    return client.post("/calls", {"name": name, "params": params}, timeout_s=None)


def ended(client: ApiClient, call_id: str) -> bool:
    return client.get(f"/calls/{call_id}")["ended_at"] is not None


def test_a_request_is_made_by_the_local_operator_of_the_default_tenant(client: ApiClient) -> None:
    me = client.get("/me")

    assert (me["kind"], me["tenant"], me["roles"], me["interactive"]) == ("local", "default", ["operator"], True)
    assert me["principal"].startswith("local:")


def test_a_call_gives_its_result_and_its_events_in_order(client: ApiClient) -> None:
    assert made(client, "parrot.say", text="grün")["result"]["said"] == "grün"

    with client.stream_call({"name": "parrot.count"}, None) as (call_id, events):
        told = list(events)

    assert [data["progress"] for kind, data in told if kind == "event"] == [1, 2, 3]
    kind, call = told[-1]
    assert (kind, call["call_id"], call["status"]) == ("end", call_id, "succeeded")


def test_an_error_is_raised_as_it_was_raised_in_the_host(client: ApiClient) -> None:
    with pytest.raises(NotFound) as unknown:
        made(client, "parrot.sing")
    assert unknown.value.error_code == "callable.not_found"
    with pytest.raises(Invalid) as invalid:
        made(client, "parrot.say", text=3)
    assert [problem.path for problem in invalid.value.problems] == ["text"]
    with pytest.raises(CallerError) as too_large:
        made(client, "parrot.say", text="x" * 8_000_000)
    assert too_large.value.error_code == "http.body_too_large"
    with pytest.raises(NotFound) as nothing:
        client.get("/nothing")
    assert nothing.value.error_code == "http.no_route"


def test_a_call_as_somebody_else_has_their_rights(client: ApiClient) -> None:
    send = {"name": "mail.send", "params": {"to": "bob"}}

    with pytest.raises(Denied):
        client.post("/calls", send, acting_as="user:ann")
    with pytest.raises(NotFound):
        client.post("/calls", send, acting_as="user:nobody")


def test_what_takes_too_long_times_out_and_is_cancelled(client: ApiClient) -> None:
    started = time.monotonic()
    with pytest.raises(TimedOut) as late, client.stream_call({"name": "parrot.wait"}, 1.5) as (call_id, events):
        for _ in events:
            pass

    assert late.value.error_code == "call.timeout" and time.monotonic() - started >= 1.5
    eventually(lambda: ended(client, call_id), "it was cancelled")
    assert client.get(f"/calls/{call_id}")["status"] == "cancelled"


def test_a_timeout_of_the_caller_is_not_one_of_the_request(client: ApiClient) -> None:
    with pytest.raises(TimeoutError, match="of the caller"), client.download("/me"):
        raise TimeoutError("of the caller")


def test_leaving_a_call_cancels_it_and_leaving_another_stream_does_not(client: ApiClient) -> None:
    with client.stream_call({"name": "parrot.wait"}, None) as (call_id, events):
        next(events)
        with client.stream_events(f"/calls/{call_id}/events") as followed:
            next(followed)
        next(events)
        assert not ended(client, call_id)

    eventually(lambda: ended(client, call_id), "it was cancelled")
    assert client.get(f"/calls/{call_id}")["status"] == "cancelled"


def test_bytes_arrive_whole_and_may_be_left(client: ApiClient) -> None:
    digest = made(client, "maker.make")["result"]["uri"].rpartition("/")[2]

    with client.download(f"/artifacts/{digest}") as (media_type, chunks):
        received = b"".join(chunks)
    assert (media_type, received) == ("text/html", CONTENT)
    assert sha256(received).hexdigest() == digest
    with client.download(f"/artifacts/{digest}") as (_, chunks):
        assert next(chunks)
    assert client.get("/me")


def test_a_client_of_another_tenant_is_in_that_tenant(home: Paddock, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in home.environment.items():
        monkeypatch.setenv(name, value)
    with open_client("acme") as client:
        assert client.get("/calls") == {"calls": []}
        with pytest.raises(NotFound) as unknown:
            made(client, "parrot.say", text="x")
    assert unknown.value.error_code == "callable.not_found"
    with open_client("nobody") as client, pytest.raises(NotFound) as no_tenant:
        client.get("/calls")
    assert no_tenant.value.error_code == "tenant.not_found"


@dataclass(frozen=True)
class Broken:
    """A transport to an API that fails inside."""

    has_daemon: bool

    @contextmanager
    def open(self, request: ApiRequest) -> Generator[BrokenResponse, None, None]:
        del request
        yield BrokenResponse()

    def run(self, prompt: Any) -> Any:
        return prompt


class BrokenResponse:
    def __init__(self) -> None:
        self.status, self.headers = 500, dict[str, str]()
        self._chunks = [json.dumps(full_problem(HostError("it broke", code="internal", hint="see the log"), "err_1"))]

    def read_chunk(self) -> bytes:
        return self._chunks.pop().encode() if self._chunks else b""


@pytest.mark.parametrize(("has_daemon", "hint"), [(True, "see the log"), (False, DEBUG_HINT)])
def test_an_error_inside_the_host_is_found_in_the_log_of_a_daemon_or_by_debugging_the_command(
    has_daemon: bool, hint: str
) -> None:
    with pytest.raises(HostError) as broken:
        ApiClient(Broken(has_daemon)).get("/me")

    assert (broken.value.error_code, broken.value.hint) == ("internal", hint)


def test_a_host_that_is_being_opened_is_stopped_by_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[bool] = []

    @asynccontextmanager
    async def open_slowly(config: object) -> AsyncGenerator[None, None]:
        del config
        await asyncio.sleep(0)  # now the command waits for the host
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        except asyncio.CancelledError:
            stopped.append(True)
            raise
        yield

    monkeypatch.setattr(in_process, "open_host", open_slowly)

    with pytest.raises(KeyboardInterrupt), in_process.open_in_process():
        pass

    assert stopped == [True]


def test_the_time_that_a_person_takes_at_a_prompt_of_the_host_is_not_the_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(in_process, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def open_for_ever() -> None:
        await asyncio.Event().wait()

    def think() -> Secret:
        now[0] += 100
        return Secret("typed")

    with open_runner() as runner:
        relay, host = PromptRelay(runner.get_loop()), runner.get_loop().create_task(open_for_ever())
        transport = in_process.InProcessTransport(runner, host, runner.get_loop().create_future(), relay)
        answer = transport.wait(asyncio.to_thread(relay.ask, think), deadline=50)

    assert answer.reveal() == "typed"


class Interrupted:
    """A transport on which a call begins; then every wait is interrupted."""

    has_daemon, status, headers = True, 200, {"content-location": "/api/v1/calls/call_1"}

    @contextmanager
    def open(self, request: ApiRequest) -> Generator[Interrupted, None, None]:
        if request.method == "GET":
            raise KeyboardInterrupt
        yield self

    def read_chunk(self) -> bytes:
        raise KeyboardInterrupt

    def run(self, prompt: Any) -> Any:
        return prompt


def test_a_second_interrupt_while_the_call_is_cancelled_still_says_what_became_of_it() -> None:
    prompts = QuestionPrompt(), ApprovalPrompt(wait=False, has_daemon=True)

    with pytest.raises(KeyboardInterrupt) as interrupted:
        make_call(ApiClient(Interrupted()), {"name": "parrot.wait"}, None, *prompts)

    assert isinstance(interrupted.value, InterruptedCommand)
    assert interrupted.value.left.hint == "it was asked to end, and may have happened"
