"""Every schema that has a name, as the published description lists them."""

from __future__ import annotations

from paddock.http.schemas import approvals, calls, daemon, knobs, ledger, plugins, problem, versions, webhooks
from paddock.http.schemas.building import Schema

COMPONENTS: dict[str, Schema] = {
    **problem.SCHEMAS,
    **plugins.SCHEMAS,
    **versions.SCHEMAS,
    **knobs.SCHEMAS,
    **calls.SCHEMAS,
    **approvals.SCHEMAS,
    **ledger.SCHEMAS,
    **webhooks.SCHEMAS,
    **daemon.SCHEMAS,
}
