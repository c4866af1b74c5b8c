"""A small internet in network namespaces: a machine, a resolver, and sites with addresses that look public."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from fixtures.commands import Paddock, Said
from paddock.cage.network.dns import MAX_QUERY_BYTES, answer_query

MACHINE, RESOLVER = "93.184.216.1", "93.184.216.53"
SITES = {"news.example": "93.184.216.34", "other.example": "93.184.216.35"}
NAMES = {**SITES, "inside.example": "10.0.0.1"}  # a public name that leads into a private network
NEEDED = ("unshare", "nsenter", "ip")


@dataclass(frozen=True)
class ConnectedPaddock(Paddock):
    """Runs commands on the machine in the namespaces of a process."""

    process: int = 0

    def quickly(self, *arguments: object, code: int = 0) -> Said:
        return self(*arguments, code=code)

    def _process(self, arguments: Sequence[object], **options: Any) -> subprocess.Popen[str]:
        entered = ["nsenter", f"--target={self.process}", "--net", "--mount", sys.executable, "-m", "paddock.cli"]
        return subprocess.Popen([*entered, *map(str, arguments)], env=self.environment, **options)


@contextmanager
def connected(paddock: Paddock, folder: Path) -> Iterator[ConnectedPaddock]:
    """The same home on a machine that has this internet and nothing else."""
    resolver = folder / "resolv.conf"
    resolver.write_text(f"nameserver {RESOLVER}\noptions timeout:5 attempts:1\n")
    use_resolver = f"mount --bind {resolver} /etc/resolv.conf && ip link set lo up && echo ready && exec cat"
    here = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", use_resolver]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    there = ["unshare", "--net", sys.executable, __file__]
    with ExitStack() as stack:
        machine = stack.enter_context(_waiting(here, environment))
        internet = stack.enter_context(_waiting(there, environment))
        _ip(machine.pid, "link", "add", "name", "out", "type", "veth", "peer", "name", "in", "netns", str(internet.pid))
        _ip(machine.pid, "address", "add", f"{MACHINE}/24", "dev", "out")
        _ip(machine.pid, "link", "set", "out", "up")
        for address in (RESOLVER, *SITES.values()):
            _ip(internet.pid, "address", "add", f"{address}/24", "dev", "in")
        _ip(internet.pid, "link", "set", "in", "up")
        assert internet.stdin is not None and internet.stdout is not None
        internet.stdin.write(b"connected\n")
        internet.stdin.flush()
        assert internet.stdout.readline() == b"serving\n"
        yield ConnectedPaddock(paddock.home, process=machine.pid)


@contextmanager
def _waiting(words: Sequence[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has said that it is ready, for as long as the block."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def _ip(process: int, *words: str) -> None:
    subprocess.run(["nsenter", f"--target={process}", "--net", "ip", *words], check=True, timeout=30)


class Site(BaseHTTPRequestHandler):
    """A site with one page, which names the site."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/" else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        page = f"<html><body><article><p>A bale of peat, of {self.headers['Host']}</p></article></body></html>"
        self.wfile.write(page.encode() if self.path == "/" else b"")

    def log_message(self, *args: object) -> None:
        pass


def _tell(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def serve() -> None:
    """Be the internet: the sites and the resolver, once the network is there."""
    _tell("ready")
    sys.stdin.readline()
    for address in SITES.values():
        Thread(target=ThreadingHTTPServer((address, 80), Site).serve_forever, daemon=True).start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.bind((RESOLVER, 53))
        _tell("serving")
        while True:
            query, client = resolver.recvfrom(MAX_QUERY_BYTES)
            reply = answer_query(query, NAMES.get)
            if reply is not None:
                resolver.sendto(reply.data, client)


if __name__ == "__main__":
    serve()
