"""`paddock plugin pack`: write a checked package as an archive."""

from __future__ import annotations

from pathlib import Path

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, print_problems, print_result, styled


@command("pack", examples=["paddock plugin pack ./my-plugin", "paddock plugin pack ./my-plugin --output my-plugin.zip"])
@click.argument(
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder of the plugin.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The archive to write. [default: NAME-VERSION.zip]",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@options.as_json
def pack(directory: Path, *, output: Path | None, force: bool, as_json: bool) -> None:
    """Check a plugin and write it as a zip archive, without what an installation would leave out too.

    The same files always give the same archive. It installs as the same package as the folder, with the same digest.
    """
    import tempfile

    from paddock.cli.commands.plugin.check import read_source
    from paddock.cli.output.action_text import command_line
    from paddock.core.action import Action
    from paddock.core.errors import Conflict
    from paddock.plugins.package.rules import format_bytes
    from paddock.plugins.package.source import PackageSource, SourceKind
    from paddock.plugins.package.stage import stage_package
    from paddock.plugins.package.to_zip import write_archive

    result = read_source(directory)
    manifest = result.single()
    target = output or Path(f"{manifest.name}-{manifest.version}.zip")
    if target.exists() and not force:
        raise Conflict(
            f"{target} exists already", code="pack.exists", hint="name another with --output, or use --force"
        )
    source = PackageSource(SourceKind.DIRECTORY, str(directory.resolve()))
    with (
        tempfile.TemporaryDirectory(prefix="paddock-pack-") as folder,
        stage_package(source, Path(folder)) as staged,
    ):
        write_archive(staged, target)
    size = target.stat().st_size
    if as_json:
        print_json(
            {
                "name": manifest.name,
                "version": manifest.version,
                "file": str(target),
                "bytes": size,
                "files": len(staged.tree.files),
                "digest": staged.tree.digest,
            }
        )
        return
    print_problems(result.warnings, "!", "yellow")
    print_result(f"{target}: {len(staged.tree.files)} files, {format_bytes(size)}, {staged.tree.digest}")
    install = command_line(Action.of("plugin.install", source=str(target)))
    print_message(f"  {styled('→', 'dim')} {install}")
