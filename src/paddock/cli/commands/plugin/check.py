"""`paddock plugin check`, `sign` and `validate`, for authors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, print_problems, print_result, styled
from paddock.cli.output.yaml_text import escape_yaml
from paddock.cli.registry_options import argument_option, constraint_option, variable_option
from paddock.core.errors import Problem
from paddock.core.printable import count_text

if TYPE_CHECKING:
    from paddock.core.errors import PaddockError
    from paddock.manifest.model import Manifest
    from paddock.manifest.read import ManifestResult
    from paddock.plugins.package.source import SourceKind


@command(
    "check",
    examples=[
        "paddock plugin check ./my-plugin",
        "paddock plugin check plugin.mcpb --show",
        "paddock plugin check ./server.py",
    ],
)
@click.argument(
    "source",
    type=click.Path(path_type=Path),
    metavar="DIR|FILE",
    help="A package directory, a .zip or .mcpb file, one manifest file, or an MCP server in one file.",
)
@click.option("--show", is_flag=True, help="Print the manifest in Paddock's native form.")
@constraint_option
@argument_option
@variable_option
@options.as_json
def check(
    source: Path, *, show: bool, held: tuple[str, ...], arg: tuple[str, ...], env: tuple[str, ...], as_json: bool
) -> None:
    """Validate a manifest in any dialect. All mistakes are reported at once, each with its path and a correction.

    The tools of a native manifest are also compared with its program, which runs in a cage with nothing granted.

    An MCP server in one file is tried there too, and what an installation would propose is shown: its tools, the grants
    that it needs, and with --show the manifest. Nothing is installed.
    """
    from paddock.cli.commands.plugin.check_server import check_server_file, is_server_file
    from paddock.core.errors import Invalid

    server_options = {"constraints": [*held], "args": [*arg], "env": [*env]}
    if is_server_file(source):
        check_server_file(source, server_options, show=show, as_json=as_json)
        return
    if any(server_options.values()):
        raise click.UsageError("--with, --arg and --env are for an MCP server in one file")

    try:
        result = read_source(source)
    except Invalid as error:
        if as_json:
            print_json(
                {
                    "valid": False,
                    "file": str(source),
                    "errors": [problem.to_dict() for problem in error.problems],
                    "warnings": [],
                }
            )
        raise _exit_with_error(error, as_json) from None
    if as_json:
        print_json(_result_json(result, show=show))
    elif result.valid:
        _print_manifest_result(result, show=show)
    if not result.valid:
        print_problems(result.warnings, "!", "yellow")
        raise _exit_with_error(Invalid(_plugin_title(result), result.errors, code="manifest.invalid"), as_json)


def _exit_with_error(error: Any, as_json: bool) -> Exception:
    """Print the error and return exit 6; with --json the document has been printed already."""
    from paddock.cli.output.report import print_error

    if not as_json:
        print_error(error)
    return click.exceptions.Exit(6)


def _plugin_title(result: ManifestResult) -> str:
    return f"{result.file} has {count_text(len(result.errors), 'mistake')}"


def read_source(source: Path) -> ManifestResult:
    """Read a manifest from any source. Packages are staged as for an install, so that both give the same result."""
    from paddock.core.errors import NotFound
    from paddock.manifest.read import read_file
    from paddock.plugins.package.source import ARCHIVE_SUFFIXES, SourceKind

    if source.is_dir():
        return _read_package(source, SourceKind.DIRECTORY)
    if source.suffix.lower() in ARCHIVE_SUFFIXES and source.exists():
        return _read_package(source, SourceKind.ARCHIVE)
    try:
        result = read_file(source)
        return replace(result, warnings=_add_suspicious_text_warnings(result, source.parent))
    except OSError as error:
        raise NotFound(
            f"{source} cannot be read: {error.strerror}",
            code="source.not_found",
            hint="name a directory or a manifest file",
        ) from None


def _add_suspicious_text_warnings(result: ManifestResult, root: Path) -> tuple[Problem, ...]:
    """Return the result's warnings, with the suspicious text that people see when they install it."""
    from paddock.plugins.tool_pinning.scan.scan import PluginScan

    hints = [hint for plugin in result.plugins for hint in PluginScan(plugin.manifest, root).find_all()]
    warnings = [
        Problem(f"{hint.name}.{hint.where}", str(hint), "write it otherwise, or declare what it does", hint.flag.value)
        for hint in hints
    ]
    return (*result.warnings, *warnings)


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
            result = read_package(source)
            return replace(result, errors=(*unsafe.problems, *result.errors))
        result = read_staged_manifest(staged)
        imports = [problem for plugin in result.plugins for problem in import_problems(plugin.manifest, staged.root)]
        result = replace(
            result, errors=(*result.errors, *imports), warnings=_add_suspicious_text_warnings(result, staged.root)
        )
        if result.valid and len(result.plugins) == 1:
            result = _compare_with_program(result, staged.root, source)
        verdict = verify_signature(staged.tree.digest, read_signature(staged.root), {})
        if verdict.state is not SignatureState.MODIFIED:
            return result
        hint = "sign it anew: paddock plugin sign DIR --key FILE"
        return replace(result, errors=(*result.errors, Problem("paddock.sig", verdict.reason, hint, "signature")))


