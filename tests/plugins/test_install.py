"""Making a package part of the store, on both engines."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fixtures.packages import native, osqr, write_file, write_json
from fixtures.shelves import Shelf
from paddock.config.local_file import read_entries
from paddock.core.errors import Conflict, Invalid, NeedsConsent, OperatorError
from paddock.manifest.read import read_file
from paddock.plugins.install.commit import changed_values, commit_install, save_values
from paddock.plugins.install.consent import full_consent, shown_terms
from paddock.plugins.install.resolve import resolve_manifest, resolve_package
from paddock.plugins.manage.enable import disable, enable
from paddock.plugins.package.source import parse_source
from paddock.plugins.store.listing import list_plugins
from paddock.plugins.store.lookup import resolve_plugin
from paddock.plugins.store.rows import find_grant, find_version
from paddock.plugins.store.store import PluginStore


def granted(store: PluginStore, name: str = "notes") -> tuple[bool, tuple[str, ...]]:
    grant = store.database.read(lambda tx: find_grant(tx, store.tenant, name))
    assert grant is not None
    return grant.enabled, grant.capabilities


def test_a_new_plugin_is_granted_what_was_acknowledged_and_is_disabled(shelf: Shelf) -> None:
    row = shelf.install(capabilities=["net:api.example.com:443", "storage:read"])

    assert granted(shelf.plugins) == (False, ("net:api.example.com:443", "storage:read"))
    assert [one.state for one in list_plugins(shelf.plugins)] == ["disabled"]
    assert read_entries(shelf.plugins.local_file)["notes"].installed == "1.0.0"
    assert datetime.fromisoformat(row.installed_at).year == 2026
    (event,) = shelf.events("notes")
    assert event.type == "plugin.installed"
    assert event.data["version"] == "1.0.0"


def test_nothing_is_installed_that_nobody_acknowledged(shelf: Shelf, tmp_path: Path) -> None:
    package = native(tmp_path / "n", capabilities=["storage:read", "storage:write"])
    with resolve_package(shelf.plugins, parse_source(str(package))) as prepared:
        shown = shown_terms(prepared)
        with pytest.raises(NeedsConsent) as refused:
            commit_install(shelf.plugins, prepared, shown.accepted(shown.capabilities[:1]))
    assert refused.value.details == {"capabilities": ["storage:write"]}
    assert list_plugins(shelf.plugins) == []
    assert not list(shelf.plugins.staging.iterdir())
    assert shelf.events() == []


def test_a_version_that_takes_a_secret_elsewhere_is_not_installed_without_a_yes_to_that(
    shelf: Shelf, tmp_path: Path
) -> None:
    secret: dict[str, Any] = {"capabilities": ["host:secrets"], "secrets": ["key"]}
    shelf.install(version="1.0.0", **secret, secret_hosts={"key": ["api.example.com:443"]})
    assert granted(shelf.plugins) == (False, ("host:secrets", "secret:key=api.example.com:443"))

    package = native(tmp_path / "n", version="1.0.1", **secret)
    with resolve_package(shelf.plugins, parse_source(str(package))) as prepared:
        with pytest.raises(NeedsConsent) as refused:
            commit_install(shelf.plugins, prepared, shown_terms(prepared).accepted(()))
        commit_install(shelf.plugins, prepared, full_consent(prepared))

    assert refused.value.details == {"capabilities": ["secret:key"]}
    assert granted(shelf.plugins) == (False, ("host:secrets", "secret:key"))


def test_a_grant_that_is_withdrawn_while_a_person_decides_is_asked_for_again(shelf: Shelf, tmp_path: Path) -> None:
    shelf.install(version="1.0.0", capabilities=["storage:read"])
    package = native(tmp_path / "n", version="1.1.0", capabilities=["storage:read"])
    with resolve_package(shelf.plugins, parse_source(str(package))) as prepared:
        shown = shown_terms(prepared)
        assert shown.capabilities == ()
        shelf.plugins.database.write(lambda tx: tx.execute("UPDATE grants SET capabilities = '[]'"))
        with pytest.raises(NeedsConsent) as refused:
            commit_install(shelf.plugins, prepared, shown.accepted(()))

    assert refused.value.details == {"capabilities": ["storage:read"]}
    assert granted(shelf.plugins) == (False, ())
    assert [one.plugin.default_version for one in list_plugins(shelf.plugins)] == ["1.0.0"]


def test_an_upgrade_keeps_the_plugin_as_enabled_as_it_was_and_records_the_difference(shelf: Shelf) -> None:
    shelf.install(version="1.0.0", capabilities=["storage:read"])
    enable(shelf.plugins, "notes")
    shelf.install(version="1.1.0", capabilities=["storage:write"])
    assert granted(shelf.plugins) == (True, ("storage:write",))
    assert shelf.events("notes")[-1].data["capability_diff"] == {
        "added": ["storage:write"],
        "removed": ["storage:read"],
    }
    disable(shelf.plugins, "notes")
    shelf.install(version="1.2.0", capabilities=["storage:write"])
    assert granted(shelf.plugins) == (False, ("storage:write",))


def test_a_decision_about_a_plugin_that_changed_meanwhile_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    shelf.install(version="1.0.0")
    package = native(tmp_path / "n", version="1.2.0")
    with resolve_package(shelf.plugins, parse_source(str(package))) as prepared:
        shelf.install(version="1.1.0")
        with pytest.raises(Conflict) as refused:
            commit_install(shelf.plugins, prepared, full_consent(prepared))
    assert refused.value.error_code == "plugin.changed_meanwhile"
    assert [one.plugin.default_version for one in list_plugins(shelf.plugins)] == ["1.1.0"]


def test_a_name_taken_while_a_person_was_deciding_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    package = native(tmp_path / "n", name="my-notes")
    with resolve_package(shelf.plugins, parse_source(str(package))) as prepared:
        shelf.install("my_notes")
        with pytest.raises(Conflict) as refused:
            commit_install(shelf.plugins, prepared, full_consent(prepared))
    assert refused.value.error_code == "plugin.name_confusable"
    assert [one.plugin.name for one in list_plugins(shelf.plugins)] == ["my_notes"]


def test_the_kernels_second_name_is_taken_by_the_first(shelf: Shelf) -> None:
    shelf.install("Apply.EmailDraft")
    with pytest.raises(Conflict) as refused:
        shelf.install("Email.ApplyDraft")
    assert refused.value.error_code == "plugin.name_taken"


def test_an_osqr_plugin_may_be_upgraded_under_its_own_title_only(shelf: Shelf) -> None:
    shelf.install("Fourth Formula", "1.0.0", osqr)
    shelf.install("Fourth Formula", "1.1.0", osqr)
    with pytest.raises(Conflict, match="same id"):
        shelf.install("FOURTH formula", "1.2.0", osqr)


def test_a_version_that_is_there_already_is_used_again_with_its_own_files(shelf: Shelf) -> None:
    first = shelf.install(version="1.0.0")
    shelf.install(version="1.1.0")
    shelf.take(shelf.folder / "packages" / "notes-1.0.0", downgrade=True)

    (listed,) = list_plugins(shelf.plugins)
    assert (listed.plugin.default_version, listed.state, len(listed.versions)) == ("1.0.0", "disabled", 2)
    assert shelf.rows("plugin_versions") == 2
    assert resolve_plugin(shelf.plugins, "notes").digest == first.digest


@pytest.mark.parametrize("other", ["paypa1-send", "PayPal.Send", "paypai_send"])
def test_a_name_that_the_eye_takes_for_another_is_refused(shelf: Shelf, other: str) -> None:
    shelf.install("paypal-send")
    with pytest.raises(Conflict, match="could be taken for"):
        shelf.install(other)


def test_what_stands_in_the_place_of_a_new_version_is_cleared_away(shelf: Shelf, tmp_path: Path) -> None:
    root = shelf.plugins.version_root("notes", "1.0.0")
    write_file(root / "left" / "over.py", "")
    shelf.install()
    assert sorted(path.name for path in root.iterdir()) == ["paddock.yaml", "run.sh"]

    # Even a link: it goes, and what it points at stays.
    mine = write_file(tmp_path / "mine" / "file", "x")
    link = shelf.plugins.version_root("notes", "1.1.0")
    link.symlink_to(mine.parent)
    shelf.install(version="1.1.0")
    assert not link.is_symlink()
    assert mine.read_text() == "x"


def test_sweeping_takes_what_no_row_names_and_leaves_the_rest(shelf: Shelf, tmp_path: Path) -> None:
    shelf.install()
    trees = shelf.plugins.trees
    write_file(trees / "ghost" / "1.0.0" / "run.sh", "")
    write_file(trees / "notes" / "9.9.9" / "run.sh", "")
    (trees / "notes" / "8.8.8").symlink_to(tmp_path)
    shelf.plugins.sweep()

    assert [path.name for path in trees.iterdir()] == ["notes"]
    assert [path.name for path in (trees / "notes").iterdir()] == ["1.0.0"]
    assert tmp_path.exists()
    assert [one.state for one in list_plugins(shelf.plugins)] == ["disabled"]


def test_values_of_an_imported_server_are_kept_only_when_it_is_installed(shelf: Shelf, tmp_path: Path) -> None:
    file = write_json(tmp_path / "mcp.json", {"mcpServers": {"weather": {"command": "node", "env": {"KEY": "one"}}}})
    (server,) = read_file(file).all()
    with resolve_manifest(shelf.plugins, server.manifest, server.values, file) as prepared:
        # Somebody else takes the name meanwhile: the import is refused, and its key is not left behind.
        shelf.install("weather", "7.0.0")
        with pytest.raises(Conflict):
            commit_install(shelf.plugins, prepared, full_consent(prepared))
    assert "KEY" not in read_entries(shelf.plugins.local_file)["weather"].raw_values


def test_another_value_of_an_unchanged_server_is_taken(shelf: Shelf, tmp_path: Path) -> None:
    def server(value: str) -> Path:
        servers = {"mcpServers": {"weather": {"command": "node", "env": {"KEY": value}}}}
        return write_json(tmp_path / "mcp.json", servers)

    file = server("one")
    (first,) = read_file(file).all()
    with resolve_manifest(shelf.plugins, first.manifest, first.values, file) as prepared:
        commit_install(shelf.plugins, prepared, full_consent(prepared))
    (second,) = read_file(server("two")).all()
    with resolve_manifest(shelf.plugins, second.manifest, second.values, file) as prepared:
        assert prepared.unchanged
        assert changed_values(shelf.plugins, prepared) == ["KEY"]
        save_values(shelf.plugins, prepared, ["KEY"])
        assert changed_values(shelf.plugins, prepared) == []
    assert read_entries(shelf.plugins.local_file)["weather"].raw_values == {"KEY": "two"}


def test_a_field_that_paddock_writes_itself_is_refused_before_anything_changes(shelf: Shelf, tmp_path: Path) -> None:
    servers = {"mcpServers": {"weather": {"command": "node", "env": {"installed": "x"}}}}
    file = write_json(tmp_path / "mcp.json", servers)
    (server,) = read_file(file).all()
    with (
        resolve_manifest(shelf.plugins, server.manifest, server.values, file) as prepared,
        pytest.raises(OperatorError) as refused,
    ):
        commit_install(shelf.plugins, prepared, full_consent(prepared))
    assert refused.value.error_code == "config.reserved"
    assert list_plugins(shelf.plugins) == []


def test_an_upgrade_in_the_middle_of_enabling_is_noticed(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enabling reads files between two units of work; whoever upgrades in that moment must not lose their grant."""
    shelf.install(version="1.0.0", capabilities=[])
    from paddock.plugins.manage import enable as enabling

    plain = enabling.require_intact

    def slow(store: PluginStore, row: object) -> None:
        plain(store, row)  # type: ignore[arg-type]
        if not shelf.plugins.database.read(lambda tx: find_version(tx, "notes", "1.1.0")):
            shelf.install(version="1.1.0", capabilities=["storage:read"])

    monkeypatch.setattr(enabling, "require_intact", slow)
    with pytest.raises(Conflict) as refused:
        enable(shelf.plugins, "notes")
    assert refused.value.error_code == "plugin.changed_meanwhile"
    assert granted(shelf.plugins) == (False, ("storage:read",))
    enable(shelf.plugins, "notes")
    assert granted(shelf.plugins) == (True, ("storage:read",))


