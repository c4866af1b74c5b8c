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


def project_problems(directories: Directories, cwd: Path, environ: dict[str, str] | None = None) -> list[Problem]:
    """What is wrong with the project's file; it stops nothing, so it comes as warnings."""
    said, *problems = load_settings(directories, environ or {}, cwd=cwd).warnings
    assert said.code == "config.project_ignored"
    return problems


def test_the_strongest_source_wins_and_each_value_knows_where_it_came_from(
    directories: Directories, project: Path
) -> None:
    directories.config_file.write_text("# ours\n[limits]\npids = 90\nmemory_mb = 400\ncall_timeout_s = 20\n")
    write_local(directories, "[limits]\nmemory_mb = 300\ncall_timeout_s = 19\n[http]\nmax_connections = 90\n")
    write_project(
        project, "[limits]\ncall_timeout_s = 18\n[http]\nmax_connections = 80\n[plugins]\nmcp_timeout_ms = 20000\n"
    )
    loaded = load_settings(
        directories,
        {"PADDOCK_HTTP_MAX_CONNECTIONS": "70", "PADDOCK_PLUGINS_MCP_TIMEOUT_MS": "6000"},
        cwd=project / "deep" / "down",
        flags={"plugins.mcp_timeout_ms": "5000"},
    )
    seen = {name: (value, str(origin)) for name, value, origin in loaded.rows()}
    assert seen["limits.cpu_weight"] == ("256", "default")
    assert seen["limits.pids"] == ("90", f"{directories.config_file}:3")
    assert seen["limits.memory_mb"] == ("300", f"{directories.local_file}:2")
    assert seen["limits.call_timeout_s"] == ("18", f"{project}/.paddock/config.toml:2")
    assert seen["http.max_connections"] == ("70", "environment PADDOCK_HTTP_MAX_CONNECTIONS")
    assert seen["plugins.mcp_timeout_ms"] == ("5000", "flag plugins.mcp_timeout_ms")
    assert loaded.settings.plugins.mcp_timeout_ms == 5000
    assert loaded.warnings == ()


def test_every_mistake_of_every_source_is_reported_at_once(directories: Directories) -> None:
    directories.config_file.write_text("[http]\nmax_connection = 3\n\n[limits]\npids = 'lots'\n[nonsense]\na = 1\n")
    write_local(directories, "mcp_timeout_ms = 1\n")
    found = problems_of(directories, {"PADDOCK_LIMITS_PIDS": "0"})
    assert {(problem.path.rpartition(": ")[2], problem.code, problem.line) for problem in found} == {
        ("http.max_connection", "config.unknown", 2),
        ("limits.pids", "config.type", 5),
        ("nonsense", "config.unknown", 6),
        ("mcp_timeout_ms", "config.out_of_bounds", 1),
        ("PADDOCK_LIMITS_PIDS", "config.out_of_bounds", None),
    }
    assert any("did you mean http.max_connections?" in problem.hint for problem in found)


def test_two_names_of_one_setting_must_agree(directories: Directories) -> None:
    both = {"OSQR_PLUGINS_MCP_TIMEOUT_MS": "400", "PADDOCK_PLUGINS_MCP_TIMEOUT_MS": "500"}
    (problem,) = problems_of(directories, both)
    assert problem.code == "config.conflict"
    assert "OSQR_PLUGINS_MCP_TIMEOUT_MS" in problem.message
    assert "PADDOCK_PLUGINS_MCP_TIMEOUT_MS" in problem.message
    agreed = load_settings(directories, {**both, "OSQR_PLUGINS_MCP_TIMEOUT_MS": "500"})
    assert agreed.settings.plugins.mcp_timeout_ms == 500
    directories.config_file.write_text("mcp_timeout_ms = 300\n[plugins]\nmcp_timeout_ms = 400\n")
    (problem,) = problems_of(directories)
    assert (problem.code, problem.line) == ("config.conflict", 3)


def test_a_misspelt_variable_is_a_warning_and_an_empty_one_counts_as_unset(directories: Directories) -> None:
    loaded = load_settings(
        directories, {"OSQR_PLUGINS_MCP_TIMEOUT": "4", "PADDOCK_LIMITS_PIDS": "", "PADDOCK_COLOUR_OF_SHED": "red"}
    )
    (warning,) = loaded.warnings
    assert warning.hint == "did you mean OSQR_PLUGINS_MCP_TIMEOUT_MS?"
    assert loaded.settings.limits.pids == 100


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


@pytest.mark.parametrize("text", ["a = " + "[" * 60_000, "a = " + "{b=" * 5_000, "a." * 5_000 + "a = 1"])
def test_a_deeply_nested_project_file_is_refused_and_does_not_crash_us(
    directories: Directories, project: Path, text: str
) -> None:
    write_project(project, text)
    assert project_problems(directories, project)[0].code == "config.not_toml"


def test_a_project_can_only_tighten(directories: Directories, project: Path) -> None:
    write_local(directories, "[limits]\nmemory_mb = 256\n")
    refused = {
        "mcp_timeout_ms = 40000": ("plugins.mcp_timeout_ms", "config.project_forbidden"),
        "context_detection_threshold = 0.6": ("context_detection_threshold", "config.reserved_setting"),
        "[limits]\nmemory_mb = 300": ("limits.memory_mb", "config.project_forbidden"),
        "[store]\nurl = '/tmp/theirs.db'": ("store.url", "config.project_forbidden"),
        "[http]\naddress = '0.0.0.0:80'": ("http.address", "config.project_forbidden"),
        "[plugins]\nenvironments = true": ("plugins.environments", "config.project_forbidden"),
        "[plugins]\nallowed_domains = ['evil.example']": ("plugins.allowed_domains", "config.project_forbidden"),
        "[plugins.thief]\ninstalled = '1.0.0'": ("plugins.thief", "config.misplaced"),
    }
    for text, expected in refused.items():
        write_project(project, text)
        (problem,) = project_problems(directories, project)
        assert (problem.path.rpartition(": ")[2], problem.code) == expected
    write_project(project, "[limits]\nmemory_mb = 200\n")
    assert load_settings(directories, {}, cwd=project).settings.limits.memory_mb == 200


