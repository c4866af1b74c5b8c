"""Checks the declared secrets against the rest of a manifest: unknown operations, invalid names, missing permission."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from paddock.core.printable import printable
from paddock.core.secret import SECRET_NAME_RULE, is_config_secret, is_valid_secret_name
from paddock.manifest.capability import Capability, HostService
from paddock.manifest.model import CallableForm, CallableSpec
from paddock.manifest.syntax.document import ValuePath
from paddock.manifest.syntax.fields import MAX_ENTRIES, Fields, ProblemReport


def check_operation_secrets(report: ProblemReport, fields: Fields, callables: Sequence[CallableSpec]) -> None:
    """Warn about unknown operations, and about secrets that are missing from the `secrets` list."""
    names = {one.name for one in callables}
    # A whole-plugin callable selects the operation by parameter, and a server lists its tools at run time.
    operations_known = bool(names) and not any(one.form is CallableForm.WHOLE for one in callables)
    callable_names = f"it has: {printable(', '.join(sorted(names)), 400)}"
    listed = set(fields.texts("secrets"))
    for operation, auth in fields.named("operation_auth"):
        path = fields.at("operation_auth", operation)
        if operations_known and operation not in names:
            report.warn(path, "is no callable of this plugin", callable_names, "unknown_operation")
        for secret in auth.text_map("secrets") if listed else ():
            if secret not in listed:
                hint = "name it there too, or was another meant?"
                report.warn((*path, "secrets", secret), "is not listed under 'secrets'", hint, "unlisted_secret")


def check_secret_names(report: ProblemReport, fields: Fields, operations: str) -> None:
    """Report invalid secret names, and names reserved for keys of plugin configurations.

    Args:
        report: Collects the mistakes.
        fields: The document.
        operations: The document's field for operations and their secrets.
    """
    named = [(fields.at("secrets", index), name) for index, name in fields.numbered_texts("secrets")]
    for _, auth in fields.named(operations):
        own = auth.within("secrets")
        named.extend((own.at(name), name) for name in islice(own.value, MAX_ENTRIES))
    for path, name in named:
        if not is_valid_secret_name(name):
            report.error(
                path, f"no secret can be called {printable(name, 80)!r}", f"use {SECRET_NAME_RULE}", "secret_name"
            )
        elif is_config_secret(name):
            message = "is the name of a key that a plugin is configured with, and no plugin is given it by name"
            report.error(
                path, message, "take its own from its configuration, or call the secret otherwise", "secret_name"
            )


def check_obtainable(
    report: ProblemReport, path: ValuePath, secrets: Sequence[str], capabilities: Sequence[Capability]
) -> None:
    """Warn about declared secrets that the plugin could never obtain."""
    if secrets and HostService("secrets") not in capabilities:
        report.warn(path, "the plugin is given none of them", "add host:secrets to 'capabilities'", "secrets_not_asked")