def test_a_program_that_this_machine_lacks_keeps_a_plugin_from_being_enabled(shelf: Shelf) -> None:
    shelf.install(runtime={"command": ["/usr/bin/env", "no-such-program", "./run.sh"]})
    with pytest.raises(Invalid) as refused:
        enable(shelf.plugins, "notes")
    assert [(problem.path, problem.code) for problem in refused.value.problems] == [
        ("runtime.command[1]", "program_missing")
    ]


def test_a_program_is_looked_for_where_the_cage_looks_and_not_where_the_host_happens_to_run(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(shelf.folder / "elsewhere" / "bin" / "run", "#!/bin/sh")
    (shelf.folder / "elsewhere" / "bin" / "run").chmod(0o755)
    monkeypatch.chdir(shelf.folder / "elsewhere")
    shelf.install(version="1.0.0", runtime={"command": ["bin/run"]})
    with pytest.raises(Invalid) as refused:
        enable(shelf.plugins, "notes")
    assert [problem.code for problem in refused.value.problems] == ["program_missing"]


def test_local_secrets_and_environments_are_not_taken_into_the_store(shelf: Shelf) -> None:
    package = native(shelf.folder / "package")
    write_file(package / ".env", "KEY=secret")
    write_file(package / ".venv" / "bin" / "python", "")
    row = shelf.take(package)
    assert sorted(path.name for path in shelf.plugins.version_root("notes", row.version).iterdir()) == [
        "paddock.yaml",
        "run.sh",
    ]
