"""The daemon's own log of calls: one line each, under the id that the plugin got too."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, EVE, Office

from paddock.cli.log_lines import JsonLines, TextLines
from paddock.core.call import CallContext
from paddock.core.errors import Denied
from paddock.core.ids import RequestId
from paddock.plugins.runtimes.embedded.function import EmbeddedCall

pytestmark = pytest.mark.req("K-18")


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


def logged(record: logging.LogRecord) -> dict[str, Any]:
    line = JsonLines().format(record)
    assert "\n" not in line
    return json.loads(line)


@pytest.mark.parametrize("lines", [JsonLines(), TextLines()])
def test_what_a_plugin_is_called_cannot_write_a_second_line_or_steer_a_terminal(lines: logging.Formatter) -> None:
    record = logging.LogRecord("paddock.calls", logging.INFO, "", 0, "a call %s", ("failed",), None)
    record.facts = {"callable": "x\n2026-01-01 info: all is well\x1b[2J"}
    line = lines.format(record)
    assert "\n" not in line and "\x1b" not in line
