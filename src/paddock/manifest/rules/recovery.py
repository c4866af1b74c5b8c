"""How a plugin declares that the outcome of an effect can be found out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from paddock.manifest.capability import Capability, StorageAccess
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableSpec, Recovery
from paddock.manifest.syntax.fields import Fields, ProblemReport

_READ_ONLY = (Effect.READ_ONLY,)
_DB_WRITE_ONLY = (Effect.DB_WRITE,)


def recovery_text(recovery: Recovery, probe: str) -> str:
    """Describe who finds out the outcome of an interrupted call."""
    match recovery:
        case "atomic":
            return "the host looks into the plugin's tables"
        case "native_key":
            return "the host asks again under the same key"
        case "probe":
            return f"the host asks {probe}"
        case "none":
            return "a person has to look"


def read_recovery(fields: Fields) -> Recovery:
    """Read the declared recovery; the schema reports invalid values."""
    text = fields.text("recovery")
    return next((recovery for recovery in get_args(Recovery) if recovery == text), "none")


def check_atomic(
    report: ProblemReport, pairs: Sequence[tuple[Fields, CallableSpec]], capabilities: Sequence[Capability]
) -> None:
    """Check that atomic callables change only the plugin's own tables: a transaction covers nothing else."""
    for fields, spec in pairs:
        if spec.recovery != "atomic":
            continue
        if spec.effects != _DB_WRITE_ONLY:
            hint = "declare db_write alone, or find out another way"
            report.error(fields.at("recovery"), "is for what changes only the plugin's tables", hint, "wrong_value")
        elif StorageAccess("write") not in capabilities:
            hint = "ask for storage:write among the capabilities"
            report.error(fields.at("recovery"), "needs tables to change", hint, "missing")


def check_probes(report: ProblemReport, pairs: Sequence[tuple[Fields, CallableSpec]]) -> None:
    """Check that each probe is a read-only callable of the same plugin."""
    by_name = {spec.name: spec for _, spec in pairs}
    for fields, spec in pairs:
        path = fields.at("probe") if "probe" in fields else fields.path
        if spec.recovery == "probe" and not spec.probe:
            report.error(path, "needs the name of what looks", "give probe: the name of another callable", "missing")
        elif spec.probe and spec.recovery != "probe":
            report.error(path, "is for a callable whose recovery is probe", "say recovery: probe", "unexpected")
        elif spec.probe and spec.probe not in by_name:
            hint = f"one of {', '.join(sorted(by_name))}"
            report.error(path, f"names {spec.probe!r}, which is no callable of this plugin", hint, "unknown_name")
        elif spec.probe and by_name[spec.probe].effects != _READ_ONLY:
            hint = "declare its effects as read_only"
            report.error(path, f"names {spec.probe!r}, which does not only read", hint, "wrong_value")
