"""What a manifest says of secrets, held against the rest of it: what would never be asked for, found or given."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.core.printable import printable
from paddock.manifest.capability import Capability, HostService
from paddock.manifest.document import Path
from paddock.manifest.model import CallableSpec, Form
from paddock.manifest.report import Fields, Report


def check_operations(report: Report, fields: Fields, callables: Sequence[CallableSpec]) -> None:
    """Operations that nobody can call, and secrets that only they name beside a list that leaves them out."""
    names = {one.name for one in callables}
    # What is called as a whole says in its parameters which operation runs; a server lists its tools when it is met.
    known = bool(names) and not any(one.form is Form.WHOLE for one in callables)
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


def check_given(report: Report, path: Path, secrets: Sequence[str], asked: Sequence[Capability]) -> None:
    """Secrets that are declared, and that the plugin could never be given."""
    if secrets and HostService("secrets") not in asked:
        report.warn(path, "the plugin is given none of them", "add host:secrets to 'capabilities'", "secrets_not_asked")
