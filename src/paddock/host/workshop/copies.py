"""Copies of a plugin's folder. Its author goes on writing; what runs must stay as it was when it started. Blocks."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from paddock.core.errors import Invalid, OperatorError, Problem
from paddock.core.ids import Digest
from paddock.manifest.model import Manifest, RemoteRuntime
from paddock.manifest.read import DirectoryFiles, read_package
from paddock.manifest.readiness import obstacles
from paddock.plugins.sources import Source, SourceKind
from paddock.plugins.staging import stage


@dataclass(frozen=True, slots=True)
class Copy:
    """The folder as it was at one moment, judged as an install would judge it."""

    root: Path
    digest: Digest
    manifest: Manifest
    warnings: tuple[Problem, ...]

    def remove(self) -> None:
        """Nothing runs from it any more."""
        shutil.rmtree(self.root, ignore_errors=True)


def copied(folder: Path, staging: Path, trees: Path, number: int) -> Copy:
    """A copy of the folder below `trees`.

    Args:
        folder: The author's.
        staging: Where copies are made.
        trees: Where they are kept.
        number: Which copy it is; two of the same files are still two.

    Raises:
        Invalid: the package could not be installed, or not be enabled; carries every reason.
        OperatorError: the folder cannot be read, or holds nothing that runs here.
    """
    source = Source(SourceKind.DIRECTORY, str(folder.resolve()))
    with stage(source, staging) as staged:
        reading = read_package(staged.root)
        manifest = reading.single()
        in_the_way = obstacles(manifest, DirectoryFiles(staged.root))
        if in_the_way:
            raise Invalid(f"{manifest.name} cannot run yet", in_the_way, code="plugin.cannot_enable")
        if isinstance(manifest.runtime, RemoteRuntime):
            raise OperatorError(
                f"{manifest.name} is a server elsewhere: there is no program in this folder",
                code="dev.remote",
                hint="name the folder of the server itself",
            )
        root = trees / f"{manifest.name}-{number}"
        trees.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(root, ignore_errors=True)  # of a session before this one, which was killed
        staged.root.rename(root)
    shown = [one for one in reading.warnings if one not in in_the_way]
    return Copy(root, Digest(f"{staged.tree.digest}#{number}"), manifest, tuple(shown))
