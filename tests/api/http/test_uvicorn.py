"""What web/server overrides and reads of uvicorn is private there, so each new uvicorn has to be read before use."""

from __future__ import annotations

import inspect
from importlib.metadata import version
from types import FunctionType

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from paddock.web.server.limits import LimitedHttpProtocol
from paddock.web.server.protocol import HttpProtocol
from paddock.web.server.unix_socket import UnixSocketProtocol

# The methods that our protocols override, with uvicorn's parameters.
OVERRIDDEN = {
    "_start_asgi_task": ("cycle", "app"),
    "connection_lost": ("exc",),
    "connection_made": ("transport",),
    "data_received": ("data",),
    "on_body": ("body",),
    "on_headers_complete": (),
    "on_message_complete": (),
    "on_response_complete": (),
    "on_url": ("url",),
    "send_400_response": ("msg",),
}
CALLED = ("_unset_keepalive_if_required",)
PROTOCOL_ATTRIBUTES = ("connections", "cycle", "flow", "loop", "pipeline", "server_state", "transport")
CYCLE_ATTRIBUTES = (
    *("default_headers", "disconnected", "flow", "keep_alive", "message_event", "on_response"),
    *("response_complete", "response_started", "scope", "transport", "waiting_for_100_continue"),
)
ADVICE = f"in uvicorn {version('uvicorn')}: read its HTTP protocol anew, adapt paddock/web/server, then move the bound"


@pytest.mark.parametrize("name", [*OVERRIDDEN, *CALLED])
def test_a_method_that_is_overridden_or_called_is_still_uvicorns(name: str) -> None:
    method = getattr(HttpToolsProtocol, name, None)

    assert isinstance(method, FunctionType), f"HttpToolsProtocol.{name} is gone {ADVICE}"
    parameters = tuple(inspect.signature(method).parameters)[1:]
    assert parameters == OVERRIDDEN.get(name, ()), f"HttpToolsProtocol.{name} takes {parameters} {ADVICE}"


@pytest.mark.parametrize(
    ("owner", "names"), [(HttpToolsProtocol, PROTOCOL_ATTRIBUTES), (RequestResponseCycle, CYCLE_ATTRIBUTES)]
)
def test_an_attribute_that_is_read_is_still_set_by_uvicorn(owner: type, names: tuple[str, ...]) -> None:
    assigned = {name for method in vars(owner).values() if isinstance(method, FunctionType)
                for name in method.__code__.co_names}  # fmt: skip

    assert set(names) <= assigned, f"{owner.__name__} lacks {sorted(set(names) - assigned)} {ADVICE}"


def test_every_method_of_uvicorn_that_our_protocols_override_is_listed_here() -> None:
    ours = {name for protocol in (HttpProtocol, LimitedHttpProtocol, UnixSocketProtocol) for name in vars(protocol)}
    uvicorns = {name for name, value in vars(HttpToolsProtocol).items() if isinstance(value, FunctionType)}

    assert (ours & uvicorns) - {"__init__"} == set(OVERRIDDEN)
