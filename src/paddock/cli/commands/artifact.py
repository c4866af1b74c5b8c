"""`paddock artifact …`: show and download the artifacts that a plugin's response names by their address."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.output.report import print_facts, print_json, print_message, styled
from paddock.core.errors import CallerError, HostError, NotFound, OperatorError

if TYPE_CHECKING:
    from paddock.capabilities.artifacts.rows import StoredArtifact
    from paddock.host.wiring.one_shot import OneShotHost

app = PaddockGroup("artifact", help="Fetch the big bytes that plugins made.")
uri_argument = click.argument("uri", help="The address in a plugin's result: artifact://sha256/…")
_CHUNK_BYTES = 1 << 20


@app.command("show", examples=["paddock artifact show artifact://sha256/0a1b…"])
@uri_argument
@options.tenant
@options.as_json
def show(uri: str, *, tenant: str, as_json: bool) -> None:
    """Show the size, the media type and the time of an artifact."""
    from paddock.capabilities.artifacts.address import artifact_address, parse_address
    from paddock.cli.client.one_shot import open_for_read

    digest = parse_address(uri)
    with open_for_read(tenant) as host:
        artifact = _require_artifact(host, digest, tenant)
    facts = {"uri": artifact_address(digest), "size": artifact.size, "media_type": artifact.media_type}
    if as_json:
        print_json(facts | {"created_at": artifact.created_at})
        return
    print_facts(
        {
            "address": artifact_address(digest),
            "size": f"{artifact.size} bytes",
            "media type": artifact.media_type,
            "created": artifact.created_at[:19].replace("T", " "),
        }
    )


@app.command("get", examples=["paddock artifact get artifact://sha256/0a1b… --output report.pdf"])
@uri_argument
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where it goes; never overwritten. Without: to stdout.",
)
@options.tenant
@options.as_json
def get(uri: str, *, output: Path | None, tenant: str, as_json: bool) -> None:
    """Write an artifact to a file or to stdout. Its bytes are checked against its address on the way."""
    from paddock.capabilities.artifacts.address import artifact_address, parse_address

    digest = parse_address(uri)
    if output is None and (as_json or sys.stdout.isatty()):
        raise CallerError(
            "it needs a file to go to", code="artifacts.no_output", hint=f"paddock artifact get {uri} --output FILE"
        )
    artifact, source = _open_artifact(digest, tenant)
    with open(source, "rb") as content:  # noqa: PTH123 - a descriptor
        if output is None:
            _copy(content, sys.stdout.buffer, artifact)
            return
        _save(content, output, artifact)
    if as_json:
        summary = {"uri": artifact_address(digest), "file": str(output), "size": artifact.size}
        print_json(summary | {"media_type": artifact.media_type})
    else:
        print_message(f"{styled('✓', 'green')} wrote {output} ({artifact.size} bytes, {artifact.media_type})")


def _open_artifact(digest: str, tenant: str) -> tuple[StoredArtifact, int]:
    """Return an artifact's row, and a descriptor to read it with."""
    from paddock.capabilities.artifacts.files import ArtifactFiles, artifacts_directory
    from paddock.cli.client.one_shot import open_for_read

    with open_for_read(tenant) as host:
        artifact = _require_artifact(host, digest, tenant)
        return artifact, ArtifactFiles(artifacts_directory(host.directories.data)).open(tenant, digest)


def _require_artifact(host: OneShotHost, digest: str, tenant: str) -> StoredArtifact:
    from paddock.capabilities.artifacts.rows import find_artifact

    artifact = host.plugins.database.read(lambda tx: find_artifact(tx, tenant, digest))
    if artifact is None:
        raise NotFound(
            "there is no such artifact",
            code="artifacts.unknown",
            hint="an artifact exists until its plugin deletes it or is removed",
        )
    return artifact


def _save(content: BinaryIO, output: Path, artifact: StoredArtifact) -> None:
    """Write the artifact to a new file; on failure no file is left."""
    try:
        with output.open("xb") as file:
            try:
                _copy(content, file, artifact)
            except BaseException:
                output.unlink(missing_ok=True)
                raise
    except FileExistsError:
        raise OperatorError(
            f"{output} is already there", code="artifacts.file_exists", hint="choose another file"
        ) from None
    except OSError as error:
        raise OperatorError(f"cannot write {output}: {error.strerror}", code="artifacts.file_unwritable") from error


def _copy(content: BinaryIO, sink: BinaryIO, artifact: StoredArtifact) -> None:
    hasher = hashlib.sha256()
    while chunk := content.read(_CHUNK_BYTES):
        hasher.update(chunk)
        sink.write(chunk)
    sink.flush()
    if hasher.hexdigest() != artifact.digest:
        raise HostError(
            "the bytes of this artifact were changed on the disk", code="artifacts.damaged", hint="check the disk"
        )
