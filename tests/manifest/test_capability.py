"""The capability grammar and what including another means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.manifest.documents import kaged, sound, the_only_error
from tests.manifest.strategies import capabilities

from fixtures.all_cases import all_cases
from paddock.manifest.capability import (
    HOST_FAMILIES,
    Capability,
    Execute,
    FileAccess,
    HostService,
    InvalidCapability,
    NetworkAccess,
    NoNetwork,
    SecretUse,
    StorageAccess,
    covers,
    describe_capability,
    is_dangerous,
    is_harmless,
    merge_capabilities,
    missing_capabilities,
    parse_capability,
)
from paddock.manifest.secret_use import parse_recipient

GOOD: list[tuple[str, Capability]] = [
    ("read:fs:/opt/oh-my-pi", FileAccess("read", "/opt/oh-my-pi")),
    ("write:fs:/var/lib/ollama/models", FileAccess("write", "/var/lib/ollama/models")),
    ("read:fs:/", FileAccess("read", "/")),
    ("read:fs:/opt//data/./x/", FileAccess("read", "/opt/data/x")),
    ("read:fs:/opt/with space", FileAccess("read", "/opt/with space")),
    ("read:fs:/opt/..data", FileAccess("read", "/opt/..data")),
    ("read:fs:config:/memory", FileAccess("read", "/memory", "config")),
    ("write:fs:project:/notes", FileAccess("write", "/notes", "project")),
    ("read:fs:project:/", FileAccess("read", "/", "project")),
    ("exec:bash:/opt/oh-my-pi", Execute("bash", "/opt/oh-my-pi")),
    ("exec:g++:project:/", Execute("g++", "/", "project")),
    ("net:api.openai.com:443", NetworkAccess("api.openai.com", 443)),
    ("net:API.OpenAI.com:443", NetworkAccess("api.openai.com", 443)),
    ("net:localhost:*", NetworkAccess("localhost", None)),
    ("net:127.0.0.1:8080", NetworkAccess("127.0.0.1", 8080)),
    ("net:[::1]:80", NetworkAccess("[::1]", 80)),
    ("net:*", NetworkAccess("*", None)),
    ("net:[]", NoNetwork()),
    ("kaged:storage:read", StorageAccess("read")),
    ("kaged:storage:write", StorageAccess("write")),
    ("paddock:storage:read", StorageAccess("read")),
    ("storage:write", StorageAccess("write")),
    ("host:http", HostService("http")),
    ("host:rate_limit", HostService("rate")),
    ("host:vault:read", HostService("vault", "read")),
    ("host:memory:full", HostService("memory", "full")),
    ("secret:plugin.key", SecretUse("plugin.key")),
    ("secret:a:b=API.example.com:443", SecretUse("a:b", parse_recipient("api.example.com:443"))),
    ("secret:a=X-Key@[::1]:80", SecretUse("a", parse_recipient("x-key@[::1]:80"))),
]

BAD = [
    *(
        "secret:",
        "secret:two words",
        "secret:-a",
        "secret:a=",
        "secret:a=[]",
        "secret:a=b",
        "secret:a=*",
        "secret:a=@b:1",
        "secret:a=x y@b:1",
        "secret:$(id)",
    ),
    *("", "read", "read:", "read:fs", "read:fs:", "read:net:/x", "delete:fs:/x", "READ:fs:/x", "read:fs:data"),
    *("read:fs:./data", "read:fs:~/data", "read:fs:/opt/../etc", "read:fs:/..", "read:fs:config:memory"),
    *(
        "read:fs:config:/../x",
        "read:fs:project:",
        "read:fs:home:/x",
        "read:fs:/opt/*",
        "read:fs:/opt/?",
        "write:fs:/a[b]",
    ),
    *("read:fs:/opt/{a,b}", "read:fs:/opt\n", "read:fs:/o\x1bpt", "read:fs:/\u202eopt", "read:fs:/" + "x" * 1024),
    *("exec:bash", "exec::/x", "exec:/bin/bash:/x", "exec:ba sh:/x", "exec:bash:opt", "exec:bash:/opt/*"),
    *("net:", "net:host", "net:host:", "net:host:0", "net:host:65536", "net:host:http", "net:host:-1", "net:host:٣"),
    *(
        "net:*:443",
        "net:ho st:1",
        "net:-host:1",
        "net:host_name:1",
        "net:a..b:1",
        "net:[::1]",
        "net:[::g]:1",
        "net:[]:1",
    ),
    *("net:[fe80::1%eth0]:1", "net:" + "a" * 64 + ":1", "net:" + "a." * 130 + "a:1"),
    *("storage", "storage:", "storage:delete", "kaged:storage", "kaged:hooks:read"),
    *("host:", "host:everything", "host:vault", "host:vault:delete", "host:http:read", "host:memory"),
]


@pytest.mark.req("G-17", "grammar")
@all_cases(("text", "meant"), GOOD, ids=[text for text, _ in GOOD])
def test_a_capability_of_the_grammar_means_what_it_says(text: str, meant: Capability) -> None:
    assert parse_capability(text) == meant
    assert parse_capability(str(meant)) == meant


@pytest.mark.req("G-17", "grammar")
@all_cases("text", BAD)
def test_what_is_outside_the_grammar_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(InvalidCapability) as refused:
        parse_capability(text)

    assert refused.value.hint
    assert refused.value.message.isprintable()


@pytest.mark.req("G-17", "no network in both spellings")
@pytest.mark.parametrize("entry", ["net:[]", {"net": []}, {"net": None}])
def test_no_network_may_be_written_as_text_or_as_the_map_that_yaml_makes_of_it(entry: object) -> None:
    assert sound(kaged(capabilities=[entry])).capabilities == (NoNetwork(),)


def test_a_map_of_network_targets_and_a_stray_space_mean_what_their_author_meant() -> None:
    manifest = sound(kaged(capabilities=[{"net": ["a.example:443", "b.example:80"]}, {"read:fs": "/opt/x"}]))

    assert manifest.capabilities == (
        NetworkAccess("a.example", 443),
        NetworkAccess("b.example", 80),
        FileAccess("read", "/opt/x"),
    )


@pytest.mark.parametrize("entry", [{}, {"net": [1]}, {"net": {}}, {"a": "b", "c": "d"}, {"read": ["fs"]}])
def test_any_other_map_is_no_capability(entry: object) -> None:
    error = the_only_error(kaged(capabilities=[entry]))

    assert (error.path, error.code) == ("capabilities[0]", "capability")


@all_cases(
    ("granted", "asked", "included"),
    [
        ("read:fs:/opt", "read:fs:/opt/x", True),
        ("read:fs:/opt", "read:fs:/optional", False),
        ("read:fs:/opt", "write:fs:/opt", False),
        ("write:fs:/opt", "read:fs:/opt/x", True),
        ("read:fs:/", "read:fs:/anything", True),
        ("read:fs:/", "read:fs:project:/x", False),
        ("read:fs:project:/", "read:fs:project:/x", True),
        ("read:fs:project:/", "read:fs:config:/x", False),
        ("net:*", "net:a.example:443", True),
        ("net:a.example:*", "net:a.example:443", True),
        ("net:a.example:443", "net:a.example:*", False),
        ("net:a.example:443", "net:b.a.example:443", False),
        ("net:a.example:443", "net:*", False),
        ("storage:write", "storage:read", True),
        ("storage:read", "storage:write", False),
        ("host:memory:full", "host:memory:reference_only", True),
        ("host:memory:reference_only", "host:memory:full", False),
        ("host:vault:write", "host:vault:read", False),
        ("exec:bash:/opt", "exec:sh:/opt", False),
        ("storage:read", "net:[]", True),
    ],
)
def test_what_a_grant_includes(granted: str, asked: str, *, included: bool) -> None:
    assert covers(parse_capability(granted), parse_capability(asked)) is included


@given(capabilities())
def test_a_grant_includes_itself(one: Capability) -> None:
    assert covers(one, one)
    assert missing_capabilities([one], [one]) == []


@given(st.lists(capabilities(), min_size=3, max_size=12))
def test_what_a_grant_includes_includes_no_more_than_the_grant(ones: list[Capability]) -> None:
    for first in ones:
        for second in ones:
            for third in ones:
                if covers(first, second) and covers(second, third):
                    assert covers(first, third)


@given(st.lists(capabilities(), max_size=8), st.lists(capabilities(), max_size=8))
def test_what_needs_a_yes_is_exactly_what_no_grant_includes(granted: list[Capability], asked: list[Capability]) -> None:
    missing = missing_capabilities(granted, asked)

    for one in asked:
        held = isinstance(one, NoNetwork) or any(covers(grant, one) for grant in granted)
        assert (one in missing) is not held
    assert missing_capabilities([*granted, *missing], asked) == []


@given(capabilities())
def test_every_capability_is_written_back_and_told_in_words(one: Capability) -> None:
    assert parse_capability(str(one)) == one
    assert describe_capability(one)
    assert isinstance(is_dangerous(one), bool)


def test_every_service_of_the_host_is_told_in_words() -> None:
    assert all(describe_capability(HostService(family)) == words for family, words in HOST_FAMILIES.items())
    assert "read" in describe_capability(parse_capability("host:vault:read"))
    assert describe_capability(parse_capability("net:*")).endswith("(dangerous)")
    assert describe_capability(parse_capability("exec:git:/")) == "run the program git", "and it is shown no directory"
    assert describe_capability(parse_capability("exec:git:/srv/a")) == "run the program git, and read /srv/a"


@pytest.mark.parametrize("text", ["write:fs:/opt", "exec:bash:/opt", "net:a.example:1", "storage:write", "host:http"])
def test_a_cage_that_can_change_something_is_not_harmless(text: str) -> None:
    assert not is_harmless([parse_capability("read:fs:/opt"), parse_capability(text)])
    assert is_harmless(
        [
            parse_capability("read:fs:/opt"),
            parse_capability("storage:read"),
            NoNetwork(),
            parse_capability("host:cache"),
        ]
    )


def test_lists_are_joined_without_saying_both_network_and_none() -> None:
    api, other = NetworkAccess("api.example.com", 443), StorageAccess("read")

    assert merge_capabilities([NoNetwork(), other], [api, api]) == (other, api)
    assert merge_capabilities([NoNetwork()], [other]) == (NoNetwork(), other)


def test_a_file_is_not_called_a_folder_nor_a_folder_a_file() -> None:
    assert (
        describe_capability(parse_capability("read:fs:/etc/hostname"))
        == "read /etc/hostname, and everything in it if it is a folder"
    )
    assert describe_capability(parse_capability("read:fs:project:/")) == "read everything in your project"
    assert describe_capability(parse_capability("write:fs:/")) == "read and change everything on this machine"


@all_cases(
    "path",
    [
        "/etc/shadow",
        "/etc/gshadow-",
        "/etc/sudoers.d/ops",
        "/etc/ssl",  # and so its private folder
        "/etc/ssl/private/a.key",
        "/etc/ssh/ssh_host_ed25519_key",
        "/root",
        "/root/.bash_history",
        "/home",
        "/home/ada",
        "/home/ada/.ssh",
        "/home/ada/.ssh/id_ed25519",
        "/srv/people/ada/.gnupg",
        "/home/ada/.aws/credentials",
        "/home/ada/.config",  # and so what clouds keep there
        "/home/ada/.config/gcloud",
        "/home/ada/.kube/config",
        "/home/ada/.docker",
        "/home/ada/.local/share",
        "/home/ada/.local/share/paddock/paddock.db",
        "/home/ada/.local/share/fish/fish_history",
    ],
)
def test_asking_for_a_place_of_credentials_is_dangerous_and_says_what_lies_there(path: str) -> None:
    asked = parse_capability(f"read:fs:{path}")

    assert is_dangerous(asked)
    assert "; it holds " in describe_capability(asked) and describe_capability(asked).endswith(" (dangerous)")


@pytest.mark.parametrize(
    "text",
    [
        "read:fs:/etc/hostname",
        "read:fs:/etc/ssl/certs",
        "read:fs:/etc/shadow.example",
        "read:fs:/home/ada/notes",
        "read:fs:/root/notes",
        "read:fs:/home/ada/.config/editor",
        "read:fs:/srv/price_history",
        "write:fs:config:/.ssh",
        "read:fs:project:/etc/shadow",
    ],
)
def test_an_ordinary_place_alarms_nobody(text: str) -> None:
    assert not is_dangerous(parse_capability(text))
    assert "dangerous" not in describe_capability(parse_capability(text))


@pytest.mark.parametrize(
    "path",
    [
        "/home/ada/.bashrc",
        "/home/ada/.config/autostart",
        "/home/ada/.config/systemd/user/x.service",
        "/home/ada/.local/bin",
        "/home/ada/.config/Code/User",
        "/etc/cron.d",
        "/etc/ld.so.preload",
        "/usr/local/bin/tool",
    ],
)
def test_writing_what_is_run_without_a_cage_is_dangerous_and_reading_it_is_not(path: str) -> None:
    assert is_dangerous(FileAccess("write", path))
    assert describe_capability(FileAccess("write", path)).endswith("is run without a cage (dangerous)")
    assert not is_dangerous(FileAccess("read", path))


@pytest.mark.parametrize("path", ["/srv/docs/notes", "/home/ada/Documents", "/home/ada/code/lib", "/opt/data/usr/bin"])
def test_writing_where_a_person_keeps_documents_is_not(path: str) -> None:
    assert not is_dangerous(FileAccess("write", path))


@pytest.mark.parametrize(
    "path", ["/home/ada/.claude.json", "/home/ada/.codex/config.toml", "/home/ada/.cursor/mcp.json"]
)
def test_the_settings_of_ai_clients_hold_keys(path: str) -> None:
    assert is_dangerous(FileAccess("read", path))
