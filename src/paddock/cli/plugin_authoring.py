"""For authors: `check`, `sign`, `validate`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, show_problems, styled
from paddock.core.errors import Problem

if TYPE_CHECKING:
    from paddock.manifest.read import Reading
    from paddock.plugins.sources import SourceKind


def register(app: typer.Typer) -> None:
    app.command(
        "check", epilog="Examples: paddock plugin check ./my-plugin   ·   paddock plugin check plugin.mcpb --show"
    )(check)
    app.command("sign", epilog="Example: paddock plugin sign ./my-plugin --key ~/paddock-signing.pem")(sign)
    app.command(
        "validate",
        epilog="""Example: paddock plugin validate Switchboard#input '{"context":{}, "intent":{"intent_type":"a"}}'""",
    )(validate)


@reporting
def check(
    source: Annotated[
        Path,
        typer.Argument(metavar="DIR|FILE", help="A package directory, a .zip or .mcpb file, or one manifest file."),
    ],
    *,
    show: Annotated[bool, typer.Option("--show", help="Print the manifest in Paddock's own form.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a manifest in any dialect. Every mistake is shown at once, with its path and what would be right."""
    from paddock.core.errors import Invalid

    try:
        reading = _read(source)
    except Invalid as error:
        if as_json:
            document(
                {
                    "valid": False,
                    "file": str(source),
                    "errors": [one.to_dict() for one in error.problems],
                    "warnings": [],
                }
            )
        raise _told(error, as_json) from None
    if as_json:
        document(_reading_value(reading, show=show))
    elif reading.valid:
        _print(reading, show=show)
    if not reading.valid:
        show_problems(reading.warnings, "!", "yellow")
        raise _told(Invalid(_title(reading), reading.errors, code="manifest.invalid"), as_json)


def _told(error: Any, as_json: bool) -> Exception:
    """Exit 6 after saying it; with --json the document has been printed already."""
    from paddock.cli.output import show_error

    if not as_json:
        show_error(error)
    return typer.Exit(6)


def _title(reading: Reading) -> str:
    count = len(reading.errors)
    return f"{reading.file} has {count} mistake{'' if count == 1 else 's'}"


def _read(source: Path) -> Reading:
    """A reading of whatever was named. Packages are staged first, as an install would, so that both say the same."""
    from paddock.core.errors import NotFound
    from paddock.manifest.read import read_file
    from paddock.plugins.sources import ARCHIVE_SUFFIXES, SourceKind

    if source.is_dir():
        return _read_package(source, SourceKind.DIRECTORY)
    if source.suffix.lower() in ARCHIVE_SUFFIXES and source.exists():
        return _read_package(source, SourceKind.ARCHIVE)
    try:
        reading = read_file(source)
        return replace(reading, warnings=_with_odd_words(reading, source.parent))
    except OSError as error:
        raise NotFound(
            f"{source} cannot be read: {error.strerror}",
            code="source.not_found",
            hint="name a directory or a manifest file",
        ) from None


def _with_odd_words(reading: Reading, root: Path) -> tuple[Problem, ...]:
    """The warnings of a reading, and what people would be told of the words when they install it."""
    from paddock.plugins.definitions.flagging.surveying import Survey

    hints = [hint for one in reading.plugins for hint in Survey(one.manifest, root).hints()]
    told = [Problem(f"{hint.name}.{hint.where}", str(hint), "write it otherwise", hint.flag.value) for hint in hints]
    return (*reading.warnings, *told)


def _read_package(source: Path, kind: SourceKind) -> Reading:
    import tempfile
    from contextlib import ExitStack

    from paddock.core.errors import Invalid
    from paddock.manifest.read import read_package
    from paddock.plugins.import_scan import import_problems
    from paddock.plugins.signature import SignatureState, read_signature, signature_state
    from paddock.plugins.sources import Source, SourceKind
    from paddock.plugins.staged_manifest import read_staged
    from paddock.plugins.staging import stage

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paddock-check-")))
        try:
            staged = stack.enter_context(stage(Source(kind, str(source.resolve())), folder))
        except Invalid as unsafe:
            if kind is not SourceKind.DIRECTORY:
                raise
            reading = read_package(source)
            return replace(reading, errors=(*unsafe.problems, *reading.errors))
        reading = read_staged(staged)
        imports = [problem for one in reading.plugins for problem in import_problems(one.manifest, staged.root)]
        reading = replace(reading, errors=(*reading.errors, *imports), warnings=_with_odd_words(reading, staged.root))
        verdict = signature_state(staged.tree.digest, read_signature(staged.root), {})
        if verdict.state is not SignatureState.MODIFIED:
            return reading
        hint = "sign it anew: paddock plugin sign DIR --key FILE"
        return replace(reading, errors=(*reading.errors, Problem("paddock.sig", verdict.reason, hint, "signature")))


def _reading_value(reading: Reading, *, show: bool) -> dict[str, Any]:
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


def _print(reading: Reading, *, show: bool) -> None:
    from paddock.manifest.native_writer import to_yaml

    show_problems(reading.warnings, "!", "yellow")
    for index, one in enumerate(reading.plugins):
        if show:
            if index:
                result("---")
            sys.stdout.write(_harmless(to_yaml(one.manifest)))
        else:
            result(f"{one.manifest.name} {one.manifest.version}: sound ({reading.form} manifest, {reading.file})")


def _harmless(text: str) -> str:
    """YAML in which nothing drives a terminal. Odd texts stand in double quotes, where these are escapes."""
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_escaped, line)) for line in lines)


def _escaped(character: str) -> str:
    return character if character.isprintable() else f"\\U{ord(character):08x}"


@reporting
def sign(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The package directory.", exists=True, file_okay=False)
    ],
    *,
    key: Annotated[Path, typer.Option("--key", help="Your private key, made with 'paddock key new'.")],
    as_json: AsJson = False,
) -> None:
    """Sign a package: writes paddock.sig beside its manifest. Check it first; any later change breaks the signature."""
    from paddock.manifest.read import read_package
    from paddock.plugins.keys import key_id
    from paddock.plugins.signature import sign_tree

    manifest = read_package(directory).single()
    signature = sign_tree(directory, key)
    if as_json:
        document(
            {
                "name": manifest.name,
                "version": manifest.version,
                "digest": signature.digest,
                "key_id": key_id(signature.public_key),
                "public_key": signature.public_key.text,
            }
        )
    say(f"{styled('✓', 'green')} signed {manifest.name} {manifest.version} with key {key_id(signature.public_key)}")
    say(f"  {styled('→', 'dim')} others trust it with: paddock key trust '{signature.public_key.text}'")


@reporting
def validate(
    reference: Annotated[str, typer.Argument(metavar="NAME[@VERSION]#input", help="A schema of an installed plugin.")],
    value: Annotated[str, typer.Argument(metavar="JSON", help="The value to check; '-' reads stdin.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Check a value against a schema of an installed plugin; NAME#TOOL/input where it has several tools."""
    import json

    from paddock.cli.opening import reading
    from paddock.core.errors import Invalid, OperatorError
    from paddock.plugins.definitions.validating import validate_schema

    try:
        parsed = json.loads(sys.stdin.read() if value == "-" else value)
    except (ValueError, RecursionError) as error:
        raise OperatorError(f"that is not JSON: {error}", code="json.malformed") from None
    with reading() as host:
        problems = validate_schema(host.plugins, parsed, reference)
    if problems:
        raise Invalid(f"the value does not fit {reference}", problems, code="value.invalid")
    if as_json:
        document({"valid": True, "reference": reference})
    say(f"{styled('✓', 'green')} it fits {reference}")
