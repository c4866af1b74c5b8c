"""Validators of setting values: each returns what is wrong, or None when the value is valid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from paddock.core.printable import printable

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z"
)
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")


def check_host_names(value: Sequence[str]) -> str | None:
    """Return the problem when one of these is not a plain host name."""
    wrong = [name for name in value if not _HOST_NAME.match(name)]
    return f"not a host name: {', '.join(printable(name) for name in wrong)}" if wrong else None


def check_address(value: str) -> str | None:
    """Return the problem when this is not `host:port`."""
    host, _, port = value.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        return f"{printable(value)} is not host:port with a port from 1 to 65535"
    if host.startswith("[") and host.endswith("]"):
        import ipaddress

        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            return f"{printable(host)} is not an IPv6 address"
    elif not _HOST_NAME.match(host.lower()):
        return f"{printable(host)} is not a host name or address"
    return None


def check_web_address(value: str | None) -> str | None:
    """Return the problem when this is not an HTTP URL."""
    if value is None:
        return None
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    return None if valid and value.isprintable() else f"{printable(value)} is not an http:// or https:// address"


def parse_private_network(text: str) -> tuple[IPv4Network | IPv6Network, int | None]:
    """The network that `10.0.0.0/8`, `127.0.0.1:5678` or `[::1]:80` stands for, and its port if it has one.

    Raises:
        ValueError: It is neither an address nor a network.
    """
    import ipaddress

    network, port = text, ""
    if text.startswith("["):
        network, _, port = text[1:].partition("]")
        if port and not port.startswith(":"):
            raise ValueError(text)
        port = port[1:]
    elif text.count(":") == 1:
        network, _, port = text.partition(":")
        if not port:
            raise ValueError(text)
    if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise ValueError(text)
    return ipaddress.ip_network(network), int(port) if port else None


def check_private_networks(value: Sequence[str]) -> str | None:
    """Return the problem when one of these is neither an IP address nor a network, with or without a port."""
    wrong: list[str] = []
    for entry in value:
        try:
            parse_private_network(entry)
        except ValueError:
            wrong.append(printable(entry))
    return f"neither an address nor a network, such as 127.0.0.1:5678: {', '.join(wrong)}" if wrong else None


def check_uri(value: str) -> str | None:
    """Return the problem when this cannot be the start of a URI."""
    valid = re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9:/._~-]{1,200}", value)
    return None if valid else f"{printable(value)} is no URI such as urn:paddock"


def check_store_url(value: str | None) -> str | None:
    """Return the problem when this names no supported database. Never repeats the value: it may contain a password."""
    if value is None or value.startswith(("postgresql://", "postgres://")):
        return None
    if PurePosixPath(value.removeprefix("sqlite://")).is_absolute() and "\0" not in value:
        return None
    return "neither an absolute path of a SQLite file nor a postgresql:// address"


def check_directory(value: str | None) -> str | None:
    """Return the problem when this is not an absolute path."""
    if value is None or (PurePosixPath(value).is_absolute() and "\0" not in value):
        return None
    return f"{printable(value)} is not an absolute path"


def check_tags(value: Sequence[str]) -> str | None:
    """Return the problem when one of these cannot be a policy tag."""
    wrong = [tag for tag in value if not _TAG.fullmatch(tag)]
    return f"not a policy tag: {', '.join(printable(tag) for tag in wrong)}" if wrong else None
