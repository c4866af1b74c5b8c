"""Every rule of the behaviour manifest, each broken by itself."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.manifest.documents import OSQR, osqr, read_yaml, sound, the_only_error, warned

from paddock.manifest.capability import NetworkAccess
from paddock.manifest.read import ManifestResult


def plugin(**changes: Any) -> ManifestResult:
    whole = copy.deepcopy(OSQR["plugin"]) | changes
    return osqr(plugin={key: value for key, value in whole.items() if value is not None})


def compliance(**changes: Any) -> ManifestResult:
    whole = copy.deepcopy(OSQR["constitutional_compliance"]) | changes
    return osqr(constitutional_compliance={key: value for key, value in whole.items() if value is not None})


def engagement(**changes: Any) -> ManifestResult:
    return osqr(behavioral_modifications={"proactive_engagement": {"can_initiate": True} | changes})


@pytest.mark.req("O-01", "structure")
@pytest.mark.parametrize("field", ["plugin", "constitutional_compliance"])
def test_a_manifest_needs_both_of_its_parts(field: str) -> None:
    assert the_only_error(osqr(**{field: None})).path == field


@pytest.mark.req("O-01", "structure")
@pytest.mark.parametrize("value", [[], "text", 5])
def test_parts_of_the_wrong_shape_are_refused(value: Any) -> None:
    assert the_only_error(osqr(plugin=value)).path == "plugin"
    assert the_only_error(osqr(constitutional_compliance=value)).path == "constitutional_compliance"


@pytest.mark.req("O-01", "plugin.name")
@pytest.mark.parametrize("name", [None, "", 5, "日本", "!!!"])
def test_a_plugin_needs_a_name_that_gives_an_id(name: Any) -> None:
    assert the_only_error(plugin(name=name)).path == "plugin.name"


@pytest.mark.req("O-01", "plugin.name")
@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Fourth Generation Formula", "fourth-generation-formula"),
        ("Builder's Creed!", "builders-creed"),
        ("Café 2", "cafe-2"),
        ("9 Levels", "p-9-levels"),
    ],
)
def test_the_id_is_the_slug_of_the_display_name(title: str, name: str) -> None:
    manifest = sound(plugin(name=title))

    assert (manifest.name, manifest.title, manifest.display_name) == (name, title, title)


@pytest.mark.req("O-01", "plugin.version")
@pytest.mark.parametrize("version", [None, "", 1.0])
def test_a_plugin_needs_a_version(version: Any) -> None:
    assert the_only_error(plugin(version=version)).path == "plugin.version"


@pytest.mark.req("O-01", "plugin.creator")
@pytest.mark.parametrize("creator", [None, "", []])
def test_a_plugin_needs_a_creator(creator: Any) -> None:
    assert the_only_error(plugin(creator=creator)).path == "plugin.creator"


@pytest.mark.req("O-01", "plugin.trust_tier")
def test_a_plugin_needs_a_trust_tier() -> None:
    assert the_only_error(plugin(trust_tier=None)).path == "plugin.trust_tier"


@pytest.mark.req("O-01", "trust tier value")
@pytest.mark.parametrize("tier", ["trusted", "Verified", "", 1])
def test_a_trust_tier_is_one_of_three(tier: Any) -> None:
    assert "'verified', 'community' or 'personal'" in the_only_error(plugin(trust_tier=tier)).message


@pytest.mark.req("O-01", "trust tier value")
@pytest.mark.parametrize("tier", ["verified", "community", "personal"])
def test_a_trust_tier_is_kept_as_a_claim(tier: str) -> None:
    assert sound(plugin(trust_tier=tier)).trust_claim == tier


@pytest.mark.req("O-02")
@pytest.mark.parametrize("value", [None, "modified", "Preserved", True, "", ["preserved"]])
@pytest.mark.parametrize(
    "element",
    [
        pytest.param("user_sovereignty", marks=pytest.mark.req("O-01", "user_sovereignty")),
        pytest.param("safety_guardrails", marks=pytest.mark.req("O-01", "safety_guardrails")),
        pytest.param("identity_core", marks=pytest.mark.req("O-01", "identity_core")),
    ],
)
def test_anything_but_preserved_is_refused_for_each_element(element: str, value: Any) -> None:
    assert the_only_error(compliance(**{element: value})).path == f"constitutional_compliance.{element}"


@pytest.mark.req("O-02")
def test_all_three_elements_are_reported_at_once() -> None:
    reading = osqr(constitutional_compliance={})

    assert len(reading.errors) == 3
    assert sound(osqr())


@pytest.mark.req("O-01", "confidence_threshold")
@pytest.mark.parametrize("threshold", [-0.1, 1.1, "0.7", None])
def test_a_confidence_threshold_is_between_nothing_and_certainty(threshold: Any) -> None:
    reading = engagement(trigger_topics=["x"], confidence_threshold=threshold)

    assert the_only_error(reading).path.endswith("confidence_threshold")


@pytest.mark.req("O-01", "confidence_threshold")
@pytest.mark.parametrize("threshold", [0, 0.0, 0.7, 1, 1.0])
def test_both_ends_are_confidence_too(threshold: float) -> None:
    behaviour = sound(engagement(trigger_topics=["x"], confidence_threshold=threshold)).behaviour

    assert behaviour is not None
    assert behaviour.confidence_threshold == threshold


@pytest.mark.req("O-01", "trigger topics warning")
@pytest.mark.parametrize("topics", [{}, {"trigger_topics": []}])
def test_a_plugin_that_may_speak_up_and_names_no_topics_is_warned_about(topics: dict[str, Any]) -> None:
    reading = engagement(**topics)

    assert sound(reading)
    assert warned(reading) == ["no_topics"]
    assert warned(engagement(trigger_topics=["legacy"])) == []
    assert warned(engagement(can_initiate=False)) == []


@pytest.mark.req("O-01", "version format warning")
@pytest.mark.parametrize(
    ("version", "read_as"),
    [("1.0", "1.0.0"), ("v2", "2.0.0"), ("01.2.3", "1.2.3"), ("spring 26", "0.0.0-spring-26"), ("!", "0.0.0-unknown")],
)
def test_a_version_that_is_not_semantic_is_warned_about_and_completed(version: str, read_as: str) -> None:
    reading = plugin(version=version)

    assert sound(reading).version == read_as
    assert warned(reading) == ["version"]


def test_declared_domains_become_the_network_that_is_asked_for() -> None:
    manifest = sound(osqr(data_access={"external_apis": ["api.example.com", "b.example:8443"]}))
    assert manifest.capabilities == (NetworkAccess("api.example.com", 443), NetworkAccess("b.example", 8443))

    error = the_only_error(osqr(data_access={"external_apis": ["https://x.example/path", "ok.example"]}))
    assert error.path == "data_access.external_apis[0]"


def test_a_tool_declared_twice_is_refused() -> None:
    tool = {"name": "assess", "inputSchema": True}

    assert the_only_error(osqr(capabilities={"tools": [tool, dict(tool)]})).path == "capabilities.tools[1].name"


def test_a_field_that_nobody_knows_is_warned_about() -> None:
    assert warned(read_yaml("manifest.yaml", OSQR | {"behavioural_modifications": {}})) == ["unknown_field"]
