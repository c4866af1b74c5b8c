"""Looking at environments from outside: what is on disk, and what their programs print."""

from __future__ import annotations

import subprocess
from pathlib import Path

from fixtures.commands import Paddock
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.environments.requirements import resolve_command
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.node_files import find_environment
from paddock.plugins.store.rows import current_versions


def environments(paddock: Paddock) -> list[Path]:
    """The environments that count."""
    root = paddock.home / "data" / "environments"
    return sorted(note.with_suffix("") for note in root.glob("*.json")) if root.exists() else []


def command_of(paddock: Paddock, name: str) -> tuple[str, ...]:
    """The command line that a start of this plugin would use."""
    with open_local_store(paddock.environment, paddock.home) as host:
        row = host.plugins.database.read(current_versions)[name]
        environment = find_environment(host.plugins, row)
        assert environment is not None
        return resolve_command(manifest_of(row), environment)


def printed(paddock: Paddock, name: str) -> str:
    """What the plugin's program prints, run as it is and with nothing around it."""
    done = subprocess.run(
        command_of(paddock, name),
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
