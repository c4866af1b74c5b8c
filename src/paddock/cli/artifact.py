"""`paddock artifact get`: the big bytes that a plugin's answer names by their address."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from paddock.cli.output import AsJson, document, reporting, say, styled
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.errors import CallerError, HostError, NotFound, OperatorError

if TYPE_CHECKING:
    from paddock.capabilities.artifacts.rows import Artifact

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Fetch the big bytes that plugins made.")
_PIECE = 1 << 20


@app.callback()
def group() -> None:
    """A group, although it has one command yet."""


@app.command("get", epilog="Example: paddock artifact get artifact://sha256/0a1b… --output report.pdf")
@reporting
def get(
    uri: Annotated[str, typer.Argument(help="Its address, as it stands in an answer: artifact://sha256/…")],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where it goes; never overwritten. Without: to stdout."),
    ] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Write an artifact to a file or to stdout. Its bytes are checked against its address on the way."""
    from paddock.capabilities.artifacts.address import address_of, digest_of

    digest = digest_of(uri)
    if output is None and (as_json or sys.stdout.isatty()):
        raise CallerError(
            "it needs a file to go to", code="artifacts.no_output", hint=f"paddock artifact get {uri} --output FILE"
        )
    artifact, source = _found(digest, tenant)
    with open(source, "rb") as content:  # noqa: PTH123 - a descriptor
        if output is None:
            _copy(content, sys.stdout.buffer, artifact)
            return
        _save(content, output, artifact)
    if as_json:
        about = {"uri": address_of(digest), "file": str(output), "size": artifact.size}
        document(about | {"media_type": artifact.media_type})
    else:
        say(f"{styled('✓', 'green')} wrote {output} ({artifact.size} bytes, {artifact.media_type})")


def _found(digest: str, tenant: str) -> tuple[Artifact, int]:
    """What is known of it, and a descriptor to read it with."""
    from paddock.capabilities.artifacts.rows import any_artifact
    from paddock.capabilities.artifacts.shelf import Shelf, artifacts_in
    from paddock.cli.opening import reading

    with reading(tenant) as host:
        artifact = host.plugins.database.read(lambda tx: any_artifact(tx, tenant, digest))
        if artifact is None:
            raise NotFound(
                "there is no such artifact",
                code="artifacts.unknown",
                hint="artifacts go with the plugin that made them, and when it deletes them",
            )
        return artifact, Shelf(artifacts_in(host.directories.data)).open(tenant, digest)


def _save(content: BinaryIO, output: Path, artifact: Artifact) -> None:
    """All of it, or no file at all."""
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


def _copy(content: BinaryIO, sink: BinaryIO, artifact: Artifact) -> None:
    hashed = hashlib.sha256()
    while piece := content.read(_PIECE):
        hashed.update(piece)
        sink.write(piece)
    sink.flush()
    if hashed.hexdigest() != artifact.digest:
        raise HostError(
            "the bytes of this artifact were changed on the disk", code="artifacts.damaged", hint="check the disk"
        )
