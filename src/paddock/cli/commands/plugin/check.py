"""For authors: `check`, `sign`, `validate`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output.report import (
    JsonOption,
    handle_errors,
    print_json,
    print_message,
    print_problems,
    print_result,
    styled,
)
from paddock.core.errors import Problem

if TYPE_CHECKING:
    from paddock.manifest.read import ManifestResult
    from paddock.plugins.package.source import SourceKind


def register(app: typer.Typer) -> None:
    app.command(
        "check", epilog="Examples: paddock plugin check ./my-plugin   ·   paddock plugin check plugin.mcpb --show"
    )(check)
    app.command("sign", epilog="Example: paddock plugin sign ./my-plugin --key ~/paddock-signing.pem")(sign)
    app.command(
        "validate",
        epilog="""Example: paddock plugin validate Switchboard#input '{"context":{}, "intent":{"intent_type":"a"}}'""",
    )(validate)


@handle_errors
def check(
    source: Annotated[
        Path,
        typer.Argument(metavar="DIR|FILE", help="A package directory, a .zip or .mcpb file, or one manifest file."),
    ],
    *,
    show: Annotated[bool, typer.Option("--show", help="Print the manifest in Paddock's own form.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a manifest in any dialect. Every mistake is shown at once, with its path and what would be right."""
    from paddock.core.errors import Invalid

    try:
        reading = _read_source(source)
    except Invalid as error:
        if as_json:
            print_json(
                {
                    "valid": False,
                    "file": str(source),
                    "errors": [one.to_dict() for one in error.problems],
                    "warnings": [],
                }
            )
        raise _exit_with_error(error, as_json) from None
    if as_json:
        print_json(_reading_json(reading, show=show))
    elif reading.valid:
        _print_reading(reading, show=show)
    if not reading.valid:
        print_problems(reading.warnings, "!", "yellow")
        raise _exit_with_error(Invalid(_plugin_title(reading), reading.errors, code="manifest.invalid"), as_json)


def _exit_with_error(error: Any, as_json: bool) -> Exception:
    """Exit 6 after saying it; with --json the document has been printed already."""
    from paddock.cli.output.report import print_error

    if not as_json:
        print_error(error)
    return typer.Exit(6)


def _plugin_title(reading: ManifestResult) -> str:
    count = len(reading.errors)
    return f"{reading.file} has {count} mistake{'' if count == 1 else 's'}"


def _read_source(source: Path) -> ManifestResult:
    """A reading of whatever was named. Packages are staged first, as an install would, so that both say the same."""
    from paddock.core.errors import NotFound
    from paddock.manifest.read import read_file
    from paddock.plugins.package.source import ARCHIVE_SUFFIXES, SourceKind

    if source.is_dir():
        return _read_package(source, SourceKind.DIRECTORY)
    if source.suffix.lower() in ARCHIVE_SUFFIXES and source.exists():
        return _read_package(source, SourceKind.ARCHIVE)
    try:
        reading = read_file(source)
        return replace(reading, warnings=_add_suspicious_text_warnings(reading, source.parent))
    except OSError as error:
        raise NotFound(
            f"{source} cannot be read: {error.strerror}",
            code="source.not_found",
            hint="name a directory or a manifest file",
        ) from None


def _add_suspicious_text_warnings(reading: ManifestResult, root: Path) -> tuple[Problem, ...]:
    """The warnings of a reading, and what people would be told of the words when they install it."""
    from paddock.plugins.tool_pinning.scan.scan import PluginScan

    hints = [hint for one in reading.plugins for hint in PluginScan(one.manifest, root).find_all()]
    told = [Problem(f"{hint.name}.{hint.where}", str(hint), "write it otherwise", hint.flag.value) for hint in hints]
    return (*reading.warnings, *told)


def _read_package(source: Path, kind: SourceKind) -> ManifestResult:
    import tempfile
    from contextlib import ExitStack

    from paddock.core.errors import Invalid
    from paddock.manifest.read import read_package
    from paddock.plugins.package.checks import import_problems, read_staged_manifest
    from paddock.plugins.package.source import PackageSource, SourceKind
    from paddock.plugins.package.stage import stage_package
    from paddock.plugins.trust.signature import SignatureState, read_signature, verify_signature

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paddock-check-")))
        try:
            staged = stack.enter_context(stage_package(PackageSource(kind, str(source.resolve())), folder))
        except Invalid as unsafe:
            if kind is not SourceKind.DIRECTORY:
                raise
            reading = read_package(source)
            return replace(reading, errors=(*unsafe.problems, *reading.errors))
        reading = read_staged_manifest(staged)
        imports = [problem for one in reading.plugins for problem in import_problems(one.manifest, staged.root)]
        reading = replace(
            reading, errors=(*reading.errors, *imports), warnings=_add_suspicious_text_warnings(reading, staged.root)
        )
        verdict = verify_signature(staged.tree.digest, read_signature(staged.root), {})
        if verdict.state is not SignatureState.MODIFIED:
            return reading
        hint = "sign it anew: paddock plugin sign DIR --key FILE"
        return replace(reading, errors=(*reading.errors, Problem("paddock.sig", verdict.reason, hint, "signature")))


def _reading_json(reading: ManifestResult, *, show: bool) -> dict[str, Any]:
    from paddock.manifest.native_writer import to_document

    value: dict[str, Any] = {
        "valid": reading.valid,
        "file": reading.file,
        "dialect": reading.form,
        "plugins": [{"name": one.manifest.name, "version": one.manifest.version} for one in reading.plugins]
        if reading.valid
        else [],
        "errors": [problem.to_dict() for problem in reading.errors],
        "warnings": [problem.to_dict() for problem in reading.warnings],
    }
    if show and reading.valid:
        value["manifests"] = [to_document(one.manifest) for one in reading.plugins]
    return value


def _print_reading(reading: ManifestResult, *, show: bool) -> None:
    from paddock.manifest.native_writer import to_yaml

    print_problems(reading.warnings, "!", "yellow")
    for index, one in enumerate(reading.plugins):
        if show:
            if index:
                print_result("---")
            sys.stdout.write(_escape_yaml(to_yaml(one.manifest)))
        else:
            print_result(f"{one.manifest.name} {one.manifest.version}: sound ({reading.form} manifest, {reading.file})")


def _escape_yaml(text: str) -> str:
    """YAML in which nothing drives a terminal. Odd texts stand in double quotes, where these are escapes."""
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_escape_character, line)) for line in lines)


