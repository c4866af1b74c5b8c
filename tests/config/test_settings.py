"""Every setting, its names and its defaults, through the public loader."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import SOURCE
from paddock.config.directories import Directories, find_directories
from paddock.config.load import load_settings
from paddock.config.reference import settings_reference
from paddock.config.resolve import setting_value
from paddock.config.settings import SETTINGS, LimitSettings, Settings
from paddock.core.errors import Invalid

SETTINGS_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"

DOMAINS = ("api.anthropic.com", "api.openai.com")

# variable, our name, documented default, another legal value as text, and as it is read
VARIABLES: list[tuple[str, str, Any, str, Any]] = [
    ("OSQR_PLUGINS_MCP_TIMEOUT_MS", "plugins.mcp_timeout_ms", 30000, "1500", 1500),
    ("OSQR_PLUGINS_CONTAINER_MEMORY_MB", "limits.memory_mb", 512, "256", 256),
    (
        "OSQR_PLUGINS_ALLOWED_DOMAINS",
        "plugins.allowed_domains",
        DOMAINS,
        "a.example, B.example",
        ("a.example", "b.example"),
    ),
    ("OSQR_PLUGINS_ROLLBACK_RETENTION_DAYS", "versions.retention_days", 30, "7", 7),
]
PARAMETERS: list[tuple[str, str, Any, Any]] = [
    ("mcp_timeout_ms", "plugins.mcp_timeout_ms", 30000, 2000),
    ("artifact_max_size_mb", "artifacts.max_size_mb", 50, 20),
]
# their name, our name, documented default, and the feature that will read it
RESERVED: list[tuple[str, str, Any, str]] = [
    ("OSQR_PLUGINS_ENABLED", "plugins.enabled", True, "personas"),
    ("OSQR_PLUGINS_MAX_ACTIVE", "plugins.max_active", 10, "personas"),
    ("OSQR_PLUGINS_ANALYTICS_ENABLED", "analytics.enabled", True, "usage analytics"),
    ("OSQR_PLUGINS_ANALYTICS_AGGREGATION_INTERVAL_HOURS", "analytics.aggregation_interval_hours", 24, "analytics"),
    ("OSQR_PLUGINS_AUTO_UPDATE", "versions.auto_update", False, "update proposals"),
    ("max_active_plugins", "plugins.max_active", 10, "personas"),
    ("context_detection_threshold", "persona.detection_threshold", 0.5, "personas"),
    ("conflict_history_length", "persona.conflict_history_length", 50, "personas"),
    ("preference_learning_threshold", "persona.preference_learning_threshold", 3, "personas"),
    ("workflow_state_ttl_days", "persona.workflow_state_ttl_days", 365, "personas"),
    ("analytics_aggregation_min_users", "analytics.min_users", 10, "usage analytics"),
]


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return find_directories({"PADDOCK_HOME": str(tmp_path)}, tmp_path)


def refusal(directories: Directories, environ: dict[str, str]) -> Invalid:
    with pytest.raises(Invalid) as refused:
        load_settings(directories, environ)
    return refused.value


@pytest.mark.parametrize(
    ("variable", "name", "default", "text", "value"),
    [pytest.param(*row, marks=pytest.mark.req("O-17", row[0]), id=row[0]) for row in VARIABLES],
)
def test_a_documented_variable_has_its_default_and_is_honoured_under_its_own_name_and_ours(
    directories: Directories, variable: str, name: str, default: Any, text: str, value: Any
) -> None:
    assert setting_value(load_settings(directories, {}).settings, name) == default
    for spelling in (variable, SETTINGS[name].environment):
        loaded = load_settings(directories, {spelling: text})
        assert setting_value(loaded.settings, name) == value
        assert str(loaded.origins[name]) == f"environment {spelling}"


@pytest.mark.parametrize(
    ("parameter", "name", "default", "value"),
    [pytest.param(*row, marks=pytest.mark.req("O-17", row[0]), id=row[0]) for row in PARAMETERS],
)
def test_a_documented_parameter_has_its_default_and_is_honoured_under_its_own_name_and_ours(
    directories: Directories, parameter: str, name: str, default: Any, value: Any
) -> None:
    assert setting_value(load_settings(directories, {}).settings, name) == default
    group, _, key = name.partition(".")
    for text in (f"{parameter} = {value}\n", f"[{group}]\n{key} = {value}\n"):
        directories.config_file.write_text(text)
        assert setting_value(load_settings(directories, {}).settings, name) == value


@pytest.mark.parametrize(
    ("theirs", "name", "default", "feature"),
    [pytest.param(*row, id=row[0]) for row in RESERVED],
)
def test_a_reserved_setting_has_its_documented_default_and_is_refused_under_every_name_and_from_every_source(
    directories: Directories, theirs: str, name: str, default: Any, feature: str
) -> None:
    assert setting_value(load_settings(directories, {}).settings, name) == default
    spec = SETTINGS[name]
    assert theirs in (*spec.variables, *spec.parameters)
    assert f"`{name}`" in settings_reference() and f"**reserved** for {spec.reserved}" in settings_reference()
    assert name not in {shown for shown, _, _ in load_settings(directories, {}).rows()}

    value = json.dumps(default)
    found = [*refusal(directories, dict.fromkeys((spec.environment, *spec.variables), value)).problems]
    group, _, key = name.partition(".")
    for text in (f"[{group}]\n{key} = {value}\n", *(f"{parameter} = {value}\n" for parameter in spec.parameters)):
        directories.config_file.write_text(text)
        found += refusal(directories, {}).problems
    assert len(found) == 2 + len(spec.variables) + len(spec.parameters)
    assert {problem.code for problem in found} == {"config.reserved_setting"}
    assert all(name in problem.message and feature in problem.message for problem in found)


@pytest.mark.req("O-17", "OSQR_PLUGINS_CONTAINER_CPU_LIMIT")
def test_the_hard_cpu_quota_holds_for_osqr_plugins_and_for_others_only_when_configured(
    directories: Directories,
) -> None:
    unset = load_settings(directories, {}).settings.limits
    assert (unset.hard_quota("osqr"), unset.hard_quota("kaged")) == (0.5, None)
    given = load_settings(directories, {"OSQR_PLUGINS_CONTAINER_CPU_LIMIT": "0.25"}).settings.limits
    assert (given.hard_quota("osqr"), given.hard_quota("kaged")) == (0.25, 0.25)


@pytest.mark.req("G-18", "no setting takes it away")
@pytest.mark.parametrize(
    ("variable", "kept", "loosened"),
    [
        pytest.param(name, kept, loosened, marks=pytest.mark.req("O-17", name), id=f"{name}={loosened}")
        for name, kept, loosened in [
            ("OSQR_PLUGINS_NETWORK_ISOLATION", "true", "false"),
            ("OSQR_PLUGINS_SANDBOX_MODE", "strict", "permissive"),
            ("OSQR_PLUGINS_SANDBOX_MODE", "strict", "none"),
        ]
    ],
)
def test_a_setting_that_would_loosen_the_cage_is_refused(
    directories: Directories, variable: str, kept: str, loosened: str
) -> None:
    load_settings(directories, {variable: kept})
    (problem,) = refusal(directories, {variable: loosened}).problems
    assert problem.code == "config.loosens_cage"
    assert problem.path == variable
    assert f"set it to {kept}" in problem.hint


def test_loosening_the_cage_is_refused_from_a_file_and_a_flag_too(directories: Directories) -> None:
    directories.config_file.write_text('[cage]\nsandbox_mode = "off"\n')
    with pytest.raises(Invalid) as refused:
        load_settings(directories, {}, flags={"cage.network_isolation": "false"})
    assert [problem.code for problem in refused.value.problems] == ["config.loosens_cage"] * 2


def test_our_own_settings_start_with_what_is_documented() -> None:
    settings = Settings()
    assert settings.limits == LimitSettings(memory_mb=512, cpu_weight=256, cpu_quota=None, pids=100, call_timeout_s=30)
    assert settings.http.address == "127.0.0.1:7433"
    assert settings.store.url is None
    assert settings.log.level == "info"


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("PADDOCK_LIMITS_PIDS", "0"),
        ("PADDOCK_LIMITS_PIDS", "many"),
        ("PADDOCK_LIMITS_PIDS", "9" * 10_000),
        ("PADDOCK_LIMITS_CPU_QUOTA", "nan"),
        ("PADDOCK_LIMITS_CPU_QUOTA", "inf"),
        ("PADDOCK_EVENTS_FIRST_PAUSE_S", "0.001"),
        ("PADDOCK_HTTP_FIRST_LINK", "perhaps"),
        ("PADDOCK_PLUGINS_ALLOWED_DOMAINS", "*"),
        ("PADDOCK_PLUGINS_ALLOWED_DOMAINS", "http://a.example"),
        ("PADDOCK_HTTP_ADDRESS", "7433"),
        ("PADDOCK_HTTP_ADDRESS", "localhost:99999"),
        ("PADDOCK_HTTP_ADDRESS", "[::zz]:80"),
        ("PADDOCK_LOG_LEVEL", "loud"),
        ("PADDOCK_STORE_URL", "mysql://u:hunter2@h/d"),
        ("PADDOCK_STORE_URL", "relative.db"),
    ],
)
def test_a_value_of_the_wrong_kind_or_out_of_bounds_is_refused_without_repeating_secrets(
    directories: Directories, variable: str, text: str
) -> None:
    (problem,) = refusal(directories, {variable: text}).problems
    assert problem.path == variable
    assert len(problem.message) < 200
    assert "hunter2" not in str(problem)


def test_a_refused_value_cannot_write_to_the_terminal(directories: Directories) -> None:
    (problem,) = refusal(directories, {"PADDOCK_LOG_LEVEL": "\x1b[2Jloud\n\u202e"}).problems
    assert str(problem).isprintable()


@pytest.mark.parametrize(
    "url", ["postgresql://ada:hunter2@db.example:5432/paddock", "/srv/paddock.db", "sqlite:///p.db"]
)
def test_the_store_address_is_accepted_and_its_password_never_shown(directories: Directories, url: str) -> None:
    loaded = load_settings(directories, {"PADDOCK_STORE_URL": url})
    assert loaded.settings.store.url == url
    shown = {name: value for name, value, _ in loaded.rows()}
    assert shown["store.url"] in ("postgresql://db.example:5432/paddock", "/srv/paddock.db", "sqlite:///p.db")
    assert "hunter2" not in repr(loaded)


def test_every_setting_is_documented_on_the_settings_page() -> None:
    assert SETTINGS_PAGE.read_text() == settings_reference(), "./run docs --write"
    for row in SETTINGS.values():
        assert row.description.endswith(".")
        for name in (row.name, row.environment, *row.variables, *row.parameters):
            assert f"`{name}`" in settings_reference()


def test_every_setting_is_read_by_the_program_or_reserved() -> None:
    """A setting is read where code outside `config` says `settings.limits.pids` or `limits.pids`."""
    read: set[str] = {"limits.cpu_quota"}  # by LimitSettings.hard_quota
    for file in (SOURCE / "paddock").rglob("*.py"):
        if file.parent.name != "config":
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute | ast.Name):
                    group = node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id
                    read.add(f"{group}.{node.attr}")

    for name, spec in SETTINGS.items():
        assert bool(spec.reserved) is not (name in read or spec.fixed), name
