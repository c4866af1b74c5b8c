"""Checkpoints that leave the machine: a ledger that was set back is found by what was sent away before."""

from __future__ import annotations

import http.server
import resource
import shutil
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.chains import Chain, called

from fixtures.commands import Paddock
from fixtures.daemons import daemon, eventually
from fixtures.packages import native
from fixtures.small_disks import fill, small_disk
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import PaddockError
from paddock.ledger.anchor.receipt import read_failure, read_receipts, receipts_file
from paddock.ledger.anchor.schedule import AnchorSchedule
from paddock.ledger.anchor.send import AnchorSender
from paddock.net.anchor_address import AnchorAddress, parse_anchor_address

ENVIRON = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
TSA_CONFIG = """
[tsa]
default_tsa = stamps
[stamps]
dir = {folder}
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
certs = {folder}/tsa.pem
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
"""


@pytest.fixture
async def told(paddock: Paddock, tmp_path: Path) -> Chain:
    """A home in which something was installed and called, with a checkpoint after it."""
    paddock.quickly("plugin", "install", native(tmp_path / "notes"), "--yes")
    chain = Chain(f"sqlite://{paddock.home}/data/paddock.db", paddock.home / "state")
    chain.add(*(called(number) for number in range(1, 4)))
    await chain.checkpoint()
    return chain