def test_a_projects_file_with_a_mistake_is_ignored_as_a_whole_and_stops_nothing(
    directories: Directories, project: Path
) -> None:
    write_project(project, "[limits]\nmemory_mb = 20\n[store]\nurl = '/tmp/theirs.db'\n")
    loaded = load_settings(directories, {}, cwd=project)
    assert loaded.settings.limits.memory_mb == load_settings(directories, {}).settings.limits.memory_mb
    assert loaded.settings.store.url is None
    assert loaded.warnings[0].message == "this project's settings are ignored, for they have 1 mistake"
    write_project(project, "".join(f"nonsense{number} = 1\n" for number in range(500)))
    assert len(load_settings(directories, {}, cwd=project).warnings) < 10


def test_mistakes_are_told_in_words_and_plain_numbers(directories: Directories) -> None:
    directories.config_file.write_text("[limits]\nmemory_mb = 9999999999\npids = 'lots'\n[log]\nlevel = 3\nlovel = 1\n")
    told = {problem.path.rpartition(": ")[2]: (problem.message, problem.hint) for problem in problems_of(directories)}
    assert told["limits.memory_mb"] == ("9999999999 is out of bounds", "from 16 to 1048576")
    assert told["limits.pids"] == ("expected a whole number, found text", "")
    assert told["log.level"] == ("expected text, found a whole number", "")
    assert told["log.lovel"][1] == "did you mean log.level?"
    directories.config_file.write_text("[log]\nzzzzzzzz = 1\n[shed]\ncolour = 2\n")
    first, second = problems_of(directories)
    assert first.hint.startswith("known in [log]: ")
    assert second.hint.startswith("the tables are: ")


def test_a_file_that_is_not_toml_is_told_once_with_the_reason_and_the_file_to_edit(directories: Directories) -> None:
    write_local(directories, '[plugins.weather]\ninstalled = "1.0.0"\n[plugins."weather"]\napi_key = "hunter2"\n')
    with pytest.raises(Invalid) as refused:
        load_settings(directories, {})
    (problem,) = refused.value.problems
    assert problem.line == 3
    assert "weather" in problem.message and "twice" in problem.message
    assert refused.value.message == f"{directories.local_file} is not valid TOML"
    assert refused.value.hint == f"correct it: $EDITOR {directories.local_file}"
    directories.config_file.write_text("]")
    assert len(problems_of(directories)) == 2


def test_a_project_takes_nothing_from_the_environment(directories: Directories, project: Path) -> None:
    write_project(project, '[limits]\npids = "${SECRET}"\n')
    (problem,) = project_problems(directories, project, {"SECRET": "hunter2"})
    assert problem.code == "config.type"
    assert "hunter2" not in str(problem)


def test_a_project_file_that_is_a_pipe_a_directory_or_endless_is_refused_at_once(
    directories: Directories, project: Path
) -> None:
    path = project / ".paddock" / "config.toml"
    os.mkfifo(path)
    assert project_problems(directories, project)[0].code == "config.unreadable"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert project_problems(directories, project)[0].code == "config.unreadable"
    path.unlink()
    path.write_bytes(b"#" * (1 << 20) + b"\n")
    assert project_problems(directories, project)[0].code == "config.too_large"


def test_hostile_keys_cannot_write_to_the_terminal(directories: Directories, project: Path) -> None:
    hostile = project / "\x1b[2J"
    (hostile / ".paddock").mkdir(parents=True)
    write_project(hostile, '"\\u001b[2J' + "x" * 500 + '" = 1\n')
    (problem,) = project_problems(directories, hostile)
    assert str(problem).isprintable()
    assert len(str(problem)) < 600
    write_project(hostile, "]")
    assert str(project_problems(directories, hostile)[0]).isprintable()


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


@pytest.mark.parametrize(
    "text",
    [
        "a." * 20_000 + "a = 1",
        "[" + "a." * 20_000 + "a]",
        "x = {" + "a . " * 20_000 + "a = 1}",
        "[limits]\n" + "memory_mb = " + "9" * 5_000,
        "[limits]\n" + "memory_mb = " + "9" * 400,
    ],
)
def test_a_settings_file_made_to_hold_us_up_is_refused(directories: Directories, text: str) -> None:
    directories.config_file.write_text(text, encoding="utf-8")
    assert len(problems_of(directories)) == 1


def test_a_file_of_nothing_but_mistakes_is_told_in_portions(directories: Directories) -> None:
    keys = "\n".join(f"unknown_{number} = 1" for number in range(5_000))
    directories.config_file.write_text(f"[limits]\n{keys}\n", encoding="utf-8")
    assert len(problems_of(directories)) == 50


def test_dots_in_text_and_numbers_are_no_long_keys(directories: Directories) -> None:
    text = f'[plugins."x"]\nurl = "{"a." * 100}"\nlist = [{"1.5, " * 100}]\n'
    directories.local_file.write_text(text, encoding="utf-8")
    directories.local_file.chmod(0o600)
    assert load_settings(directories, {}).warnings == ()
