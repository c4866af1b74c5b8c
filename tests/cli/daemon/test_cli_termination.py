"""Commands that are terminated while a host runs in them."""

from __future__ import annotations

import signal
import socket

import pytest

from fixtures.commands import PATIENCE, Paddock


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["terminated", "terminal closed"])
def test_a_terminated_install_takes_its_git_along_and_leaves_no_files(paddock: Paddock, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE)
        port = silent.getsockname()[1]
        with paddock.start("plugin", "install", f"git+https://127.0.0.1:{port}/x.git", "--yes") as process:
            git, _ = silent.accept()
            process.send_signal(number)
            _, err = process.communicate(timeout=PATIENCE)
        with git:
            git.settimeout(PATIENCE)
            while git.recv(
                4_096
            ):  # its greeting; the end comes when the last process that holds the connection is gone
                pass
    assert process.returncode == 130, err
    assert list(paddock.staging.iterdir()) == []
