"""Keys of imported servers, on both engines: they are sealed with the plugin, and go with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.secrets.safe import Safe

from fixtures.packages import write_json
from fixtures.shelves import Shelf
from paddock.config.local_file import read_entries, remove_entry
from paddock.core.clock import SystemRandom
from paddock.core.errors import Conflict, HostError
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.secret import Secret
from paddock.host.plugins.launch.substitution import SecretEnvironment
from paddock.manifest.read import read_file
from paddock.plugins.install.commit import changed_values, commit_install, save_values
from paddock.plugins.install.config_secrets import prepare_sealing
from paddock.plugins.install.consent import full_consent
from paddock.plugins.install.resolve import ResolvedPackage, resolve_manifest
from paddock.plugins.manage.remove import reconcile_config_entries, uninstall
from paddock.plugins.store.listing import list_plugins
from paddock.plugins.store.store import PluginStore
from paddock.secrets.wrapping_keys import build_wrapping_keys


@pytest.fixture
def store(shelf: Shelf, tmp_path: Path) -> PluginStore:
    return replace(shelf.plugins, keys=build_wrapping_keys({}, tmp_path / "state", SystemRandom(), preferred="file"))


@contextmanager
def server(store: PluginStore, folder: Path, name: str = "weather", **env: str) -> Iterator[ResolvedPackage]:
    file = write_json(folder / "mcp.json", {"mcpServers": {name: {"command": "node", "env": env}}})
    (one,) = read_file(file).all()
    with resolve_manifest(store, one.manifest, one.values, file) as prepared:
        yield prepared


def take(store: PluginStore, folder: Path, name: str = "weather", **env: str) -> None:
    with server(store, folder, name, **env) as prepared:
        commit_install(store, prepared, full_consent(prepared))


def safe(store: PluginStore) -> Safe:
    assert store.keys is not None
    return Safe(store.database, store.keys, DEFAULT_TENANT)


def given(store: PluginStore, name: str = "weather") -> Mapping[str, Secret]:
    """The configuration as the plugin gets it."""
    assert store.keys is not None
    return read_entries(store.local_file)[name].system_values(SecretEnvironment({}, store, store.keys))


def revealed(store: PluginStore, name: str = "weather") -> dict[str, str]:
    return {field: value.reveal() for field, value in given(store, name).items()}


def test_a_plugin_is_given_the_key_that_stands_sealed(store: PluginStore, tmp_path: Path) -> None:
    take(store, tmp_path, KEY="canary ${1}", FROM="${ELSEWHERE}")
    assert read_entries(store.local_file)["weather"].raw_values == {
        "KEY": "${secret:plugin/weather/KEY}",
        "ELSEWHERE": "${ELSEWHERE}",
    }
    assert safe(store).get("plugin/weather/KEY", tenant=DEFAULT_TENANT) == "canary ${1}"


def test_a_refused_install_seals_nothing(shelf: Shelf, store: PluginStore, tmp_path: Path) -> None:
    with server(store, tmp_path, KEY="canary") as prepared:
        shelf.install("weather", "7.0.0")
        with pytest.raises(Conflict):
            commit_install(store, prepared, full_consent(prepared))
    assert safe(store).names() == []


def test_an_upgrade_takes_the_key_that_changed_and_leaves_the_other(store: PluginStore, tmp_path: Path) -> None:
    take(store, tmp_path, KEY="one", OTHER="same")
    take(store, tmp_path, KEY="two", OTHER="same", NEW="three")
    assert safe(store).names() == [
        ("plugin/weather/KEY", "", 2),
        ("plugin/weather/NEW", "", 1),
        ("plugin/weather/OTHER", "", 1),
    ]
    assert revealed(store) == {"KEY": "two", "OTHER": "same", "NEW": "three"}


def test_keys_with_long_names_are_sealed_apart(store: PluginStore, tmp_path: Path) -> None:
    name, label = "w" * 64, "K" * 99
    take(store, tmp_path, name, **{label + "A": "one", label + "B": "two", label[:90]: "three"})
    assert revealed(store, name) == {label + "A": "one", label + "B": "two", label[:90]: "three"}
    assert len(safe(store).names()) == 3
    uninstall(store, name)
    assert safe(store).names() == []


def test_an_entry_that_was_lost_refers_to_the_sealed_keys_again(store: PluginStore, tmp_path: Path) -> None:
    take(store, tmp_path, KEY="canary")
    safe(store).set("plugin/weather/UNDECLARED", "of nobody")
    remove_entry(store.local_file, "weather")
    reconcile_config_entries(store)
    assert revealed(store) == {"KEY": "canary"}


def test_keys_go_with_their_plugin_and_no_others_do(store: PluginStore, tmp_path: Path) -> None:
    take(store, tmp_path, KEY="canary")
    take(store, tmp_path, "weather-2", KEY="canary")
    safe(store).set("weather", "a person chose this name")
    safe(store).set("plugin/weather/KEY", "theirs", "user:ann")
    remove_entry(store.local_file, "weather")  # as after a kill
    uninstall(store, "weather")
    assert [(name, owner) for name, owner, _ in safe(store).names()] == [
        ("plugin/weather-2/KEY", ""),
        ("plugin/weather/KEY", "user:ann"),
        ("weather", ""),
    ]


def test_nothing_is_installed_where_what_seals_keys_is_missing(store: PluginStore, tmp_path: Path) -> None:
    safe(store).set("any", "seals under a first key")
    elsewhere = replace(store, keys=build_wrapping_keys({}, tmp_path / "elsewhere", SystemRandom(), preferred="file"))
    with server(elsewhere, tmp_path, KEY="canary") as prepared, pytest.raises(HostError) as refused:
        commit_install(elsewhere, prepared, full_consent(prepared))
    assert refused.value.error_code == "secret.key_missing"
    assert list_plugins(store) == []


def test_a_key_is_not_sealed_under_one_that_was_replaced_meanwhile(store: PluginStore, tmp_path: Path) -> None:
    safe(store).set("any", "seals under a first key")
    with server(store, tmp_path, KEY="canary") as prepared:
        seal = prepare_sealing(store, prepared)
        safe(store).rotate()
        with pytest.raises(Conflict) as refused:
            store.database.write(seal)
        assert refused.value.error_code == "plugin.changed_meanwhile"
        commit_install(store, prepared, full_consent(prepared))  # run again
    assert revealed(store) == {"KEY": "canary"}


def test_a_damaged_key_is_replaced_by_importing_again(store: PluginStore, tmp_path: Path) -> None:
    take(store, tmp_path, KEY="canary")
    store.database.write(lambda tx: tx.execute("UPDATE secrets SET sealed = wrapped"))
    with server(store, tmp_path, KEY="canary") as prepared:
        assert changed_values(store, prepared) == ["KEY"]
        save_values(store, prepared, ["KEY"])
        assert changed_values(store, prepared) == []
    assert revealed(store) == {"KEY": "canary"}


def test_a_key_that_stood_in_the_file_is_sealed_by_importing_again(
    shelf: Shelf, store: PluginStore, tmp_path: Path
) -> None:
    take(shelf.plugins, tmp_path, KEY="canary")
    assert "canary" in store.local_file.read_text()
    with server(store, tmp_path, KEY="canary") as prepared:
        save_values(store, prepared, ["KEY"])
    assert "canary" not in store.local_file.read_text()
    assert revealed(store) == {"KEY": "canary"}
