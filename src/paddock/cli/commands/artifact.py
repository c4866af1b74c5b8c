"""`paddock artifact …`: show and download the artifacts that a plugin's response names by their address."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import click

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.output.report import print_facts, print_json, print_message, styled
from paddock.core.errors import CallerError, OperatorError

app = PaddockGroup("artifact", help="Show and download plugin artifacts.")
uri_argument = click.argument("uri", help="The address in a plugin's result: artifact://sha256/…")


@app.command("show", examples=["paddock artifact show artifact://sha256/0a1b…"])
@uri_argument
@options.tenant
@options.as_json
def show(uri: str, *, tenant: str, as_json: bool) -> None:
    """Show the size, the media type and the time of an artifact."""
    from paddock.capabilities.artifacts.address import artifact_address, parse_address
    from paddock.capabilities.artifacts.rows import require_artifact
    from paddock.cli.client.local_store import open_for_read

    digest = parse_address(uri)
    with open_for_read(tenant) as store:
        artifact = store.plugins.database.read(lambda tx: require_artifact(tx, tenant, digest))
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
    help="The file to create; an existing file is not overwritten. [default: stdout]",
)
@options.tenant
@options.as_json
def get(uri: str, *, output: Path | None, tenant: str, as_json: bool) -> None:
    """Download an artifact to a file or to stdout. Its content is verified against its address."""
    from paddock.capabilities.artifacts.address import artifact_address, parse_address
    from paddock.cli.client.api_client import open_client

    digest = parse_address(uri)
    if output is None and (as_json or sys.stdout.isatty()):
        raise CallerError(
            "it needs a file to go to", code="artifacts.no_output", hint=f"paddock artifact get {uri} --output FILE"
        )
    with open_client(tenant) as client, client.download(f"/artifacts/{digest}") as (media_type, chunks):
        if output is None:
            _copy(chunks, sys.stdout.buffer, digest)
            return
        size = _save(chunks, output, digest)
    if as_json:
        print_json({"uri": artifact_address(digest), "file": str(output), "size": size, "media_type": media_type})
    else:
        print_message(f"{styled('✓', 'green')} wrote {output} ({size} bytes, {media_type})")


def _save(chunks: Iterable[bytes], output: Path, digest: str) -> int:
    """Write the artifact to a new file and return its size; on failure no file is left."""
    try:
        with output.open("xb") as file:
            try:
                return _copy(chunks, file, digest)
            except BaseException:
                output.unlink(missing_ok=True)
                raise
    except FileExistsError:
        raise OperatorError(
            f"{output} is already there", code="artifacts.file_exists", hint="choose another file"
        ) from None
    except OSError as error:
        raise OperatorError(f"cannot write {output}: {error.strerror}", code="artifacts.file_unwritable") from error


def _copy(chunks: Iterable[bytes], sink: BinaryIO, digest: str) -> int:
    """Copy the bytes and return their number.

    Raises:
        HostError: they are not those of the address.
    """
    from paddock.capabilities.artifacts.files import damaged_artifact_error

    hasher, size = hashlib.sha256(), 0
    for chunk in chunks:
        hasher.update(chunk)
        sink.write(chunk)
        size += len(chunk)
    sink.flush()
    if hasher.hexdigest() != digest:
        raise damaged_artifact_error()
    return size
