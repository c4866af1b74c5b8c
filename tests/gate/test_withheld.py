"""Tools that are kept from use are known by name and never called."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.core.action import Action
from paddock.core.errors import Conflict, Denied, NotFound, PluginError
from paddock.core.ids import DEFAULT_TENANT, Digest, PluginName, Tenant
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.catalogue.entry import CallableSchemas, CatalogueEntry
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableForm, CallableSpec, CommandRuntime, Dialect, Manifest, RemoteRuntime
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.tool_pinning.normalize import DefinitionStatus
from paddock.plugins.tool_pinning.offer import WithheldDefinition, offer_tools
from paddock.plugins.tool_pinning.rows import DefinitionRow
from paddock.runtime.deployment import InstanceKey


def server(name: str = "files", *declared: CallableSpec) -> Manifest:
    return Manifest(
        PluginName(name), "1.0.0", Dialect.MCP, runtime=CommandRuntime(("server",), "mcp"), callables=declared
    )


def entry(manifest: Manifest, **fields: Any) -> CatalogueEntry:
    key = InstanceKey(Tenant("acme"), manifest.name, Digest("sha256:1"))
    return CatalogueEntry(
        key, manifest, {spec.name: CallableSchemas({}, {}) for spec in manifest.callables}, dynamic=True, **fields
    )


def row(name: str, standing: DefinitionStatus, reason: str = "", repair: str = "") -> DefinitionRow:
    return DefinitionRow(
        PluginName("files"), "tool", name, standing, reason, repair, "sha256:1", None, "now", "now", "first use", "now"
    )


def read(raw: Any) -> CallableSpec:
    """Stands where a server's tool is made a callable."""
    return CallableSpec(raw["name"], CallableForm.TOOL, raw["description"], input_schema=raw["inputSchema"])


QUARANTINED = WithheldDefinition(DefinitionStatus.QUARANTINED, "it changed since it was accepted")


def test_a_quarantined_tool_is_found_by_every_name_it_has_and_says_what_to_type() -> None:
    catalogue = Catalogue([entry(server(), withheld={"read": QUARANTINED}, aliases=("f",))])

    for found in (catalogue.find("files.read"), catalogue.find("f.read"), catalogue.find_callable("files", "read")):
        assert found.withheld is not None
        refusal = found.withheld.unavailable_error("files", "read", found.key.tenant)
        assert isinstance(refusal, Denied)
        assert (refusal.error_code, refusal.details["tool"]) == ("tool.quarantined", "read")
        assert "it changed since it was accepted" in refusal.message
        assert refusal.action == Action.of("plugin.accept", plugin="files", name="read", tenant="acme")
    assert catalogue.names() == ()


def test_a_bad_tool_says_what_would_mend_it_and_a_gone_one_that_it_is_gone() -> None:
    bad = WithheldDefinition(DefinitionStatus.BAD, "its inputSchema is no object", "fix the schema").unavailable_error(
        "files", "read", DEFAULT_TENANT
    )
    gone = WithheldDefinition(DefinitionStatus.GONE, "the server lists it no more").unavailable_error(
        "files", "read", DEFAULT_TENANT
    )

    assert isinstance(bad, PluginError) and (bad.error_code, bad.hint) == ("tool.bad", "fix the schema")
    assert isinstance(gone, NotFound) and gone.error_code == "tool.gone"


def test_any_tool_of_a_server_that_nobody_has_met_can_be_asked_for_and_is_looked_up_again() -> None:
    unmet = Catalogue([entry(server(), discovered=False, aliases=("f",))])
    asked = unmet.find("files.read.all")
    assert (asked.spec.name, asked.discovered, asked.dynamic) == ("read.all", False, True)
    assert unmet.find("f.read").key.plugin == unmet.find_callable("files", "read").key.plugin == "files"

    met = Catalogue([entry(server("files", CallableSpec("read.all", CallableForm.TOOL)))])
    assert met.refresh(asked).discovered
    with pytest.raises(NotFound):
        met.refresh(unmet.find("files.write"))
    with pytest.raises(NotFound) as gone:
        Catalogue().refresh(asked)
    assert gone.value.error_code == "plugin.not_enabled"


def test_what_a_server_does_not_list_is_not_called_even_if_its_manifest_declares_it() -> None:
    declared = server("files", CallableSpec("read", CallableForm.TOOL))
    listed_nothing = Catalogue([entry(declared, discovered=False)])  # it was met, and there is nothing on record

    with pytest.raises(NotFound):
        listed_nothing.refresh(listed_nothing.find("files.read"))


def test_two_servers_that_nobody_has_met_and_that_both_may_own_a_name_get_no_call() -> None:
    catalogue = Catalogue([entry(server("files"), discovered=False), entry(server("files.local"), discovered=False)])

    with pytest.raises(Conflict):
        catalogue.find("files.local.read")
    assert catalogue.find("files.read").key.plugin == "files"


def test_the_servers_words_are_overlaid_with_what_the_manifest_decides() -> None:
    declared = CallableSpec(
        "read",
        CallableForm.TOOL,
        "as the manifest has it",
        effects=(Effect.READ_ONLY,),
        required_scopes=("files",),
        policy_tags=("quiet",),
        requires_approval=True,
        timeout_sec=7,
    )
    text = '{"name": "read", "description": "as the server has it", "inputSchema": {"type": "object"}}'
    rows = [row("read", DefinitionStatus.ACCEPTED), row("write", DefinitionStatus.QUARANTINED, "it is new")]

    offered = offer_tools(server("files", declared), rows, {"read": text}, read)

    (spec,) = offered.callables
    assert (spec.description, spec.input_schema) == ("as the server has it", {"type": "object"})
    assert (spec.effects, spec.timeout_sec, spec.requires_approval) == ((Effect.READ_ONLY,), 7, True)
    assert (spec.required_scopes, spec.policy_tags) == (("files",), ("quiet",))
    assert offered.withheld == {"write": WithheldDefinition(DefinitionStatus.QUARANTINED, "it is new")}


def test_only_mcp_servers_here_or_elsewhere_list_their_tools_themselves() -> None:
    native = Manifest(PluginName("x"), "1.0.0", Dialect.NATIVE, runtime=CommandRuntime(("x",)))
    remote = Manifest(PluginName("x"), "1.0.0", Dialect.MCP, runtime=RemoteRuntime("https://example.org/mcp"))

    assert [is_mcp_server(one) for one in (server(), remote, native)] == [True, True, False]
