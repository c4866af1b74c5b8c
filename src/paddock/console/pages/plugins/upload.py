"""A package that a page sends: written to disk as it arrives, so that a big one costs no memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

import python_multipart
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import Request

from paddock.core.errors import CallerError, Invalid, Problem
from paddock.core.printable import printable
from paddock.plugins.package.rules import DEFAULT_LIMITS, format_bytes
from paddock.plugins.package.source import ARCHIVE_SUFFIXES, PackageSource, SourceKind
from paddock.plugins.package.upload import UploadedFile
from paddock.web.request_headers import request_headers
from paddock.web.routing.body import BodyTooLarge, body_chunks

MAX_PACKAGE_BYTES: Final = DEFAULT_LIMITS.archive_bytes
_MAX_OVERHEAD_BYTES: Final = 64 * 1024  # bytes of a form that are not its file
_MAX_FILE_NAME_CHARS: Final = 200


@dataclass(slots=True)
class PackageUpload:
    """What came: a file, by the name that somebody's browser gave it, and what else the form said."""

    name: str
    file: UploadedFile
    texts: dict[str, str]

    @property
    def source(self) -> PackageSource:
        """Where it stands while it is here."""
        return PackageSource(SourceKind.ARCHIVE, str(self.file.path))

    @property
    def recorded_as(self) -> PackageSource:
        """What is kept of where it came from."""
        return PackageSource(SourceKind.UPLOAD, self.name)


async def receive_package(
    request: Request, opening: Callable[[ExitStack], UploadedFile], brought: ExitStack
) -> PackageUpload:
    """The file of a form with one, whole.

    Args:
        request: What brings it.
        opening: Makes the file, which goes when `brought` is closed.
        brought: Whose it is.

    Raises:
        BodyTooLarge, Invalid: it has more than a package may have, or is none.
        CallerError: this is no such form.
        HostError: the disk refuses.
    """
    form = _MultipartReader(_boundary(request))
    file = await asyncio.to_thread(opening, brought)
    try:
        async for chunk in body_chunks(request, MAX_PACKAGE_BYTES + _MAX_OVERHEAD_BYTES, _package_too_large()):
            form.parser.write(chunk)
            if form.pieces:
                piece, form.pieces = b"".join(form.pieces), []
                await asyncio.to_thread(file.write, piece)
        form.parser.finalize()
    except FormParserError:
        raise CallerError("this form cannot be read", code="http.not_a_form") from None
    await asyncio.to_thread(file.finish)
    return PackageUpload(_checked_file_name(form.file_name, file.size), file, form.texts)


def _checked_file_name(given: str, size: int) -> str:
    """What the file is called, as it may be shown and kept.

    Raises:
        Invalid: there is none, or it is no package.
    """
    name = printable(PurePosixPath(given.replace("\\", "/")).name, _MAX_FILE_NAME_CHARS)
    wrong = ""
    if not name:
        wrong = "Choose a file first"
    elif PurePosixPath(name).suffix.lower() not in ARCHIVE_SUFFIXES:
        wrong = f"{name} is not a .zip, .mcpb or .dxt file"
    elif not size:
        wrong = f"{name} is empty"
    if wrong:
        raise Invalid(wrong, [Problem("package", wrong)], code="package.not_an_archive")
    return name


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request_headers(request.scope).text(b"content-type") or "")
    if kind != b"multipart/form-data" or b"boundary" not in options:
        raise CallerError("this is no form with a file", code="http.not_a_form")
    return options[b"boundary"]


def _package_too_large() -> BodyTooLarge:
    return BodyTooLarge(f"a package may have {format_bytes(MAX_PACKAGE_BYTES)}", hint="put big data somewhere else")


@dataclass(slots=True)
class _MultipartReader:
    """A form on its way in: its one file in pieces, its texts whole."""

    boundary: bytes
    pieces: list[bytes] = field(default_factory=list[bytes])  # of the file, not written yet
    texts: dict[str, str] = field(default_factory=dict[str, str])
    file_name: str = ""
    parser: Any = field(init=False)
    _header: bytes = b""
    _value: bytes = b""
    _disposition: bytes = b""
    _field: str = ""
    _text: bytes = b""
    _is_file: bool = False
    _overhead: int = 0  # bytes that are not its file's

    def __post_init__(self) -> None:
        self.parser = python_multipart.MultipartParser(
            self.boundary,
            {
                "on_part_begin": self._on_part_begin,
                "on_header_field": self._on_header,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_end,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
            },
        )

    def _on_part_begin(self) -> None:
        self._disposition = self._text = b""

    def _on_header(self, data: bytes, start: int, end: int) -> None:
        self._header += self._count_overhead(data[start:end])

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += self._count_overhead(data[start:end])

    def _count_overhead(self, piece: bytes) -> bytes:
        """What stays in memory, of which there is only so much."""
        self._overhead += len(piece)
        if self._overhead > _MAX_OVERHEAD_BYTES:
            raise CallerError("this form says too much beside its file", code="http.not_a_form")
        return piece

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _on_headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._field = options.get(b"name", b"").decode(errors="replace")
        self._is_file = b"filename" in options
        if self._is_file:
            if self.file_name:
                raise CallerError("this form has more than one file", code="http.not_a_form")
            self.file_name = options[b"filename"].decode(errors="replace")

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.pieces.append(data[start:end])
            return
        self._text += self._count_overhead(data[start:end])

    def _on_part_end(self) -> None:
        if not self._is_file:
            self.texts[self._field] = self._text.decode(errors="replace").strip()
