"""Receives an uploaded package: written to disk as it arrives, so that a large one needs no memory."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import Any, Final

import python_multipart
from msgspec import Struct
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import Request

from paddock.core.errors import CallerError, Invalid, Problem
from paddock.core.printable import printable
from paddock.manifest.server_file.server_file import LANGUAGE_SUFFIXES
from paddock.plugins.package.rules import DEFAULT_LIMITS, format_bytes
from paddock.plugins.package.source import ARCHIVE_SUFFIXES, PackageSource, SourceKind
from paddock.plugins.package.upload import UploadedFile
from paddock.web.request_headers import request_headers
from paddock.web.routing.body import BodyTooLarge, body_chunks

MAX_PACKAGE_BYTES: Final = DEFAULT_LIMITS.archive_bytes
_MAX_OVERHEAD_BYTES: Final = 64 * 1024  # of a form, beside its file
_MAX_FILE_NAME_CHARS: Final = 200


class PackageUpload(Struct):
    """An uploaded package with the browser's file name, and the form's other fields."""

    name: str
    file: UploadedFile
    texts: dict[str, str]

    @property
    def source(self) -> PackageSource:
        """The source to install from, while the file exists."""
        kind = SourceKind.SERVER_FILE if self.recorded_as.server_file else SourceKind.ARCHIVE
        return PackageSource(kind, str(self.file.path))

    @property
    def recorded_as(self) -> PackageSource:
        """The source to record."""
        return PackageSource(SourceKind.UPLOAD, self.name)


async def receive_package(
    request: Request, open_file: Callable[[ExitStack], UploadedFile], resources: ExitStack
) -> PackageUpload:
    """Receive the file of a form completely.

    Args:
        request: The request.
        open_file: Creates the file, which is deleted when `resources` is closed.
        resources: Owns the file.

    Raises:
        BodyTooLarge, Invalid: it is too large, or not a package.
        CallerError: it is not such a form.
        HostError: writing fails.
    """
    form = _MultipartReader(_boundary(request))
    file = await asyncio.to_thread(open_file, resources)
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


def _checked_file_name(raw_name: str, size: int) -> str:
    """Return the file name in a form that is safe to show and store.

    Raises:
        Invalid: there is no file, or it is not a package.
    """
    name = printable(PurePosixPath(raw_name.replace("\\", "/")).name, _MAX_FILE_NAME_CHARS)
    message = ""
    if not name:
        message = "Choose a file first"
    elif PurePosixPath(name).suffix.lower() not in ARCHIVE_SUFFIXES | LANGUAGE_SUFFIXES.keys():
        message = f"{name} is not a .zip, .mcpb or .dxt file, nor an MCP server in a .py or .js file"
    elif not size:
        message = f"{name} is empty"
    if message:
        raise Invalid(message, [Problem("package", message)], code="package.not_an_archive")
    return name


def _boundary(request: Request) -> bytes:
    media_type, options = parse_options_header(request_headers(request.scope).text(b"content-type") or "")
    if media_type != b"multipart/form-data" or b"boundary" not in options:
        raise CallerError("this is no form with a file", code="http.not_a_form")
    return options[b"boundary"]


def _package_too_large() -> BodyTooLarge:
    return BodyTooLarge(f"a package may have {format_bytes(MAX_PACKAGE_BYTES)}", hint="put big data somewhere else")


@dataclasses.dataclass(slots=True)
class _MultipartReader:
    """An incremental multipart parser: the one file in chunks, other fields complete."""

    boundary: bytes
    pieces: list[bytes] = dataclasses.field(default_factory=list[bytes])  # chunks of the file, not written yet
    texts: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    file_name: str = ""
    parser: Any = dataclasses.field(init=False)
    _header: bytes = b""
    _value: bytes = b""
    _disposition: bytes = b""
    _field: str = ""
    _text: bytes = b""
    _is_file: bool = False
    _overhead: int = 0  # bytes beside the file

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
        """Count bytes that are held in memory, and limit them."""
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