def _compare_with_program(result: ManifestResult, root: Path, source: Path) -> ManifestResult:
    """Add where the manifest and the program differ, or that the program does not start.

    That is a warning only if this machine or the cage, in which nothing is granted, may be the reason.
    """
    from paddock.authoring.declarations.describe import may_describe_itself
    from paddock.core.errors import Invalid, PaddockError

    manifest = result.plugins[0].manifest
    if not may_describe_itself(manifest):
        return result
    from paddock.authoring.declarations.sync import compare_folder
    from paddock.cli.client.event_loop import run_async

    try:
        comparison = run_async(compare_folder(root, manifest, source))
    except Invalid as error:
        if error.error_code == "sync.not_describable":
            return replace(result, errors=(*result.errors, *error.problems))
        unknown = [problem for problem in error.problems if problem not in result.warnings]
        return replace(result, warnings=(*result.warnings, *unknown))
    except PaddockError as error:
        if _fails_by_itself(manifest, error):
            problem = Problem("runtime", error.message, error.hint, "check.not_started", action=error.action)
            return replace(result, errors=(*result.errors, problem))
        hint = error.hint or "what its manifest requests is not granted here; paddock plugin test runs it with that"
        message = f"not compared with the program: {error.message}"
        warning = Problem("tools", message, hint, "sync.not_run", action=error.action)
        return replace(result, warnings=(*result.warnings, warning))
    return result if comparison is None else replace(result, errors=(*result.errors, *comparison.problems))


def _fails_by_itself(manifest: Manifest, error: PaddockError) -> bool:
    """Whether a program failed without any fault of this machine and without missing a capability that it requests."""
    from paddock.cage.errors import CageUnavailable
    from paddock.core.errors import PluginError
    from paddock.manifest.network import NoNetwork

    complete = all(isinstance(one, NoNetwork) for one in manifest.capabilities)
    return complete and isinstance(error, PluginError) and not isinstance(error, CageUnavailable)


def _result_json(result: ManifestResult, *, show: bool) -> dict[str, Any]:
    from paddock.manifest.native_writer import to_document

    value: dict[str, Any] = {
        "valid": result.valid,
        "file": result.file,
        "dialect": result.form,
        "plugins": [{"name": plugin.manifest.name, "version": plugin.manifest.version} for plugin in result.plugins]
        if result.valid
        else [],
        "errors": [problem.to_dict() for problem in result.errors],
        "warnings": [problem.to_dict() for problem in result.warnings],
    }
    if show and result.valid:
        value["manifests"] = [to_document(plugin.manifest) for plugin in result.plugins]
    return value


def _print_manifest_result(result: ManifestResult, *, show: bool) -> None:
    from paddock.manifest.native_writer import to_yaml

    print_problems(result.warnings, "!", "yellow")
    for index, plugin in enumerate(result.plugins):
        if show:
            if index:
                print_result("---")
            sys.stdout.write(escape_yaml(to_yaml(plugin.manifest)))
        else:
            print_result(
                f"{plugin.manifest.name} {plugin.manifest.version}: sound ({result.form} manifest, {result.file})"
            )


@command("sign", examples=["paddock plugin sign ./my-plugin --key ~/paddock-signing.pem"])
@click.argument(
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The package directory.",
)
@click.option(
    "--key", type=click.Path(path_type=Path), required=True, help="Your private key, created with `paddock key add`."
)
@options.as_json
def sign(directory: Path, *, key: Path, as_json: bool) -> None:
    """Sign a package: write paddock.sig next to its manifest. Any later change of the package breaks the signature."""
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


@command(
    "validate",
    examples=["""paddock plugin validate Switchboard#input '{"context":{}, "intent":{"intent_type":"a"}}'"""],
)
@click.argument("reference", metavar="NAME[@VERSION]#input", help="The schema of an installed plugin.")
@click.argument("value", metavar="JSON", help="The value to validate; - reads stdin.")
@options.as_json
def validate(reference: str, value: str, *, as_json: bool) -> None:
    """Validate a value against a schema of an installed plugin. NAME#TOOL/input selects one of several tools."""
    import json

    from paddock.cli.client.local_store import open_for_read
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
