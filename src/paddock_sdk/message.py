"""Validation of JSON-RPC 2.0 messages, and the result of a response."""

from __future__ import annotations

from typing import Any, cast

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import CAPABILITY_DENIED, INVALID_REQUEST, CapabilityDenied, HostRefused, PluginFault

Id = int | str


def is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def is_valid_message(message: JsonObject) -> bool:
    """Whether an object is a request, a notification or a response."""
    if message.get("jsonrpc") != "2.0" or ("id" in message and not is_id(message["id"])):
        return False
    if "method" in message:
        return isinstance(message["method"], str)
    error = message.get("error")
    if error is None:
        return "id" in message and "result" in message
    return "id" in message and isinstance(error, dict) and isinstance(cast("JsonObject", error).get("code"), int)


def looks_like_answer(message: JsonObject) -> bool:
    """Whether an invalid object was meant as a response. Answering it could loop for ever."""
    return "result" in message or "error" in message


def invalid_message_fault(message: JsonObject) -> tuple[Id | None, PluginFault]:
    """Return the error response to an invalid message, and its id."""
    request_id = message.get("id")
    fault = PluginFault("not a JSON-RPC 2.0 request (batches are not accepted)", code=INVALID_REQUEST)
    return (request_id if is_id(request_id) else None), fault


def result_of(answer: JsonObject, *, undeclared: bool = False) -> Any:
    """Return the result of a valid response.

    Args:
        answer: The response of the host.
        undeclared: Whether the plugin knows that it was not granted what it requested.

    Raises:
        CapabilityDenied: it is an error because the plugin lacks the capability.
        HostRefused: it is any other error.
    """
    error = answer.get("error")
    if error is None:
        return answer["result"]
    denied = undeclared or error["code"] == CAPABILITY_DENIED
    error_type = CapabilityDenied if denied else HostRefused
    raise error_type(str(error.get("message", "refused")), error.get("data"), code=error["code"])
