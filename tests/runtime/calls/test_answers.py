"""What a caller meets when a plugin answers with an error."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.core.error_formats import error_to_json
from paddock.rpc.errors import RpcError
from paddock.runtime.errors import to_paddock_error


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("the plugin failed (ValueError)", "notes failed (ValueError)"),
        ("out of cheese", "notes failed: out of cheese"),
        ("", "notes gave no reason"),
    ],
)
def test_a_failure_of_its_code_names_the_plugin_and_where_the_rest_is(said: str, told: str) -> None:
    shown: Any = error_to_json(to_paddock_error("notes", RpcError(-32603, said)))
    assert (shown["message"], shown["action"]) == (told, {"kind": "plugin.logs", "arguments": {"plugin": "notes"}})
    assert (shown["code"], shown["details"]) == ("plugin_error", {"plugin": "notes", "rpc_code": -32603})


def test_what_an_author_says_to_callers_is_passed_on_as_it_is() -> None:
    shown: Any = error_to_json(to_paddock_error("notes", RpcError(-32000, "there is no such note")))
    assert shown["message"] == "there is no such note"
    assert "hint" not in shown


def test_what_to_do_about_a_refusal_is_told_as_the_plugins_word_since_it_could_have_written_it() -> None:
    for code in (-32001, -32003, -32602, -32000):
        fault = RpcError(code, "no", {"hint": "declare \x1b[31m'net:a.example:443'"})
        shown: Any = error_to_json(to_paddock_error("notes", fault))
        assert shown["hint"] == "notes passes on: declare \\x1b[31m'net:a.example:443'"
    assert all(
        "hint" not in error_to_json(to_paddock_error("notes", RpcError(-32001, "no", data)))
        for data in ({"hint": 3}, ["hint"])
    )
