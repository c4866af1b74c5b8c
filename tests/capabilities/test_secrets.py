"""A plugin is given the secrets that it declares, of whoever it works for, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.capabilities.request import CapabilityRequest
from paddock.core.call import CallContext, Principal
from paddock.core.clock import SystemRandom
from paddock.core.errors import CallerError
from paddock.core.events.capabilities import PluginCapabilityDenied
from paddock.core.events.secrets import SecretUsed
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, RequestId, Tenant
from paddock.core.secret import Secret
from paddock.manifest.model import OperationAuth
from paddock.secrets.requirements import SecretScope, lookup_order
from paddock.secrets.vault import Vault, store_secret
from paddock.secrets.wrapping_keys import build_wrapping_keys
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction, open_direct

from .stage import Kept, Stage, open_stage, plugin

ANN, BOB = PrincipalId("user:ann"), PrincipalId("user:bob")
NOTHING = {"value": None, "found": False}


def given(value: str) -> dict[str, Any]:
    return {"value": value, "found": True}


def asking(
    *names: str,
    by: PrincipalId | None = ANN,
    owner: PrincipalId | None = None,
    auth: tuple[OperationAuth, ...] = (),
    operation: str | None = None,
    granted: tuple[str, ...] = ("host:secrets",),
    request: str = "req_1",
) -> CapabilityRequest:
    """A plugin that declares these secrets and asks in a call of somebody."""
    asks = plugin("mailer", granted)
    call = None if by is None else CallContext(Principal(by, owner=owner), RequestId(request))
    manifest = replace(asks.manifest, secrets=names, operation_auth=auth)
    return replace(asks, manifest=manifest, call=call, operation=operation)


def keep(stage: Stage, directory: Path, name: str, value: str, owner: str = "") -> None:
    """Set a secret as a command beside the daemon does."""

    def deed(tx: Transaction) -> AuditedTransaction:
        return AuditedTransaction(tx, DEFAULT_TENANT, PrincipalId("local:ada"), "2026-03-01", Kept([], stage.news))

    keys = build_wrapping_keys({}, directory / "state", SystemRandom(), preferred="file")
    with open_direct(directory / "store.db") as database:
        store_secret(database, keys, SystemRandom(), deed, name, owner, Secret(value))


@pytest.mark.req("S-09", "secrets")
@pytest.mark.req("S-12", "the user's first")
async def test_a_persons_own_comes_first_and_everybodys_where_they_have_none(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        keep(stage, tmp_path, "api_key", "of-all")
        keep(stage, tmp_path, "api_key", "of-ann", ANN)
        assert await stage.ask(asking("api_key"), "secrets.get", name="api_key") == given("of-ann")
        assert await stage.ask(asking("api_key", by=BOB), "secrets.get", name="api_key") == given("of-all")
        assert await stage.ask(asking("api_key", by=None), "secrets.get", name="api_key") == given("of-all")
        key_of_ann = asking("api_key", by=PrincipalId("key:abc"), owner=ANN)
        assert await stage.ask(key_of_ann, "secrets.get", name="api_key") == given("of-ann")


@pytest.mark.req("S-12", "the system's only where declared")
@pytest.mark.parametrize(
    ("scope", "of_ann", "of_nobody"),
    [
        ("user", given("of-ann"), NOTHING),
        ("system", given("of-all"), given("of-all")),
        ("system_or_user", given("of-ann"), given("of-all")),
        ("whoever", NOTHING, NOTHING),
    ],
)
async def test_the_declared_scope_says_whose_it_may_be(
    tmp_path: Path, scope: str, of_ann: dict[str, Any], of_nobody: dict[str, Any]
) -> None:
    auth = (OperationAuth("send", secrets={"api_key": scope}),)
    async with open_stage(tmp_path) as stage:
        keep(stage, tmp_path, "api_key", "of-all")
        keep(stage, tmp_path, "api_key", "of-ann", ANN)
        for operation in ("send", None):
            asks = asking("api_key", auth=auth, operation=operation)
            assert await stage.ask(asks, "secrets.get", name="api_key") == of_ann
        assert await stage.ask(asking("api_key", by=None, auth=auth), "secrets.get", name="api_key") == of_nobody


async def test_where_operations_differ_an_unknown_one_gets_only_what_all_allow(tmp_path: Path) -> None:
    auth = (
        OperationAuth("send", secrets={"api_key": "system_or_user"}),
        OperationAuth("read", secrets={"api_key": "user"}),
    )
    async with open_stage(tmp_path) as stage:
        keep(stage, tmp_path, "api_key", "of-all")
        unknown, sends = asking("api_key", auth=auth), asking("api_key", auth=auth, operation="send")
        assert await stage.ask(unknown, "secrets.get", name="api_key") == NOTHING
        assert await stage.ask(sends, "secrets.get", name="api_key") == given("of-all")


@pytest.mark.req("S-12", "undeclared names")
async def test_an_undeclared_name_is_denied_and_recorded_whether_or_not_it_is_set(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        keep(stage, tmp_path, "other", "hunter2")
        for name in ("other", "nowhere"):
            error = await stage.refused(asking("api_key"), "secrets.get", name=name)
            assert error.error_code == "capability_denied"
            assert "hunter2" not in f"{error} {error.details}"
        denied = stage.recorded(PluginCapabilityDenied)
        assert [(one.name, one.method, one.request_id) for one in denied] == [("mailer", "secrets.get", "req_1")] * 2
        assert stage.recorded(SecretUsed) == []


async def test_a_key_that_a_plugin_is_configured_with_is_given_to_nobody_who_declares_its_name(tmp_path: Path) -> None:
    name = "plugin/weather/API_KEY"
    async with open_stage(tmp_path) as stage:
        keep(stage, tmp_path, name, "hunter2")
        error = await stage.refused(asking(name), "secrets.get", name=name)
        assert error.error_code == "capability_denied" and stage.recorded(SecretUsed) == []


async def test_a_plugin_is_not_told_where_the_key_should_be_that_opens_its_secret(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        keep(stage, tmp_path, "api_key", "hunter2")
        (tmp_path / "state" / "keys" / "secrets").rename(tmp_path / "away")
        error = await stage.refused(asking("api_key"), "secrets.get", name="api_key")
        assert error.error_code == "secret.key_missing"
        assert str(tmp_path) not in f"{error.message} {error.hint} {error.details}"


async def test_it_takes_a_grant_besides_the_declaration(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        keep(stage, tmp_path, "api_key", "hunter2")
        error = await stage.refused(asking("api_key", granted=()), "secrets.get", name="api_key")
        assert error.error_code == "capability_denied"


@pytest.mark.req("B-22", "secrets")
async def test_another_tenant_has_none_of_these(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        keep(stage, tmp_path, "api_key", "hunter2")
        theirs = replace(asking("api_key"), tenant=Tenant("acme"))
        assert await stage.ask(theirs, "secrets.get", name="api_key") == NOTHING


async def test_each_use_is_recorded_once_for_a_call_and_never_with_the_value(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        keep(stage, tmp_path, "api_key", "hunter2", ANN)
        for request in ("req_1", "req_1", "req_2"):
            await stage.ask(asking("api_key", request=request), "secrets.get", name="api_key")
        used = stage.recorded(SecretUsed)
        assert [(one.plugin, one.secret, one.scope, one.request_id, one.owner) for one in used] == [
            ("mailer", "api_key", "user", "req_1", ANN),
            ("mailer", "api_key", "user", "req_2", ANN),
        ]
        assert "hunter2" not in repr(stage.events)


async def test_what_a_plugin_is_given_for_no_call_is_recorded_each_second_and_not_only_once(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        keep(stage, tmp_path, "api_key", "hunter2")
        alone = replace(asking("api_key"), call=None)
        counts: list[int] = []
        for seconds in (0.0, 0.5, 0.5, 3600.0):
            stage.clock.seconds += seconds
            await stage.ask(alone, "secrets.get", name="api_key")
            counts.append(len(stage.recorded(SecretUsed)))
        assert counts == [1, 1, 2, 3]
        assert {(one.request_id, one.call_id) for one in stage.recorded(SecretUsed)} == {(None, None)}


async def test_every_missing_secret_of_an_operation_is_named_before_it_runs(tmp_path: Path) -> None:
    auth = (OperationAuth("send", secrets={"api_key": "system_or_user", "token": "user", "shared": "system"}),)
    manifest = asking("api_key", "token", "shared", auth=auth).manifest
    async with open_stage(tmp_path) as stage:
        vault = Vault(stage.database, build_wrapping_keys({}, tmp_path / "state", SystemRandom()))
        keep(stage, tmp_path, "token", "not hers")  # of everybody, and hers is asked for
        keep(stage, tmp_path, "shared", "hers", ANN)  # and the other way round
        with pytest.raises(CallerError) as refused:
            await vault.require(DEFAULT_TENANT, ANN, manifest, "send")
        assert (refused.value.error_code, refused.value.details["missing"]) == (
            "missing_secrets",
            ["api_key", "shared", "token"],
        )
        keep(stage, tmp_path, "api_key", "one")
        keep(stage, tmp_path, "token", "two", ANN)
        keep(stage, tmp_path, "shared", "three")
        await vault.require(DEFAULT_TENANT, ANN, manifest, "send")
        await vault.require(DEFAULT_TENANT, None, manifest, "another operation")


def test_an_operation_that_does_not_name_a_secret_gets_no_more_of_it_than_those_that_do() -> None:
    auth = (OperationAuth("send", secrets={"token": "user"}), OperationAuth("status", secrets={}))
    manifest = asking("token", "free", auth=auth).manifest
    for operation in ("send", "status", None):
        assert lookup_order(manifest, "token", operation) == (SecretScope.USER,)
    assert lookup_order(manifest, "free", "status") == (SecretScope.USER, SecretScope.SYSTEM)
