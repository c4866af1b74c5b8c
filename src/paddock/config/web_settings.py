"""Settings of the HTTP API, the MCP gateway and the console."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paddock.config.setting_spec import SettingKind, Tightening, setting
from paddock.config.validators import check_address, check_web_address
from paddock.core.printable import printable

OFF = "off"
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](?::[0-9]{1,5})?")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]+\]")


def check_listen_address(value: str) -> str | None:
    """Return the problem when this is neither `host:port` nor `off`. Port 0 is any that is free."""
    if value == OFF:
        return None
    problem = check_address(re.sub(r":0\Z", ":1", value))
    return f"{problem}, nor {OFF}" if problem else None


def check_http_hosts(value: Sequence[str]) -> str | None:
    """Return the problem when one of these is not a host without a port: a name, or an IP address."""
    wrong = [name for name in value if not _NAME.fullmatch(name)]
    return f"not a host without a port: {', '.join(printable(name) for name in wrong)}" if wrong else None


def check_origins(value: Sequence[str]) -> str | None:
    """Return the problem when one of these is not a web origin."""
    wrong = [origin for origin in value if not _ORIGIN.fullmatch(origin)]
    return f"not an origin such as https://app.example.org: {', '.join(map(printable, wrong))}" if wrong else None


def check_public_url(value: str | None) -> str | None:
    """Return the problem when this is not the URL of a host: a scheme, a name, and nothing behind it."""
    if value is None:
        return None
    if problem := check_web_address(value):
        return problem
    is_origin = _ORIGIN.fullmatch(value.lower())
    return None if is_origin else f"{printable(value)} has more than a scheme, a name and a port"


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The HTTP API and console."""

    address: str = setting(
        "127.0.0.1:7433",
        "Host and port for the API over TCP; `off` for the local socket alone, and port 0 for any that is free. Where "
        "it is not an address of this machine alone, put a proxy that speaks TLS before it.",
        kind=SettingKind.TEXT,
        check=check_listen_address,
    )
    public_url: str | None = setting(
        None,
        "Where people and programs reach this host, such as `https://paddock.example.org`, where that is not its "
        "address over TCP: what a proxy before it is called. An identity provider sends people back there, and access "
        "tokens are for `/mcp` below it.",
        kind=SettingKind.TEXT,
        check=check_public_url,
    )
    hosts: tuple[str, ...] = setting(
        (),
        "Allowed values of `Host`, without a port, in addition to the address itself, the name of `public_url` and, on "
        "this machine, `localhost`. All others are refused, as a protection against DNS rebinding.",
        kind=SettingKind.NAMES,
        check=check_http_hosts,
    )
    origins: tuple[str, ...] = setting(
        (),
        "Origins of pages that may ask with a key from a browser, such as `http://localhost:6274`, beside its own.",
        kind=SettingKind.NAMES,
        check=check_origins,
    )
    first_link: bool = setting(
        True,
        "Whether the first start of `paddock serve` prints a link that signs the operator in, as `paddock login` does.",
        kind=SettingKind.BOOLEAN,
    )
    max_connections: int = setting(
        2_000,
        "How many connections may be open over TCP. When there are as many, the one that has waited longest for a "
        "request gives way to a new one.",
        kind=SettingKind.INTEGER,
        minimum=8,
        maximum=100_000,
        tighter=Tightening.LOWER,
    )
    max_header_bytes: int = setting(
        32_768,
        "How many bytes the address and the headers of a request may have.",
        kind=SettingKind.INTEGER,
        minimum=1_024,
        maximum=1_048_576,
        tighter=Tightening.LOWER,
    )
    header_timeout_s: float = setting(
        10.0,
        "How long the headers of a request may take to arrive, in seconds.",
        kind=SettingKind.NUMBER,
        minimum=0.1,
        maximum=600,
        tighter=Tightening.LOWER,
    )
    body_timeout_s: float = setting(
        60.0,
        "How long the body of a request may take to arrive, in seconds.",
        kind=SettingKind.NUMBER,
        minimum=0.1,
        maximum=3_600,
        tighter=Tightening.LOWER,
    )
    idle_timeout_s: float = setting(
        30.0,
        "How long a connection may stay open without a request, in seconds.",
        kind=SettingKind.NUMBER,
        minimum=0.1,
        maximum=3_600,
        tighter=Tightening.LOWER,
    )


_PAIR = re.compile(r"[a-zA-Z0-9_-]{1,64}=\S+")  # a name that model providers accept, and what it is a name of


def check_exposed_names(value: Sequence[str]) -> str | None:
    """Return the problem when one of these is not `name=plugin.callable`, or a name is given twice."""
    wrong = [pair for pair in value if not _PAIR.fullmatch(pair)]
    if wrong:
        text = ", ".join(printable(pair) for pair in wrong)
        return f"not written as name=plugin.callable, with letters, digits, _ and - in the name: {text}"
    twice = [name for name, count in Counter(pair.partition("=")[0] for pair in value).items() if count > 1]
    return f"given to more than one: {', '.join(twice)}" if twice else None


def parse_exposed_names(value: Sequence[str]) -> Mapping[str, str]:
    """The chosen names, by the callable they are for."""
    return {full_name: name for name, _, full_name in (pair.partition("=") for pair in value)}


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """What MCP clients see at `/mcp`."""

    names: tuple[str, ...] = setting(
        (),
        "Names of tools and prompts, each as `name=plugin.callable`, such as `search=web.search`. What is not here is "
        "called `plugin__callable`.",
        kind=SettingKind.NAMES,
        check=check_exposed_names,
    )
    instructions: str | None = setting(
        None,
        "Instructions for models about all the tools, sent when a client connects. Unset: none.",
        kind=SettingKind.TEXT,
    )
    page_size: int = setting(
        1_000,
        "How many tools, documents or prompts one page of a list has. Not every client asks for a second page.",
        kind=SettingKind.INTEGER,
        minimum=1,
        maximum=10_000,
        tighter=Tightening.LOWER,
    )


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The pages of the console."""

    tour: bool = setting(
        False,
        "Whether the console's first page shows operators a guided tour. `paddock demo` turns it on.",
        kind=SettingKind.BOOLEAN,
    )