@contextmanager
def answering(answer: Callable[[str, bytes], tuple[int, bytes]]) -> Generator[int, None, None]:
    """A server on this machine that answers each POST to a path; gives its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, content = answer(self.path, body)
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


async def sent(chain: Chain, address: AnchorAddress, authorities: Path | None = None) -> bool:
    sender = AnchorSender(chain.state, ENVIRON, SystemRandom(), authorities)
    return await AnchorSchedule(address, sender, SystemClock(), timedelta(0)).send_if_due()


def with_anchors(paddock: Paddock, *anchors: str, **more: str) -> Paddock:
    return Paddock(paddock.home, more={"PADDOCK_LEDGER_ANCHORS": ",".join(anchors), **more})


@pytest.mark.parametrize("kind", ["file", "git"])
async def test_a_ledger_that_was_set_back_is_found_by_what_was_sent_away(
    paddock: Paddock, told: Chain, tmp_path: Path, kind: str
) -> None:
    remote = tmp_path / "remote.git"
    git("init", "--quiet", "--bare", remote)
    anchor = {"file": f"file://{tmp_path}/usb.jsonl", "git": f"git+file://{remote}#proofs"}[kind]
    address, home = parse_anchor_address(anchor), with_anchors(paddock, anchor)
    assert await sent(told, address)
    shutil.copytree(paddock.home, tmp_path / "earlier", symlinks=True)
    told.add(called(77))
    await told.checkpoint()
    assert await sent(told, address)
    assert not await sent(told, address), "there is nothing new"
    assert len(read_receipts(told.state, address)) == 2
    assert home.quickly("ledger", "verify", "--anchor", "--json").json["verdict"] == "sound"

    shutil.rmtree(paddock.home)
    shutil.copytree(tmp_path / "earlier", paddock.home, symlinks=True)

    assert home.quickly("ledger", "verify", "--json").json["verdict"] == "sound", "nothing here tells"
    back = home.quickly("ledger", "verify", "--anchor", "--json", code=2)
    assert back.json["verdict"] == "truncated"
    # Written anew and signed with the same key, it is another history.
    told.add(called(88), called(89))
    await told.checkpoint()
    assert home.quickly("ledger", "verify", "--json").json["verdict"] == "sound"
    assert home.quickly("ledger", "verify", "--anchor", "--json", code=1).json["verdict"] == "tampered"


async def test_a_line_that_a_full_disk_left_unfinished_spoils_no_other(
    paddock: Paddock, told: Chain, tmp_path: Path
) -> None:
    file = tmp_path / "usb.jsonl"
    address, home = parse_anchor_address(f"file://{file}"), with_anchors(paddock, f"file://{file}")
    assert await sent(told, address)
    whole = file.read_bytes()
    told.add(called(77))
    await told.checkpoint()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, hard))
    try:
        with pytest.raises(PaddockError, match="no room is left"):
            await sent(told, address)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_bytes() == whole
    file.write_bytes(whole + whole[:20])  # as a loss of power leaves it

    assert await sent(told, address)
    assert home.quickly("ledger", "verify", "--anchor", "--json").json["verdict"] == "sound"
    assert len(file.read_bytes().splitlines()) == 2

    file.write_text("a note of somebody else")
    told.add(called(78))
    await told.checkpoint()
    with pytest.raises(PaddockError, match="is not a checkpoint"):
        await sent(told, address)
    assert file.read_text() == "a note of somebody else"


async def test_a_receipt_of_a_clock_that_was_ahead_does_not_stop_the_anchors(told: Chain, tmp_path: Path) -> None:
    class AheadClock(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(days=3650)

    address = parse_anchor_address(f"file://{tmp_path}/usb.jsonl")
    sender = AnchorSender(told.state, ENVIRON, SystemRandom())
    assert await AnchorSchedule(address, sender, AheadClock(), timedelta(hours=1)).send_if_due()
    told.add(called(77))
    await told.checkpoint()
    right = AnchorSchedule(address, sender, SystemClock(), timedelta(hours=1))
    assert await right.send_if_due()
    told.add(called(78))
    await told.checkpoint()
    assert not await right.send_if_due(), "and from then on an hour is an hour again"


async def test_a_receipt_that_cannot_be_kept_is_a_failure_that_is_retried_with_pauses(
    told: Chain, tmp_path: Path
) -> None:
    address = parse_anchor_address(f"file://{tmp_path}/usb.jsonl")
    with small_disk(receipts_file(told.state, address).parent, "64k") as disk:
        fill(disk)
        with pytest.raises(PaddockError, match=r"receipt of .* cannot be kept: No space left"):
            await sent(told, address)


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_what_a_webhook_does_not_take_was_not_sent(told: Chain, status: int) -> None:
    with answering(lambda _path, _body: (status, b"")) as port:
        address = parse_anchor_address(f"http://127.0.0.1:{port}/anchors")
        with pytest.raises(PaddockError, match=f"answered with {status}"):
            await sent(told, address)
    assert read_receipts(told.state, address) == []


async def test_what_is_taken_off_a_branch_again_still_counts(paddock: Paddock, told: Chain, tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    git("init", "--quiet", "--bare", remote)
    address = parse_anchor_address(f"git+file://{remote}")
    branch = AnchorSender(told.state, ENVIRON, SystemRandom()).git_branch(address)
    branch.append("a.jsonl", b'{"one":1}\n', "first")
    branch.append("a.jsonl", b'{"two":2}\n', "second")
    clone = tmp_path / "clone"
    git("clone", "-q", "-b", "paddock-anchors", remote, clone)
    (clone / "a.jsonl").write_text('{"other":1}\n')
    git("-C", clone, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qam", "rewritten")
    git("-C", clone, "push", "-q")

    assert sorted(branch.read_added_lines()) == [b'{"one":1}', b'{"other":1}', b'{"two":2}']


@pytest.mark.slow
async def test_a_time_stamp_is_asked_for_checked_and_kept(paddock: Paddock, told: Chain, tmp_path: Path) -> None:
    folder = tmp_path / "tsa"
    folder.mkdir()
    authority(folder)

    def stamp(path: str, query: bytes) -> tuple[int, bytes]:
        assert path == "/tsr"
        (folder / "query").write_bytes(query)
        command = ["openssl", "ts", "-reply", "-config", "tsa.cnf", "-queryfile", "query", "-out", "reply"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return 200, (folder / "reply").read_bytes()

    with answering(stamp) as port:
        anchor = f"rfc3161+http://127.0.0.1:{port}/tsr"
        address = parse_anchor_address(anchor)
        assert await sent(told, address, folder / "ca.pem")
        told.add(called(5))
        await told.checkpoint()
        with pytest.raises(PaddockError, match="not signed by an authority"):
            await sent(told, address, folder / "other.pem")
    with (
        answering(lambda _path, _body: (200, b"no time stamp")) as port,
        pytest.raises(PaddockError, match="no time stamp in DER"),
    ):
        await sent(told, parse_anchor_address(f"rfc3161+http://127.0.0.1:{port}/"))
    (receipt,) = read_receipts(told.state, address)
    assert receipt.proof["time"][:4].isdigit()

    home = with_anchors(paddock, anchor, PADDOCK_LEDGER_TIME_STAMP_AUTHORITIES=str(folder / "ca.pem"))
    assert home.quickly("ledger", "verify", "--anchor", "--json").json["verdict"] == "sound"
    wrong = with_anchors(paddock, anchor, PADDOCK_LEDGER_TIME_STAMP_AUTHORITIES=str(folder / "other.pem"))
    assert "not signed by an authority" in wrong.quickly("ledger", "verify", "--anchor", code=3).out
    file = receipts_file(told.state, address)
    file.write_bytes(file.read_bytes().replace(b'\\"to_seq\\":4', b'\\"to_seq\\":3'))
    assert "over something else" in home.quickly("ledger", "verify", "--anchor", code=3).out


async def test_a_daemon_sends_checkpoints_by_itself_and_doctor_says_how_old_they_are(
    paddock: Paddock, told: Chain, tmp_path: Path
) -> None:
    heard: list[bytes] = []

    def take(_path: str, body: bytes) -> tuple[int, bytes]:
        heard.append(body)
        return 201, b"thanks"

    with answering(take) as port:
        anchors = (f"http://127.0.0.1:{port}/anchors", f"file://{tmp_path}/gone/usb.jsonl")
        home = with_anchors(paddock, *anchors, PADDOCK_LEDGER_ANCHOR_INTERVAL_S="1")
        webhook, file = map(parse_anchor_address, anchors)
        with daemon(home):
            eventually(lambda: bool(read_receipts(told.state, webhook)), "a receipt of the webhook is kept")
            eventually(lambda: bool(read_failure(told.state, file)), "the failure of the file is kept")
    assert heard[0].splitlines()[0] in told.checkpoints.read_bytes().splitlines()
    assert read_receipts(told.state, webhook)[0].proof == {"status": 201, "body": "thanks"}
    found = found_by_doctor(home)
    assert "seconds ago" in found or "second ago" in found
    assert "nothing was sent yet; the last attempt failed: checkpoints cannot be appended" in found
    assert home.quickly("ledger", "verify", "--anchor", "--json", code=3).json["verdict"] == "unreadable"
    assert with_anchors(paddock, anchors[0]).quickly("ledger", "verify", "--anchor").out.startswith("✓")


@pytest.mark.parametrize(
    "wrong", ["ftp://x/y", "file://host/x", "git+ftp://x/y", "rfc3161+ssh://x/y", "https://a:b@c/d"]
)
def test_an_address_that_nothing_can_be_sent_to_is_refused_without_showing_it(paddock: Paddock, wrong: str) -> None:
    said = with_anchors(paddock, wrong).quickly("config", "show", code=6).err
    assert "neither file:///PATH" in said
    assert "a:b" not in said


def found_by_doctor(home: Paddock) -> str:
    checks = home.quickly("doctor", "--json").json["checks"]
    return next(check["found"] for check in checks if check["name"] == "ledger anchors")


def git(*words: object) -> None:
    subprocess.run(["git", *map(str, words)], check=True)


def authority(folder: Path) -> None:
    """A time stamping authority, the certificate that it is known by, and one that it is not."""

    def openssl(words: str) -> None:
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)

    for name in ("ca", "other"):
        openssl(f"req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN={name} -keyout {name}.key -out {name}.pem")
    openssl("req -newkey rsa:2048 -nodes -subj /CN=tsa -keyout tsa.key -out tsa.csr")
    (folder / "tsa.ext").write_text("extendedKeyUsage = critical,timeStamping\n")
    openssl("x509 -req -in tsa.csr -CA ca.pem -CAkey ca.key -days 30 -extfile tsa.ext -out tsa.pem")
    (folder / "serial").write_text("01\n")
    (folder / "tsa.cnf").write_text(TSA_CONFIG.format(folder=folder))
