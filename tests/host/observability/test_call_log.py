"""The daemon's own log of calls: one line each, under the id that the plugin got too."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.gate.test_governed_calls import ANN, EVE, Office
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from paddock import Config, open_host
from paddock.core.call import CallContext
from paddock.core.errors import Denied
from paddock.core.ids import RequestId
from paddock.daemon.log_format import JsonLogFormatter, TextLogFormatter
from paddock.runtime.protocols.embedded.plugin import EmbeddedCall


@pytest.mark.req("K-18", "structured")
@pytest.mark.req("K-18", "one correlation id")
async def test_one_id_is_in_the_log_in_the_ledger_and_in_the_plugin(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    office, seen = Office(tmp_path), []

    def look(call: EmbeddedCall) -> None:
        seen.append(call.context["request_id"])

    office.functions["look"] = look
    with caplog.at_level(logging.DEBUG, "paddock.calls"):
        async with office.open() as host:
            await host.call("mail.look", {}, context=CallContext(ANN, RequestId("req_over_all")))
            with pytest.raises(Denied):
                await host.call("mail.look", {}, context=CallContext(EVE, RequestId("req_denied")))

    done, denied = [logged(record) for record in caplog.records if record.name == "paddock.calls"]
    assert seen == ["req_over_all"]
    assert [entry.request for entry in office.ledger() if entry.type == "call.ended"] == ["req_over_all", "req_denied"]
    assert (done["request"], done["status"], done["level"]) == ("req_over_all", "succeeded", "debug")
    assert (denied["request"], denied["error"], denied["level"]) == ("req_denied", "policy_denied", "info")


SAYS = """
import sys
from paddock_sdk import Host, Plugin
plugin = Plugin({name!r}, {version!r})

@plugin.tool
def say(host: Host, text: str):
    plugin.log.info("on its way", text=text)
    host.log.write("info", "through the host", text=text).wait()
    print("a bare line \\x1b[2J", file=sys.stderr)
    return {{"text": text}}

plugin.log.info("before any call")
plugin.run()
"""


@pytest.mark.req("K-18", "one correlation id")
@pytest.mark.req("S-19", "logger")
@pytest.mark.req("G-01", "stderr is the log")
async def test_the_id_goes_through_the_plugin_and_comes_back_in_what_it_logs(home: Home) -> None:
    home.install(program=SAYS)
    async with open_host(Config(home=home.path, environ={})) as host:
        context = replace(host.operator_context(None), request=RequestId("req_through"))
        await patiently(host.call("parrot.say", {"text": "hello"}, context=context))
        kept = [entry["line"] for entry in await host.plugins.logs.read_last("parrot")]

    records = [json.loads(line) for line in kept if line.startswith("{")]
    found = {record["message"]: (record.get("request_id"), record.get("text")) for record in records}
    assert found["before any call"] == (None, None)
    assert found["on its way"] == found["through the host"] == ("req_through", "hello")
    assert "a bare line \\x1b[2J" in kept


def logged(record: logging.LogRecord) -> dict[str, Any]:
    line = JsonLogFormatter().format(record)
    assert "\n" not in line
    return json.loads(line)


@pytest.mark.req("K-18", "structured")
@pytest.mark.parametrize("lines", [JsonLogFormatter(), TextLogFormatter()])
def test_what_a_plugin_is_called_cannot_write_a_second_line_or_steer_a_terminal(lines: logging.Formatter) -> None:
    record = logging.LogRecord("paddock.calls", logging.INFO, "", 0, "a call %s", ("failed",), None)
    record.facts = {"callable": "x\n2026-01-01 info: all is well\x1b[2J"}
    line = lines.format(record)
    assert "\n" not in line and "\x1b" not in line
