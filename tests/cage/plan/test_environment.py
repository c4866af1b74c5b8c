"""What a plugin's process finds in its environment, and what it cannot change there."""

from __future__ import annotations

import pytest

from paddock.cage.plan.environment import spawn_environment
from paddock.core.ids import PluginName
from paddock.manifest.model import CommandRuntime, Dialect, Manifest


def environment(dialect: Dialect, **env: str) -> dict[str, str]:
    runtime = CommandRuntime(("true",), env=env)
    manifest = Manifest(name=PluginName("notes"), version="1.0.0", dialect=dialect, runtime=runtime)
    return spawn_environment(manifest, "/plugins/notes", "warning")


@pytest.mark.req("G-20", "what is documented and nothing more")
def test_a_plugin_of_the_kaged_dialect_is_told_in_its_own_words() -> None:
    assert environment(Dialect.KAGED) == {
        "KAGED_PLUGIN_NAME": "notes",
        "KAGED_PLUGIN_DIR": "/plugins/notes",
        "KAGED_API_VERSION": "1",
        "KAGED_LOG_LEVEL": "warning",
        "HOME": "/plugins/notes",
        "PATH": "/usr/bin:/usr/local/bin",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
    }


@pytest.mark.parametrize("dialect", [dialect for dialect in Dialect if dialect is not Dialect.KAGED])
def test_every_other_plugin_is_told_in_ours(dialect: Dialect) -> None:
    names = {name for name in environment(dialect) if "_" in name}
    assert names == {f"PADDOCK_{what}" for what in ("PLUGIN_NAME", "PLUGIN_DIR", "API_VERSION", "LOG_LEVEL")}


def test_the_manifests_variables_are_laid_over_the_defaults() -> None:
    found = environment(Dialect.KAGED, PATH="/opt/bin", KAGED_LOG_LEVEL="debug", MODE="fast")
    assert (found["PATH"], found["KAGED_LOG_LEVEL"], found["MODE"]) == ("/opt/bin", "debug", "fast")


@pytest.mark.req("G-20", "ours cannot be overridden")
def test_who_a_plugin_is_cannot_be_overridden_by_its_manifest() -> None:
    for dialect, prefix in ((Dialect.KAGED, "KAGED"), (Dialect.NATIVE, "PADDOCK")):
        ours = {f"{prefix}_{what}": "forged" for what in ("PLUGIN_NAME", "PLUGIN_DIR", "API_VERSION")}
        assert environment(dialect, **ours) == environment(dialect)


@pytest.mark.req("G-20", "what is documented and nothing more")
def test_nothing_of_the_daemons_own_environment_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_MASTER_KEY", "hunter2")
    assert "hunter2" not in str(environment(Dialect.NATIVE))
