"""What a manifest says of secrets, held against the rest of it: what would never be asked for, found or given."""

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
    """Operations that nobody can call, and secrets that only they name beside a list that leaves them out."""
    names = {one.name for one in callables}
    # What is called as a whole says in its parameters which operation runs; a server lists its tools when it is met.
    known = bool(names) and not any(one.form is CallableForm.WHOLE for one in callables)
    callable_names = f"it has: {printable(', '.join(sorted(names)), 400)}"
    listed = set(fields.texts("secrets"))
    for operation, auth in fields.named("operation_auth"):
        path = fields.at("operation_auth", operation)
        if known and operation not in names:
            report.warn(path, "is no callable of this plugin", callable_names, "unknown_operation")
        for secret in auth.text_map("secrets") if listed else ():
            if secret not in listed:
                hint = "name it there too, or was another meant?"
                report.warn((*path, "secrets", secret), "is not listed under 'secrets'", hint, "unlisted_secret")


def check_secret_names(report: ProblemReport, fields: Fields, operations: str) -> None:
    """Names that no secret has, and names of keys that plugins are configured with.

    Args:
        report: Told of them.
        fields: The document.
        operations: What it calls the operations and their secrets.
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
    report: ProblemReport, path: ValuePath, secrets: Sequence[str], asked: Sequence[Capability]
) -> None:
    """Secrets that are declared, and that the plugin could never be given."""
    if secrets and HostService("secrets") not in asked:
        report.warn(path, "the plugin is given none of them", "add host:secrets to 'capabilities'", "secrets_not_asked")
