"""Registries that cannot be reached: given up soon, also where packets are dropped and nothing refuses a connection."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.commands import Paddock

pytestmark = pytest.mark.slow

SOON = 60.0  # the kernel alone tries to connect for more than two minutes


@pytest.fixture
def silent_address() -> Iterator[str]:
    """An address that drops every packet: a listener whose queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        queued = [socket.socket() for _ in range(4)]
        for one in queued:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        for one in queued:
            one.close()


@pytest.mark.parametrize("package", ["npm:tiny-server", "pypi:tiny-server"])
def test_a_registry_that_drops_every_packet_is_given_up_soon(tmp_path: Path, silent_address: str, package: str) -> None:
    if package.startswith("npm:") and shutil.which("npm") is None:
        pytest.skip("npm is not installed here")
    (tmp_path / "home").mkdir()
    more = {
        "npm_config_registry": silent_address,
        "npm_config_cache": str(tmp_path / "npm-cache"),
        "npm_config_userconfig": "/dev/null",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": f"{silent_address}/simple",
        "PIP_FIND_LINKS": "",
    }
    began = time.monotonic()
    said = Paddock(tmp_path / "home", more=more).quickly("plugin", "install", package, "--yes", "--json", code=1)
    assert said.error["code"] == "environment.unreachable", said.error
    assert time.monotonic() - began < SOON