def _escape_character(character: str) -> str:
    return character if character.isprintable() else f"\\U{ord(character):08x}"


@handle_errors
def sign(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The package directory.", exists=True, file_okay=False)
    ],
    *,
    key: Annotated[Path, typer.Option("--key", help="Your private key, made with 'paddock key new'.")],
    as_json: JsonOption = False,
) -> None:
    """Sign a package: writes paddock.sig beside its manifest. Check it first; any later change breaks the signature."""
    from paddock.manifest.read import read_package
    from paddock.plugins.trust.signature import sign_package
    from paddock.plugins.trust.signing_keys import key_id

    manifest = read_package(directory).single()
    signature = sign_package(directory, key)
    if as_json:
        print_json(
            {
                "name": manifest.name,
                "version": manifest.version,
                "digest": signature.digest,
                "key_id": key_id(signature.public_key),
                "public_key": signature.public_key.text,
            }
        )
    print_message(
        f"{styled('✓', 'green')} signed {manifest.name} {manifest.version} with key {key_id(signature.public_key)}"
    )
    print_message(f"  {styled('→', 'dim')} others trust it with: paddock key trust '{signature.public_key.text}'")


@handle_errors
def validate(
    reference: Annotated[str, typer.Argument(metavar="NAME[@VERSION]#input", help="A schema of an installed plugin.")],
    value: Annotated[str, typer.Argument(metavar="JSON", help="The value to check; '-' reads stdin.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Check a value against a schema of an installed plugin; NAME#TOOL/input where it has several tools."""
    import json

    from paddock.cli.client.one_shot import open_for_read
    from paddock.core.errors import Invalid, OperatorError
    from paddock.plugins.tool_pinning.validate import validate_value

    try:
        parsed = json.loads(sys.stdin.read() if value == "-" else value)
    except (ValueError, RecursionError) as error:
        raise OperatorError(f"that is not JSON: {error}", code="json.malformed") from None
    with open_for_read() as host:
        problems = validate_value(host.plugins, parsed, reference)
    if problems:
        raise Invalid(f"the value does not fit {reference}", problems, code="value.invalid")
    if as_json:
        print_json({"valid": True, "reference": reference})
    print_message(f"{styled('✓', 'green')} it fits {reference}")
