"""Package registries of our own on loopback, spoken to by the real uv and npm."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

PROGRAM = "def main():\n    import tiny_lib\n    print(tiny_lib.ANSWER)\n"


def _basic(password: str) -> str:
    return f"Basic {base64.b64encode(password.encode()).decode()}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # whoever asked was killed
            super().handle_error(request, client_address)


class Shop:
    """A server of files. A path in `held` is answered only after `release`, and `asked` says when somebody waits."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}
        self.requests: list[str] = []
        self.held: set[str] = set()
        self.asked = threading.Event()
        self.released = threading.Event()
        self.address = ""
        self.password = ""  # NAME:PASSWORD, without which nothing is served

    @contextmanager
    def open(self) -> Iterator[None]:
        shop = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = unquote(self.path).partition("?")[0]
                shop.requests.append(path)
                if shop.password and self.headers.get("Authorization") != _basic(shop.password):
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", "Basic")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                if path in shop.held:
                    shop.asked.set()
                    shop.released.wait(60)
                kind, body = shop.files.get(path) or shop.files.get(path.rstrip("/")) or ("text/plain", b"")
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        with _Server(("127.0.0.1", 0), Handler) as server:
            self.address = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield
            finally:
                self.released.set()
                server.shutdown()
                thread.join()


class PythonIndex(Shop):
    """An index in the JSON form of the simple API."""

    def __init__(self) -> None:
        super().__init__()
        self._offers: dict[str, list[dict[str, Any]]] = {}

    def environment(self, folder: Path) -> dict[str, str]:
        """The settings of pip by which uv comes here and nowhere else."""
        return {
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": f"{self.address}/simple",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_FIND_LINKS": "",
            "PIP_NO_CACHE_DIR": "1",
            "PIP_RETRIES": "0",
            "PIP_DEFAULT_TIMEOUT": "60",
        }

    def wheel(
        self,
        name: str,
        version: str = "1.0.0",
        *,
        modules: Mapping[str, str] | None = None,
        programs: Mapping[str, str] | None = None,
        needs: tuple[str, ...] = (),
        python: str = "",
        yanked: bool = False,
        **metadata: str,
    ) -> str:
        """Offer a wheel; gives the path it is offered at."""
        stem = name.replace("-", "_")
        info = f"{stem}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {one}" for one in needs] + ([f"Requires-Python: {python}"] if python else [])
        lines += [f"{key.replace('_', '-')}: {value}" for key, value in metadata.items()]
        files = dict(modules if modules is not None else {f"{stem}.py": PROGRAM})
        files[f"{info}/METADATA"] = "\n".join(lines) + "\n"
        files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        if programs is None:
            programs = {name: f"{stem}:main"}
        if programs:
            listed = "\n".join(f"{key} = {value}" for key, value in programs.items())
            files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{listed}\n"
        files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for path, text in files.items():
                archive.writestr(zipfile.ZipInfo(path), text)
        about = files[f"{info}/METADATA"].encode()
        file = f"{stem}-{version}-py3-none-any.whl"
        return self.offer(name, file, packed.getvalue(), about, python=python, yanked=yanked)

    def source(self, name: str, version: str, setup: str) -> str:
        """Offer only the source of a package; its `setup.py` runs when somebody builds it."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, text in (("setup.py", setup), ("PKG-INFO", f"Name: {name}\nVersion: {version}\n")):
                member = tarfile.TarInfo(f"{name}-{version}/{path}")
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
        return self.offer(name, f"{name}-{version}.tar.gz", packed.getvalue())

    def offer(
        self, name: str, file: str, content: bytes, about: bytes = b"", *, python: str = "", yanked: bool = False
    ) -> str:
        """Offer a file; `about` is its metadata, which can be had without it."""
        path = f"/files/{file}"
        self.files[path] = ("application/octet-stream", content)
        offer: dict[str, Any] = {
            "filename": file,
            "url": path,
            "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
            "yanked": yanked,
        }
        if about:
            self.files[f"{path}.metadata"] = ("text/plain", about)
            offer["core-metadata"] = {"sha256": hashlib.sha256(about).hexdigest()}
        self._offers.setdefault(name, []).append(offer | ({"requires-python": python} if python else {}))
        page = {"meta": {"api-version": "1.0"}, "name": name, "files": self._offers[name]}
        self.files[f"/simple/{name}"] = ("application/vnd.pypi.simple.v1+json", json.dumps(page).encode())
        return path


class NpmRegistry(Shop):
    """A registry of npm packages."""

    def __init__(self) -> None:
        super().__init__()
        self._packages: dict[str, dict[str, Any]] = {}

    def environment(self, folder: Path) -> dict[str, str]:
        """The settings by which npm comes here and nowhere else."""
        return {
            "npm_config_registry": f"{self.address}/",
            "npm_config_cache": str(folder / "npm-cache"),
            "npm_config_userconfig": "/dev/null",
            "npm_config_fetch_retries": "0",
        }

    def package(
        self,
        name: str,
        version: str = "1.0.0",
        *,
        script: str = "",
        files: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> str:
        """Offer a package with one program and more files; gives the path of its archive."""
        plain = name.rpartition("/")[2]
        about = {"name": name, "version": version, "bin": {plain: "index.js"}} | fields
        script = script or f"#!/usr/bin/env node\nconsole.log('{plain} runs')\n"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, text in {"package.json": json.dumps(about), "index.js": script, **(files or {})}.items():
                member = tarfile.TarInfo(f"package/{path}")
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
        path = f"/{name}/-/{plain}-{version}.tgz"
        self.files[path] = ("application/octet-stream", packed.getvalue())
        integrity = self.integrity(path)
        whole = self._packages.setdefault(name, {"name": name, "versions": {}, "dist-tags": {}})
        whole["versions"][version] = about | {"dist": {"tarball": self.address + path, "integrity": integrity}}
        whole["dist-tags"]["latest"] = version
        self.files[f"/{name}"] = ("application/json", json.dumps(whole).encode())
        return path

    def integrity(self, path: str) -> str:
        """The hash of an archive, as locks have it."""
        return "sha512-" + base64.b64encode(hashlib.sha512(self.files[path][1]).digest()).decode()
