"""A PostgreSQL server of one's own, with its usual settings: what is committed is synced."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres(folder: Path) -> Generator[str, None, None]:
    """Run a server below a folder for as long as the block runs; gives the address of its database."""
    home, binaries = folder / "postgres", _binaries()
    home.mkdir()
    as_user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = pwd.getpwnam("nobody")
        folder.chmod(0o755)
        os.chown(home, user.pw_uid, user.pw_gid)
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
    data = home / "data"

    def run(*command: str | Path) -> None:
        subprocess.run(
            [*as_user, *map(str, command)], cwd=home, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    run(binaries / "initdb", "-D", data, "-A", "trust", "-U", "paddock", "-E", "UTF8", "--locale=C")
    options = f"-c listen_addresses= -c unix_socket_directories={home}"
    run(binaries / "pg_ctl", "-D", data, "-w", "-l", home / "log", "-o", options, "start")
    try:
        yield f"postgresql://paddock@/postgres?host={home}"
    finally:
        run(binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop")


def _binaries() -> Path:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name.zfill(4))
    found = shutil.which("initdb")
    return folders[-1] if folders else Path(found or "initdb").resolve().parent
