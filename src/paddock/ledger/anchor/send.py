"""Sends checkpoints to an address, each kind by its own protocol, and returns the proof that they arrived."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from paddock import __version__
from paddock.cage.bounded_process import ProcessLimits, run_bounded
from paddock.core.clock import Random
from paddock.core.errors import HostError, PaddockError, Unreachable
from paddock.ledger.anchor.git_branch import GitBranch
from paddock.ledger.anchor.receipt import document_digest, receipts_file
from paddock.ledger.anchor.time_stamp import (
    REQUEST_MEDIA_TYPE,
    RESPONSE_MEDIA_TYPE,
    TimeStampInvalid,
    build_request,
    parse_response,
    require_answer,
)
from paddock.ledger.chain.checkpoint import parse_checkpoint
from paddock.net.anchor_address import AnchorAddress
from paddock.net.http_client import HttpClient, HttpConnectionLost, ResponseTooLarge, split_url
from paddock.store.filesystem import sync_directory

SEND_TIMEOUT_S = 60.0
_MAX_RESPONSE_BYTES = 256 * 1024
_KEPT_BODY_CHARS = 4_096
_MAX_CHECKPOINT_BYTES = 64 * 1024
_NONCE_BYTES = 8


class AnchorSender(Struct, frozen=True):
    """Sends documents to addresses.

    Attributes:
        state: The directory below which git repositories are kept.
        environ: The host's environment, for git.
        random: For nonces.
        authority_file: Certificates of time stamping authorities, as PEM; None checks no signature.
    """

    state: Path
    environ: Mapping[str, str]
    random: Random
    authority_file: Path | None = None

    async def send(self, address: AnchorAddress, document: bytes) -> dict[str, Any]:
        """Send a document and return the proof for its receipt.

        Raises:
            PaddockError: it did not arrive, or nothing proves that it did.
        """
        match address.kind:
            case "file":
                return await asyncio.to_thread(_append_to_file, Path(address.location), document)
            case "git":
                return {"commit": await self._push(address, document)}
            case "webhook":
                return await self._post_to_webhook(address, document)
            case "rfc3161":
                return await self._stamp(address, document)

    def git_branch(self, address: AnchorAddress, check_stopped: Callable[[], None] | None = None) -> GitBranch:
        """Return the branch of a git address."""
        repository = receipts_file(self.state, address).with_suffix(".git")
        return GitBranch(address, repository, self.environ, check_stopped)

    async def _push(self, address: AnchorAddress, document: bytes) -> str:
        checkpoint = parse_checkpoint(document.splitlines()[0])
        name = quote(checkpoint.key_id if checkpoint else "checkpoints", safe="")
        stop = threading.Event()

        def check_stopped() -> None:
            if stop.is_set():
                raise _SendingStopped

        branch = self.git_branch(address, check_stopped)
        try:
            return await asyncio.to_thread(branch.append, f"{name}.jsonl", document, "Checkpoints of the ledger")
        finally:
            stop.set()  # a thread cannot be cancelled; a remote that hangs must not keep a daemon from ending

    async def _post_to_webhook(self, address: AnchorAddress, document: bytes) -> dict[str, Any]:
        digest = document_digest(document).hex()
        headers = (("content-type", "application/x-ndjson"), ("digest", f"sha-256={_base64_of_hex(digest)}"))
        status, body = await _post(address, headers, document)
        return {"status": status, "body": body.decode("utf-8", "replace")[:_KEPT_BODY_CHARS]}

    async def _stamp(self, address: AnchorAddress, document: bytes) -> dict[str, Any]:
        digest, nonce = document_digest(document), int.from_bytes(self.random.bytes(_NONCE_BYTES), "big")
        headers = (("content-type", REQUEST_MEDIA_TYPE), ("accept", RESPONSE_MEDIA_TYPE))
        _, response = await _post(address, headers, build_request(digest, nonce))
        try:
            stamp = parse_response(response)
            require_answer(stamp, digest, nonce)
        except TimeStampInvalid as error:
            raise Unreachable(f"{address.name}: {error}", code="ledger.anchor") from None
        if self.authority_file is not None:
            await asyncio.to_thread(verify_time_stamp, response, digest, self.authority_file, self.environ)
        return {"response": base64.b64encode(response).decode(), "time": stamp.at.isoformat()}


class _SendingStopped(Exception):
    """The daemon shuts down. Raised in the worker thread to leave it."""


def verify_time_stamp(response: bytes, digest: bytes, authority_file: Path, environ: Mapping[str, str]) -> None:
    """Check the signature of a time stamp with OpenSSL.

    Raises:
        PaddockError: it is not one of these authorities', or OpenSSL is not here.
    """
    path = environ.get("PATH", os.defpath)
    openssl = shutil.which("openssl", path=path)
    if openssl is None:
        raise HostError("there is no openssl to check a time stamp with", code="ledger.anchor", hint="install openssl")
    response_fd = os.memfd_create("response")
    try:
        os.write(response_fd, response)
        file = f"/proc/{os.getpid()}/fd/{response_fd}"
        run = run_bounded(
            [openssl, "ts", "-verify", "-digest", digest.hex(), "-in", file, "-CAfile", str(authority_file)],
            {"PATH": path, "LC_ALL": "C"},
            ProcessLimits(timeout_s=20.0),
        )
    finally:
        os.close(response_fd)
    if run.status != 0 or "Verification: OK" not in run.text:
        raise HostError(
            f"a time stamp is not signed by an authority in {authority_file}",
            code="ledger.anchor",
            hint="see ledger.time_stamp_authorities",
        )


def _append_to_file(path: Path, document: bytes) -> dict[str, Any]:
    """Append to the file, on disk when this returns. Its directory must exist: an unmounted disk is an error."""
    try:
        new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            size = _cut_unfinished_line(descriptor)
            if os.write(descriptor, document) != len(document):
                _cut_unfinished_line(descriptor)
                raise OSError("no room is left")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if new:
            sync_directory(path.parent)
    except OSError as error:
        raise Unreachable(
            f"checkpoints cannot be appended to {path}: {error.strerror or error}",
            code="ledger.anchor",
            hint="see whether its disk is mounted, and who may write there",
        ) from error
    return {"offset": size, "bytes": len(document)}


def _cut_unfinished_line(descriptor: int) -> int:
    """Cut off a checkpoint that a full disk or a loss of power left unfinished: the next one would continue its line,
    and neither could be read. Returns the size of the file.

    Raises:
        OSError: the unfinished line is not one of ours, or cannot be cut off.
    """
    size = os.fstat(descriptor).st_size
    end = os.pread(descriptor, _MAX_CHECKPOINT_BYTES, max(0, size - _MAX_CHECKPOINT_BYTES))
    unfinished = end[end.rfind(b"\n") + 1 :]
    if unfinished:
        if not unfinished.startswith(b"{"):
            raise OSError("its last line does not end, and is not a checkpoint")
        size -= len(unfinished)
        os.ftruncate(descriptor, size)
    return size


async def _post(address: AnchorAddress, headers: tuple[tuple[str, str], ...], body: bytes) -> tuple[int, bytes]:
    """Post a body, and return the status and the body of a successful response."""
    try:
        origin, target = split_url(address.location)
    except ValueError as error:
        raise HostError(f"{address.name} is {error}", code="ledger.anchor") from None
    client = HttpClient(origin, ssl.create_default_context() if origin.scheme == "https" else None)
    try:
        async with (
            asyncio.timeout(SEND_TIMEOUT_S),
            client.request("POST", target, (*headers, ("user-agent", f"paddock/{__version__}")), body) as response,
        ):
            answer = await response.read_body(_MAX_RESPONSE_BYTES)
            if not 200 <= response.status < 300:
                raise Unreachable(f"{address.name} answered with {response.status}", code="ledger.anchor")
            return response.status, answer
    except PaddockError:
        raise
    except TimeoutError:
        raise Unreachable(f"{address.name} did not answer in time", code="ledger.anchor") from None
    except (HttpConnectionLost, ResponseTooLarge, OSError) as error:
        raise Unreachable(f"{address.name} cannot be reached: {error}", code="ledger.anchor") from error
    finally:
        await client.aclose()


def _base64_of_hex(text: str) -> str:
    return base64.b64encode(bytes.fromhex(text)).decode()
