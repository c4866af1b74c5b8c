"""Which source wins, and every mistake in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.config.directories import Directories, find_directories
from paddock.config.load import load_settings
from paddock.core.errors import Invalid, OperatorError, Problem


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return find_directories({"PADDOCK_HOME": str(home)}, tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".paddock").mkdir(parents=True)
    (tmp_path / "project" / "deep" / "down").mkdir(parents=True)
    return tmp_path / "project"


def write_local(directories: Directories, text: str, mode: int = 0o600) -> None:
    directories.local_file.write_text(text)
    directories.local_file.chmod(mode)


def write_project(project: Path, text: str) -> None:
    (project / ".paddock" / "config.toml").write_text(text)


def problems_of(
    directories: Directories, environ: dict[str, str] | None = None, cwd: Path | None = None
) -> tuple[Problem, ...]:
    with pytest.raises(Invalid) as refused:
        load_settings(directories, environ or {}, cwd=cwd)
    return refused.value.problems


def test_the_strongest_source_wins_and_each_value_knows_where_it_came_from(
    directories: Directories, project: Path
) -> None:
    directories.config_file.write_text("# ours\n[limits]\npids = 90\nmemory_mb = 400\ncall_timeout_s = 20\n")
    write_local(directories, "[limits]\nmemory_mb = 300\ncall_timeout_s = 19\n[plugins]\nmax_active = 9\n")
    write_project(project, "[limits]\ncall_timeout_s = 18\n[plugins]\nmax_active = 8\nmcp_timeout_ms = 20000\n")
    loaded = load_settings(
        directories,
        {"PADDOCK_PLUGINS_MAX_ACTIVE": "7", "PADDOCK_PLUGINS_MCP_TIMEOUT_MS": "6000"},
        cwd=project / "deep" / "down",
        flags={"plugins.mcp_timeout_ms": "5000"},
    )
    seen = {name: (value, str(origin)) for name, value, origin in loaded.rows()}
    assert seen["limits.cpu_weight"] == ("256", "default")
    assert seen["limits.pids"] == ("90", f"{directories.config_file}:3")
    assert seen["limits.memory_mb"] == ("300", f"{directories.local_file}:2")
    assert seen["limits.call_timeout_s"] == ("18", f"{project}/.paddock/config.toml:2")
    assert seen["plugins.max_active"] == ("7", "environment PADDOCK_PLUGINS_MAX_ACTIVE")
    assert seen["plugins.mcp_timeout_ms"] == ("5000", "flag plugins.mcp_timeout_ms")
    assert loaded.settings.plugins.mcp_timeout_ms == 5000
    assert loaded.warnings == ()


def test_every_mistake_of_every_source_is_reported_at_once(directories: Directories) -> None:
    directories.config_file.write_text("[plugins]\nmax_activ = 3\n\n[limits]\npids = 'lots'\n[nonsense]\na = 1\n")
    write_local(directories, "mcp_timeout_ms = 1\n")
    found = problems_of(directories, {"PADDOCK_LIMITS_PIDS": "0"})
    assert {(problem.path.rpartition(": ")[2], problem.code, problem.line) for problem in found} == {
        ("plugins.max_activ", "config.unknown", 2),
        ("limits.pids", "config.type", 5),
        ("nonsense", "config.unknown", 6),
        ("mcp_timeout_ms", "config.out_of_bounds", 1),
        ("PADDOCK_LIMITS_PIDS", "config.out_of_bounds", None),
    }
    assert any("did you mean plugins.max_active?" in problem.hint for problem in found)


@pytest.mark.req("O-17", "OSQR_PLUGINS_MAX_ACTIVE")
def test_two_names_of_one_setting_must_agree(directories: Directories) -> None:
    both = {"OSQR_PLUGINS_MAX_ACTIVE": "4", "PADDOCK_PLUGINS_MAX_ACTIVE": "5"}
    (problem,) = problems_of(directories, both)
    assert problem.code == "config.conflict"
    assert "OSQR_PLUGINS_MAX_ACTIVE" in problem.message
    assert "PADDOCK_PLUGINS_MAX_ACTIVE" in problem.message
    agreed = load_settings(directories, {**both, "OSQR_PLUGINS_MAX_ACTIVE": "5"})
    assert agreed.settings.plugins.max_active == 5
    directories.config_file.write_text("max_active_plugins = 3\n[plugins]\nmax_active = 4\n")
    (problem,) = problems_of(directories)
    assert (problem.code, problem.line) == ("config.conflict", 3)


def test_a_misspelt_variable_is_a_warning_and_an_empty_one_counts_as_unset(directories: Directories) -> None:
    loaded = load_settings(
        directories, {"OSQR_PLUGINS_MAX_ACTIV": "4", "PADDOCK_LIMITS_PIDS": "", "PADDOCK_COLOUR_OF_SHED": "red"}
    )
    (warning,) = loaded.warnings
    assert warning.hint == "did you mean OSQR_PLUGINS_MAX_ACTIVE?"
    assert loaded.settings.limits.pids == 100


@pytest.mark.req("G-12")
def test_a_variable_in_a_file_is_filled_and_an_unset_one_names_its_key(directories: Directories) -> None:
    directories.config_file.write_text(
        '[limits]\npids = "${PIDS}"\n[store]\nurl = "postgresql://${USER}:${PW}@h/$${d}"\n'
    )
    filled = load_settings(directories, {"PIDS": "64", "USER": "ada", "PW": "hunter2"})
    assert filled.settings.limits.pids == 64
    assert filled.settings.store.url == "postgresql://ada:hunter2@h/${d}"
    found = problems_of(directories, {"PW": "hunter2"})
    assert [(problem.path.rpartition(": ")[2], problem.code, problem.line) for problem in found] == [
        ("limits.pids", "config.variable_unset", 2),
        ("store.url", "config.variable_unset", 4),
    ]
    assert "hunter2" not in repr(found)
    directories.config_file.write_text('[log]\nlevel = "${"\n')
    assert problems_of(directories)[0].code == "config.reference"


def test_a_file_that_is_not_toml_names_its_line_and_never_its_text(directories: Directories) -> None:
    write_local(directories, '[plugins."p"]\n\ntoken = "hunter2\n')
    (problem,) = problems_of(directories)
    assert (problem.code, problem.line) == ("config.not_toml", 3)
    assert "hunter2" not in str(problem)
    directories.local_file.write_bytes(b"\n\xff\xfe = 1")
    assert problems_of(directories)[0].line == 2


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "{b=" * 5_000, "a." * 5_000 + "a = 1"])
def test_a_deeply_nested_project_file_is_refused_and_does_not_crash_us(
    directories: Directories, project: Path, text: str
) -> None:
    write_project(project, text)
    assert problems_of(directories, cwd=project)[0].code == "config.not_toml"


def test_a_project_can_only_tighten(directories: Directories, project: Path) -> None:
    write_local(directories, "[limits]\nmemory_mb = 256\n")
    write_project(
        project,
        "context_detection_threshold = 0.1\n"
        "[limits]\nmemory_mb = 300\ncpu_quota = 0.2\npids = 50\n"
        "[store]\nurl = '/tmp/theirs.db'\n[http]\naddress = '0.0.0.0:80'\n"
        "[plugins]\nenabled = false\nallowed_domains = ['evil.example']\n"
        "[plugins.thief]\ninstalled = '1.0.0'\n",
    )
    found = problems_of(directories, cwd=project)
    assert {(problem.path.rpartition(": ")[2], problem.code) for problem in found} == {
        ("persona.detection_threshold", "config.project_forbidden"),
        ("limits.memory_mb", "config.project_forbidden"),
        ("store.url", "config.project_forbidden"),
        ("http.address", "config.project_forbidden"),
        ("plugins.enabled", "config.project_forbidden"),
        ("plugins.allowed_domains", "config.project_forbidden"),
        ("plugins.thief", "config.misplaced"),
    }


def test_a_project_takes_nothing_from_the_environment(directories: Directories, project: Path) -> None:
    write_project(project, '[limits]\npids = "${SECRET}"\n')
    (problem,) = problems_of(directories, {"SECRET": "hunter2"}, cwd=project)
    assert problem.code == "config.type"
    assert "hunter2" not in str(problem)


def test_a_project_file_that_is_a_pipe_a_directory_or_endless_is_refused_at_once(
    directories: Directories, project: Path
) -> None:
    path = project / ".paddock" / "config.toml"
    os.mkfifo(path)
    assert problems_of(directories, cwd=project)[0].code == "config.unreadable"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert problems_of(directories, cwd=project)[0].code == "config.unreadable"
    path.unlink()
    path.write_bytes(b"#" * (1 << 20) + b"\n")
    assert problems_of(directories, cwd=project)[0].code == "config.too_large"


def test_hostile_keys_cannot_write_to_the_terminal(directories: Directories, project: Path) -> None:
    hostile = project / "\x1b[2J"
    (hostile / ".paddock").mkdir(parents=True)
    write_project(hostile, '"\\u001b[2J' + "x" * 500 + '" = 1\n')
    (problem,) = problems_of(directories, cwd=hostile)
    assert str(problem).isprintable()
    assert len(str(problem)) < 600
    write_project(hostile, "]")
    assert str(problems_of(directories, cwd=hostile)[0]).isprintable()


def test_a_local_file_that_others_can_read_is_a_warning_with_the_line_to_type(directories: Directories) -> None:
    write_local(directories, "", mode=0o644)
    (warning,) = load_settings(directories, {}).warnings
    assert warning.hint == f"chmod 0600 {directories.local_file}"


@pytest.mark.parametrize("name", ["local.toml", "config.toml"])
def test_a_file_that_others_can_write_is_not_believed(directories: Directories, name: str) -> None:
    path = directories.config / name
    path.write_text("")
    path.chmod(0o666)
    with pytest.raises(OperatorError) as refused:
        load_settings(directories, {})
    assert refused.value.hint == f"chmod go-w {path}"


def test_a_plugins_entry_outside_local_toml_is_sent_there(directories: Directories) -> None:
    directories.config_file.write_text('[plugins."memory"]\ntoken = "x"\n')
    (problem,) = problems_of(directories)
    assert (problem.code, problem.line) == ("config.misplaced", 1)
    write_local(directories, '[plugins."memory"]\ntoken = "${UNSET}"\n')
    directories.config_file.unlink()
    load_settings(directories, {})


def test_lines_are_found_around_strings_that_look_like_settings(directories: Directories) -> None:
    write_local(
        directories,
        '[plugins.p]\nnote = """\n[limits]\npids = 3\n"""\n[limits]\n"pids" = 5\nlog = 1\n',
    )
    (problem,) = problems_of(directories)
    assert problem.line == 8
    write_local(directories, '[plugins.p]\nnote = """\n[limits]\npids = 3\n"""\n[limits]\n"pids" = 5\n')
    assert load_settings(directories, {}).origins["limits.pids"].line == 7
