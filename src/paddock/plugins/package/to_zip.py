"""Writes a package as a zip archive: the same files give the same bytes, on any machine and at any time."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path

from paddock.core.errors import HostError, OperatorError
from paddock.plugins.package.rules import SIGNATURE_FILE
from paddock.plugins.package.source import PackageSource, SourceKind
from paddock.plugins.package.stage import StagedPackage, stage_package

_FIRST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_REGULAR_FILE = 0o100000


def write_archive(staged: StagedPackage, target: Path) -> None:
    """Write a staged package to `target`, and read it back as an installation would.

    Raises:
        OperatorError: it cannot be written.
        HostError: an installation from it would not give the same package.
    """
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".zip", dir=target.parent)
        temporary = Path(name)
        with os.fdopen(handle, "w+b") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                _add_files(archive, staged)
            file.flush()
            os.fsync(file.fileno())
        _require_same_package(staged, temporary)
        temporary.chmod(0o644)
        temporary.replace(target)
    except OSError as error:
        raise OperatorError(
            f"{target} cannot be written: {error.strerror or error}",
            code="pack.unwritable",
            hint="name another file, or make room",
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _add_files(archive: zipfile.ZipFile, staged: StagedPackage) -> None:
    files = [(file.path, file.executable) for file in staged.tree.files]
    if (staged.root / SIGNATURE_FILE).is_file():
        files.append((SIGNATURE_FILE, False))
    for path, executable in files:
        member = zipfile.ZipInfo(path, _FIRST_ZIP_DATE)
        member.create_system = _UNIX
        member.external_attr = (_REGULAR_FILE | (0o755 if executable else 0o644)) << 16
        member.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(member, (staged.root / path).read_bytes())


def _require_same_package(staged: StagedPackage, archive: Path) -> None:
    source = PackageSource(SourceKind.ARCHIVE, str(archive))
    with (
        tempfile.TemporaryDirectory(prefix="paddock-pack-") as folder,
        stage_package(source, Path(folder)) as unpacked,
    ):
        if unpacked.tree.digest != staged.tree.digest:
            raise HostError(f"{archive.name} does not unpack to the same package", code="pack.differs")
