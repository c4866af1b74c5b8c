"""What counts as a JSON-RPC 2.0 message, and what an answer says."""

from __future__ import annotations

from typing import Any, cast

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import CAPABILITY_DENIED, INVALID_REQUEST, CapabilityDenied, HostRefused, PluginFault

Id = int | str


def is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def is_valid_message(message: JsonObject) -> bool:
    """Whether an object is a request, a notification or an answer."""
    if message.get("jsonrpc") != "2.0" or ("id" in message and not is_id(message["id"])):
        return False
    if "method" in message:
        return isinstance(message["method"], str)
    error = message.get("error")
    if error is None:
        return "id" in message and "result" in message
    return "id" in message and isinstance(error, dict) and isinstance(cast("JsonObject", error).get("code"), int)


def looks_like_answer(message: JsonObject) -> bool:
    """Whether an unsound object was to be an answer. Answering one could go back and forth for ever."""
    return "result" in message or "error" in message


def invalid_message_fault(message: JsonObject) -> tuple[Id | None, PluginFault]:
    """What an unsound message is answered with, and under which id."""
    request_id = message.get("id")
    fault = PluginFault("not a JSON-RPC 2.0 request (batches are not accepted)", code=INVALID_REQUEST)
    return (request_id if is_id(request_id) else None), fault


def result_of(answer: JsonObject, *, undeclared: bool = False) -> Any:
    """The result of a sound answer.

    Args:
        answer: What the host said.
        undeclared: It was asked for something that the plugin knows it was not given.

    Raises:
        CapabilityDenied: it is an error, because the plugin may not have what it asked for.
        HostRefused: it is any other error.
    """
    error = answer.get("error")
    if error is None:
        return answer["result"]
    denied = undeclared or error["code"] == CAPABILITY_DENIED
    refused = CapabilityDenied if denied else HostRefused
    raise refused(str(error.get("message", "refused")), error.get("data"), code=error["code"])
