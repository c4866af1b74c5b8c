"""The real n8n, installed from the npm registry into a cache folder, and started on loopback.

It is large (about 3 GB) and takes minutes to install, once for each version. It needs npm, a C++ compiler and make (its
database library is built here), and the registry; where one of these is missing, whoever asks for it is skipped with
what was missing.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE

VERSION = "2.41.1"
NODE = "24"  # which it needs; the machine's own may be older
# A later linkedom needs a package that registries with an older copy do not have.
OVERRIDES = {"linkedom": "0.18.12"}
SECONDS_TO_INSTALL = 3600
SECONDS_TO_START = 300


@dataclass(frozen=True, slots=True)
class N8n:
    """An installed n8n, with a folder of its own for what it keeps."""

    program: Path
    node: Path
    folder: Path
    port: int

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.node.parent}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "N8N_USER_FOLDER": str(self.folder),
            "N8N_PORT": str(self.port),
            "N8N_LISTEN_ADDRESS": "127.0.0.1",
            "N8N_ENCRYPTION_KEY": "only for these tests",
            "N8N_RUNNERS_BROKER_PORT": str(_free_port()),
            "N8N_DIAGNOSTICS_ENABLED": "false",
            "N8N_VERSION_NOTIFICATIONS_ENABLED": "false",
            "N8N_TEMPLATES_ENABLED": "false",
            "N8N_ENFORCE_SETTINGS_FILE_PERMISSIONS": "true",
            "NODE_FUNCTION_ALLOW_BUILTIN": "crypto",
        }

    def run(self, *words: str) -> str:
        """One command of it, to its end."""
        done = subprocess.run(
            [str(self.program), *words], env=self.environment, capture_output=True, text=True, timeout=SECONDS_TO_START
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def take_over(self, workflow: dict[str, Any]) -> None:
        """Import a workflow, and have its addresses answer."""
        file = self.folder / f"{workflow['id']}.json"
        file.write_text(json.dumps(workflow))
        self.run("import:workflow", f"--input={file}")
        self.run("publish:workflow", f"--id={workflow['id']}")

    def keep_key(self, name: str, label: str, token: str) -> None:
        """Give it a bearer token to use."""
        file = self.folder / "credentials.json"
        file.write_text(json.dumps([{"id": name, "name": label, "type": "httpBearerAuth", "data": {"token": token}}]))
        self.run("import:credentials", f"--input={file}")

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """It serves for as long as the block runs."""
        with (self.folder / "n8n.log").open("wb") as log:
            started = subprocess.Popen([str(self.program), "start"], env=self.environment, stdout=log, stderr=log)
        try:
            _wait_until_ready(self, started)
            yield
        finally:
            started.terminate()
            try:
                started.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()

    def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """What it answers at one of its webhooks."""
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/webhook/{path}",
            body,
            {"content-type": "application/json", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


def n8n_in(folder: Path) -> N8n:
    """n8n, with a folder for what it keeps; installed first where it is not yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paddock-tests" / f"n8n-{VERSION}"
    if not (cache / "ready").exists():
        _install(cache)
    folder.mkdir()
    return N8n(cache / "app" / "node_modules" / ".bin" / "n8n", _node(cache), folder, _free_port())


def _install(cache: Path) -> None:
    for program in ("npm", "make", "g++"):
        if shutil.which(program) is None:
            pytest.skip(f"n8n is not installed in {cache}, and to install it {program} is needed")
    shutil.rmtree(cache, ignore_errors=True)
    (cache / "app").mkdir(parents=True)
    (cache / "node").mkdir()
    (cache / "node" / "package.json").write_text("{}")
    (cache / "app" / "package.json").write_text(json.dumps({"overrides": OVERRIDES}))
    _npm(cache / "node", f"{_node_package()}@{NODE}")
    # Without their scripts: many of its parts are built or fetched by these, and only the database is needed.
    _npm(cache / "app", f"n8n@{VERSION}", path=_node(cache).parent)
    npm = Path(str(shutil.which("npm"))).resolve().parents[1]
    gyp = [str(_node(cache)), str(npm / "node_modules" / "node-gyp" / "bin" / "node-gyp.js"), "rebuild"]
    _done([*gyp, f"--nodedir={_node(cache).parents[1]}"], cache / "app" / "node_modules" / "sqlite3")
    (cache / "ready").touch()


def _npm(folder: Path, package: str, path: Path | None = None) -> None:
    options = ["--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts", "--loglevel=error"]
    _done(["npm", "install", *options, package], folder, path)


def _done(command: list[str], folder: Path, path: Path | None = None) -> None:
    environment = os.environ | ({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_TO_INSTALL
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"n8n cannot be had here: {' '.join(command)} took more than {SECONDS_TO_INSTALL} s")
    if done.returncode != 0:
        pytest.skip(f"n8n cannot be had here: {' '.join(command)} ended with {done.returncode}: {done.stderr[-800:]}")


def _node_package() -> str:
    kind = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
    if kind is None:
        pytest.skip(f"n8n needs Node {NODE}, which the registry does not have for {platform.machine()}")
    return f"node-linux-{kind}"


def _node(cache: Path) -> Path:
    return cache / "node" / "node_modules" / _node_package() / "bin" / "node"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _wait_until_ready(n8n: N8n, started: subprocess.Popen[bytes]) -> None:
    import time

    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and started.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{n8n.port}/healthz/readiness", timeout=5):
                return
        except OSError:
            time.sleep(0.5)  # it tells nobody when it begins to listen
    raise AssertionError((n8n.folder / "n8n.log").read_text(errors="replace")[-4000:])
