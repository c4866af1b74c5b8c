"""The settings that the user of Paddock made for pip, as settings of uv, which reads none of pip's files.

People have told pip once where their packages come from: an index of their own, its certificate, a proxy. They are not
asked to say it again.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from paddock.core.errors import OperatorError
from paddock.core.printable import printable

_SECTIONS = ("global", "install")  # the later wins
_TRUE_VALUES = frozenset({"1", "true", "yes", "on"})
_MAX_FILE_BYTES = 256 * 1024


class PipSettings(Struct, frozen=True):
    """pip's options by their long names without dashes, each as text."""

    values: Mapping[str, str]

    def uv_variables(self) -> dict[str, str]:
        """Return the variables that tell uv the same. In variables rather than options: an address may hold a password,
        and every user of the machine can read command lines."""
        read = self._read
        chosen = {
            "UV_DEFAULT_INDEX": read("index-url"),
            "UV_INDEX": read("extra-index-url"),
            "UV_INDEX_STRATEGY": "unsafe-best-match",  # as pip: the best version of all indexes
            "UV_FIND_LINKS": ",".join(read("find-links").split()),
            "UV_CONSTRAINT": read("constraint"),
            "UV_INSECURE_HOST": read("trusted-host"),
            "UV_HTTP_TIMEOUT": read("timeout") or read("default-timeout"),
            "UV_HTTP_RETRIES": read("retries"),
            "SSL_CERT_FILE": read("cert"),
            "SSL_CLIENT_CERT": read("client-cert"),
            **dict.fromkeys(("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"), read("proxy")),
        }
        return {name: value for name, value in chosen.items() if value}

    def uv_options(self) -> list[str]:
        """Return the options that tell uv the rest."""
        flags = {"no-index": "--no-index", "no-cache-dir": "--no-cache"}
        return [flag for name, flag in flags.items() if self._read(name).lower() in _TRUE_VALUES]

    def _read(self, name: str) -> str:
        return " ".join(self.values.get(name, "").split())


def read_pip_settings(environ: Mapping[str, str]) -> PipSettings:
    """Read pip's settings from its files and variables, in pip's order.

    Raises:
        OperatorError: a file of settings cannot be read.
    """
    values: dict[str, str] = {}
    for file in _config_files(environ):
        values |= _read_file(file)
    bundle = environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE")
    values |= {"cert": bundle} if bundle and "cert" not in values else {}
    for name, value in environ.items():
        if name.startswith("PIP_") and value:  # pip takes an empty variable for none
            values[_option_name(name.removeprefix("PIP_"))] = value
    return PipSettings(values)


def _config_files(environ: Mapping[str, str]) -> Iterator[Path]:
    chosen = environ.get("PIP_CONFIG_FILE", "")
    if chosen == os.devnull:
        return
    for folder in reversed((environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)):
        yield Path(folder, "pip", "pip.conf")
    yield Path("/etc/pip.conf")
    if home := environ.get("HOME"):
        yield Path(home, ".pip", "pip.conf")
        yield Path(environ.get("XDG_CONFIG_HOME") or Path(home, ".config"), "pip", "pip.conf")
    if chosen:
        yield Path(chosen)


def _read_file(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        with file.open(encoding="utf-8") as opened:
            parser.read_string(opened.read(_MAX_FILE_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeError, configparser.Error) as error:
        reason = printable(getattr(error, "strerror", None) or str(error), 200)
        raise OperatorError(
            f"the settings of pip cannot be read: {file}: {reason}",
            code="environment.client_failed",
            hint="fix the file, or use none: export PIP_CONFIG_FILE=/dev/null",
        ) from error
    return {
        _option_name(name): value
        for section in _SECTIONS
        if parser.has_section(section)
        for name, value in parser.items(section)
    }


def _option_name(name: str) -> str:
    return name.lower().replace("_", "-")
