"""References in what a plugin runs with are filled when it starts, and only then."""

from __future__ import annotations

import pytest

from paddock.core.errors import Invalid
from paddock.core.ids import PluginName
from paddock.host.plugins.launch.substitution import substitute_references
from paddock.manifest.model import CommandRuntime, Dialect, Manifest, RemoteRuntime, Runtime


def server(runtime: Runtime) -> Manifest:
    return Manifest(PluginName("server"), "1.0.0", Dialect.MCP, runtime=runtime)


def test_fields_and_the_plugins_folder_stand_in_its_command_and_variables() -> None:
    runtime = CommandRuntime(
        ("node", "${__dirname}/main.js", "--port=${user_config.port}", "--safe=${user_config.safe}"),
        "mcp",
        {"TOKEN": "Bearer ${user_config.token}", "PLAIN": "$HOME"},
    )
    found = substitute_references(
        server(runtime), {"port": 80, "safe": True, "token": "hush"}, "/plugins/server", "/own"
    )
    assert found.runtime == CommandRuntime(
        ("node", "/plugins/server/main.js", "--port=80", "--safe=true"),
        "mcp",
        {"TOKEN": "Bearer hush", "PLAIN": "$HOME"},
    )


def test_a_field_with_several_values_becomes_as_many_words_of_the_command() -> None:
    runtime = CommandRuntime(("serve", "${user_config.folders}"), "mcp")
    found = substitute_references(server(runtime), {"folders": ["/a b", "/c"]}, "/", "/own")
    assert found.runtime == CommandRuntime(("serve", "/a b", "/c"), "mcp")


def test_a_value_that_looks_like_a_reference_means_itself() -> None:
    runtime = RemoteRuntime("https://x.example/mcp", headers={"Authorization": "${user_config.token}"})
    found = substitute_references(server(runtime), {"token": "${user_config.other} ${__dirname}"}, "/", "/own")
    assert isinstance(found.runtime, RemoteRuntime)
    assert found.runtime.headers == {"Authorization": "${user_config.other} ${__dirname}"}


def test_a_variable_or_an_argument_that_begins_with_the_plugins_own_folder_names_a_file_in_it() -> None:
    command = ("serve", "config:/notes.db", "--db=config:/notes.db", "config:notes.db", "${user_config.typed}")
    runtime = CommandRuntime(command, "mcp", {"FILE": "config:/${user_config.file}", "FOLDER": "config:/"})
    found = substitute_references(server(runtime), {"file": "a.txt", "typed": "config:/typed"}, "/", "/own")
    assert found.runtime == CommandRuntime(
        ("serve", "/own/notes.db", "--db=config:/notes.db", "config:notes.db", "/own/typed"),
        "mcp",
        {"FILE": "/own/a.txt", "FOLDER": "/own/"},
    )


def test_every_field_without_a_value_is_named_with_the_line_to_type() -> None:
    runtime = CommandRuntime(("serve", "${user_config.one}"), "mcp", {"TWO": "${user_config.two}"})
    with pytest.raises(Invalid) as refused:
        substitute_references(server(runtime), {}, "/", "/own")
    assert [problem.path for problem in refused.value.problems] == ["one", "two"]
    assert (action := refused.value.problems[0].action) and action.kind == "plugin.configure"
