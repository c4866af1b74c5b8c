"""Who makes a call: the person at the machine, a program, or somebody by name with what they may do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.packages import write_file, write_json
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from paddock import Config, open_host
from paddock.core.call import Principal
from paddock.core.errors import Denied, NotFound
from paddock.core.ids import PrincipalId, RequestId, Tenant
from paddock.host.identity.caller import build_call_context, local_principal
from paddock.plugins.manage.enable import enable
from paddock.principals.people import add_person
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction

CODE = """
class Plugin:
    def requires_permission(self):
        return "notes.read"

    def execute(self, params, context, host):
        return {"status": "success", "data": {"user": context["user_id"], "may": context["permissions"]}}
"""


def ours(folder: Path) -> Path:
    about = {"name": "ours", "version": "1.0.0", "entrypoints": {"ours": "ours.plugin:Plugin"}}
    write_json(folder / "manifest.yaml", about)
    write_file(folder / "ours" / "__init__.py", "")
    write_file(folder / "ours" / "plugin.py", CODE)
    return folder


class Quiet:
    """Nobody reads the record here."""

    def publish(self, event: object) -> None: ...


def add(tx: Transaction, name: str, *scopes: str) -> None:
    change = AuditedTransaction(tx, Tenant("default"), PrincipalId("local:ada"), "2026-03-01T12:00:00+00:00", Quiet())
    add_person(change, name, scopes=scopes)


async def test_a_program_calls_as_somebody_with_exactly_what_they_may_do(home: Home, tmp_path: Path) -> None:
    home.take(ours(tmp_path / "ours"))
    home.changing(lambda plugins: enable(plugins, "ours"))
    home.changing(lambda plugins: plugins.database.write(lambda tx: add(tx, "ann", "notes.read", "email:send")))
    home.changing(lambda plugins: plugins.database.write(lambda tx: add(tx, "bob")))
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        ann, bob = await host.principal("user:ann"), await host.principal("user:bob")

        answer = await patiently(host.call("ours", {}, principal=ann))
        with pytest.raises(Denied) as denied:
            await patiently(host.call("ours", {}, principal=bob))
        with pytest.raises(NotFound):
            await host.principal("user:nobody")

    assert answer["data"] == {"user": "user:ann", "may": ["email:send", "notes.read"]}
    assert denied.value.error_code == "permission_denied"


def test_a_call_is_made_in_the_tenant_of_whoever_makes_it() -> None:
    zoe = Principal(PrincipalId("user:zoe"), tenant=Tenant("acme"))
    assert build_call_context(zoe, RequestId("req_1"), "ada").tenant == "acme"
    assert build_call_context(local_principal("ada", Tenant("acme")), RequestId("req_1"), "ada").tenant == "acme"


def test_a_login_is_a_human_who_can_answer_and_a_program_or_a_name_is_not() -> None:
    assert (local_principal("ada").interactive, local_principal("ada").id) == (True, "local:ada")
    assert (local_principal(None).interactive, local_principal(None).roles) == (False, {"operator"})
    named = build_call_context(Principal(PrincipalId("user:ann")), RequestId("req_1"), "ada")
    assert (named.principal.interactive, named.operator) == (False, "ada")
