"""One home in which secrets are set and used in every way, and all that is seen of it on the way."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Answer, Daemon, daemon, eventually
from paddock.core.clock import SystemRandom
from paddock.core.ids import DEFAULT_TENANT
from paddock.secrets.wrapping_keys import build_wrapping_keys

from . import planted
from .haystacks import files_below, processes
from .planted import (
    BOUND,
    CONFIGURED,
    FOR_REMOTE,
    FOR_SERVER,
    FOR_SHU,
    FOR_WORK,
    IN_ARGUMENT,
    IN_CONFIG,
    IN_HEADERS,
    NAMES,
    OF_ALL,
    OF_ANN,
    VALUES,
)
from .safe import Safe, open_safe
from .web import TOOLS, Web, web

TYPED = [*OF_ALL[:3], *OF_ANN[:2]]  # the others are set without a process each
LITERAL = (FOR_SERVER, IN_ARGUMENT)  # stand in a file that is imported, and in what the server is started with
IMPORTED = (*LITERAL, FOR_REMOTE)
INSTALLED = ("keeper", "shuttle", "seed", "server", "remote", "work")
AS_ANN = {"Paddock_As": "user:ann"}


def typed(paddock: Paddock, name: str, *more: str) -> bytes:
    """Set a secret on stdin; everything that was said, and how the process looked to others meanwhile."""
    return sent(paddock, VALUES[name], "secret", "set", name, *more)


def sent(paddock: Paddock, value: str, *command: str) -> bytes:
    """The same for any command that reads a value on stdin."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with paddock._process(command, **pipes) as process:
        assert process.stdin is not None
        process.stdin.write(value)
        process.stdin.flush()
        looked = b"".join(processes(process.pid).values())
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return looked + out.encode() + err.encode()


class Story:
    """What happened in one home, and all that was seen of it: `places`."""

    def __init__(self, paddock: Paddock, folder: Path, web: Web) -> None:
        self.paddock = paddock
        self.folder = folder
        self.web = web
        self.places: dict[str, bytes] = {}
        self.kept_by_server: set[str] = set()  # what its own process shows

    def told(self, *command: object, as_process: bool = False) -> Any:
        said = self.paddock(*command) if as_process else self.paddock.quickly(*command)
        self.places[" ".join(map(str, command))] = (said.out + said.err).encode()
        return said

    def call(self, running: Daemon, callable_name: str, params: Mapping[str, Any], **headers: str) -> Answer:
        """A call over the API; its answer is looked through too."""
        plugin, _, name = callable_name.partition(".")
        return self.ask(running, "POST", f"/plugins/{plugin}/call/{name}", dict(params), **headers)

    def until_made(self, running: Daemon, name: str, params: Mapping[str, Any], **headers: str) -> Answer:
        """The same, again and again until the call was made: it waits for a yes, or its plugin is being started."""
        made: list[Answer] = []

        def happened() -> bool:
            made.append(self.call(running, name, params, **headers))
            return made[-1].status == 200

        eventually(happened, f"{name} was not made: {made[-1:]}")
        return made[-1]

    def ask(self, running: Daemon, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        answer = running.ask(method, path, body, **headers)
        place = f"{len(self.places)} {method} {path}"
        self.places[place] = json.dumps([answer.body, answer.headers], ensure_ascii=False).encode()
        return answer

    def set_up(self) -> None:
        """Install the plugins, and set every secret."""
        hosts = [f"net:127.0.0.1:{port}" for port in (self.web.port, self.web.other_port)]
        keeper = planted.keeper(self.folder / "keeper", self.web.port, self.web.other_port)
        self.told("plugin", "install", keeper, *(word for host in hosts for word in ("--grant", host)), "--yes")
        for package in (
            planted.shu(self.folder / "shuttle"),
            planted.kernel(self.folder / "seed"),
            planted.work(self.folder / "work"),
        ):
            self.told("plugin", "install", package, "--yes")
        settings, script = planted.server(self.folder / "elsewhere")
        self.told("import", settings, "--capability", f"read:fs:{script}", "--yes", as_process=True)
        remote = planted.remote(self.folder / "elsewhere", f"{self.web.url}/mcp")
        self.told("import", remote, "--yes", as_process=True)
        local = self.paddock.local
        local.write_text(_with_reference(local.read_text()))
        configure = ("plugin", "configure", "keeper", "typed")
        self.places["configure"] = sent(self.paddock, VALUES[CONFIGURED], *configure)
        for plugin in INSTALLED:
            self.told("plugin", "enable", plugin, "--yes", "--no-start")
        self.told("user", "add", "ann")
        for name in TYPED:
            whose = ["--user", "ann"] if name in OF_ANN else []
            self.places[f"set {name}"] = typed(self.paddock, name, *whose, "--json")
        self.keep([name for name in NAMES if name not in (*TYPED, *IMPORTED, CONFIGURED)])

    def keep(self, names: list[str]) -> None:
        """Set secrets without a process each."""
        state = self.paddock.home / "state"
        keys = build_wrapping_keys(self.paddock.environment, state, SystemRandom(), **_source(self.paddock))
        where = self.paddock.store or self.paddock.home / "data" / "paddock.db"
        with open_safe(where, state, keys) as safe:
            for name in names:
                owner = "user:ann" if name in OF_ANN else ""
                Safe(safe.database, safe.keys, DEFAULT_TENANT).set(name, VALUES[name], owner)

    def use(self, running: Daemon) -> None:
        """Every secret reaches whoever may have it."""
        keeper = [name for name in NAMES if name not in (*IMPORTED, CONFIGURED, BOUND)]
        used = [
            self.call(running, "keeper.use", {"name": name}, **(AS_ANN if name in OF_ANN else {})) for name in keeper
        ]
        assert [one.status for one in used] == [200] * len(used), used
        assert [one.body["result"]["length"] for one in used] == [len(VALUES[name]) for name in keeper]
        assert used[0].body["result"]["configured"] == [len(VALUES[IN_CONFIG]), len(VALUES[CONFIGURED])]
        shuttle = self.call(running, "shuttle.shuttle", {"name": FOR_SHU, "fails": False})
        assert shuttle.body["result"]["data"]["length"] == len(VALUES[FOR_SHU])
        server = self.call(running, "server.length", {})
        lengths = f"{len(VALUES[FOR_SERVER])} {len(VALUES[IN_ARGUMENT])}"
        assert server.body["result"]["content"][0]["text"] == lengths, server
        self.trust(running, "remote", TOOLS)
        remote = self.until_made(running, "remote.length", {})
        assert remote.body["result"]["content"][0]["text"] == str(len(f"Bearer {VALUES[FOR_REMOTE]}")), remote
        assert set(self.web.given_with_calls) == {f"Bearer {VALUES[FOR_REMOTE]}"}
        for fails in (False, True):
            work = self.call(running, "work.work", {"name": FOR_WORK, "fails": fails}, Idempotency_Key=f"work{fails}")
            assert work.body["result"]["result"]["length"] == len(VALUES[FOR_WORK]), work

    def trust(self, running: Daemon, plugin: str, tools: Iterable[str]) -> None:
        """Say yes for good to tools that do not say what they change; each is called once with that."""
        for tool in tools:
            held = self.call(running, f"{plugin}.{tool}", {}).body["approval"]["approval"]
            self.told("approval", "approve", held, "--always", "--yes")

    def go_wrong(self, running: Daemon) -> None:
        """Calls that fail, are refused, or take their process with them."""
        wrong = [
            self.call(running, "keeper.fail", {"name": OF_ALL[0]}),
            self.call(running, "keeper.steal", {}),
            self.call(running, "keeper.crash", {"name": OF_ALL[1]}),
            self.call(running, "shuttle.shuttle", {"name": FOR_SHU, "fails": True}),
            self.call(running, "seed.seed", {"name": OF_ALL[0]}),
            self.call(running, "server.fail", {}),
            self.call(running, "remote.refused", {}),
            self.call(running, "remote.broken", {}),
        ]
        assert all(one.status >= 400 for one in wrong), wrong
        again = (("keeper.use", {"name": OF_ALL[1]}), ("server.length", {}), ("remote.length", {}))
        eventually(lambda: all(self.call(running, *one).status == 200 for one in again), "they were not started again")

    def send(self, running: Daemon) -> None:
        """Secrets go out in headers: to whom they are meant for, and to nobody else."""
        paths = ("/echo", "/away", "/broken", "/refused")
        sent = {
            path: self.call(running, "keeper.send", {"url": f"{self.web.url}{path}", "name": IN_HEADERS[0]})
            for path in paths
        }
        assert sent["/echo"].body["result"]["body"] == "you said Bearer [secret]", sent["/echo"]
        assert sent["/away"].body["result"]["body"] == "somebody else: None"
        assert sent["/broken"].status >= 400
        assert sent["/refused"].body["result"]["status"] == 401
        assert set(self.web.given) == {f"Bearer {VALUES[IN_HEADERS[0]]}"}
        bound = self.call(running, "keeper.send", {"url": f"{self.web.url}/echo", "name": BOUND})
        assert bound.body["result"]["body"] == "you said Bearer [secret]", bound
        assert self.web.given[-1] == f"Bearer {VALUES[BOUND]}"
        assert self.call(running, "keeper.use", {"name": BOUND}).status >= 400

    def ask_somebody(self, running: Daemon) -> None:
        """An effect waits for a person, happens with a secret, and leaves an artifact, rows and entries."""
        held = self.call(running, "keeper.act", {"name": OF_ALL[2]}, Idempotency_Key="k1")
        approval = held.body["approval"]["approval"]
        self.told("approval", "show", approval)
        self.told("approval", "approve", approval, "--yes")
        made = self.until_made(running, "keeper.act", {"name": OF_ALL[2]}, Idempotency_Key="k1")
        assert made.body["result"]["length"] == len(VALUES[OF_ALL[2]])

    def park(self, running: Daemon) -> None:
        """Work that is in progress when the daemon is killed, and goes on under the next one."""
        params = {"name": FOR_WORK, "fails": False, "looks": 10_000}
        parked = self.ask(running, "POST", "/plugins/work/call/work?detach=1", params, Idempotency_Key="parked")
        place = f"/calls/{parked.body['call_id']}"
        eventually(lambda: self.ask(running, "GET", place).body["status"] == "in_progress", "it is not in progress")

    def look(self, running: Daemon) -> None:
        """What the API shows, and what every process of this machine shows to others, while all plugins run."""
        held = running.ask("POST", "/plugins/keeper/call/hold?detach=1", {"names": OF_ALL[:9]}).body["call_id"]
        with running.following(f"/calls/{held}/events") as events:
            next(events)
            everybody = processes()
        servers = {place.partition("/")[0]: hay for place, hay in everybody.items() if _is_server(hay)}
        (own,) = (pid for pid, hay in servers.items() if str(self.folder).encode() in hay)
        # The same story may be told beside this one, of another home: what its server has is not of this one.
        others = servers.keys() - {own}
        everybody = {place: hay for place, hay in everybody.items() if place.partition("/")[0] not in others}
        self.kept_by_server = {f"{own}/cmdline", f"{own}/environ"}
        assert any(b"main.py" in hay for hay in everybody.values()), "the plugins are among them"
        _require_environment_of(running.process.pid, everybody)
        self.places |= everybody
        pages = ["/plugins", "/calls", f"/calls/{held}", "/status", "/metrics", "/approvals"]
        pages += [f"/plugins/{name}{page}" for name in INSTALLED for page in ("", "/logs")]
        shown = {page: self.ask(running, "GET", page).status for page in pages}
        assert set(shown.values()) == {200}, shown
        self.keep_files("running")

    def look_afterwards(self) -> None:
        """What commands show of it."""
        doubt = self.told("call", "unresolved", "list", "--json").json
        lost = {one["callable"]: one["call_id"] for one in doubt["doubts"]}
        # What was under way to the server when its connection broke may be lost too.
        assert set(lost) - {"length"} == {"crash", "hold", "broken"}, doubt
        self.told("call", "unresolved", "show", lost["hold"])
        self.told("call", "unresolved", "resolve", lost["hold"], "--not-happened", "--yes")
        export = self.folder / "export.jsonl"
        for command in (
            ("secret", "list"),
            ("secret", "list", "--json"),
            ("secret", "remove", NAMES[0], "--yes", "--json"),
            ("ledger", "tail", "--json"),
            ("ledger", "export", export),
            *(("plugin", "logs", name) for name in INSTALLED),
            *(("plugin", "show", name, "--json") for name in INSTALLED),
            ("call", "keeper.use", "--params", json.dumps({"name": NAMES[4]})),
        ):
            self.told(*command, as_process=command[0] == "secret")
        self.places["export"] = export.read_bytes()
        self.keep_files("afterwards")

    def keep_files(self, when: str) -> None:
        self.places |= {f"{when} {file}": content for file, content in files_below(self.paddock.home).items()}


def _with_reference(text: str) -> str:
    """local.toml with a secret named where its value would stand."""
    head, section, rest = text.partition("[plugins.keeper]\n")
    assert section, text
    return f'{head}{section}api_key = "${{secret:{IN_CONFIG}}}"\n{rest}'


def _source(paddock: Paddock) -> dict[str, Any]:
    preferred = paddock.more.get("PADDOCK_SECRETS_KEY", "file")
    file = paddock.more.get("PADDOCK_SECRETS_PASSPHRASE_FILE")
    return {"preferred": preferred} | ({"passphrase_file": file} if file else {})


def _require_environment_of(daemon: int, looked_at: Mapping[str, bytes]) -> None:
    """See that the daemon's environment was looked through, or is kept from all but who administers the machine."""
    hay = looked_at.get(f"{daemon}/environ")
    if hay is None:
        assert os.geteuid() != 0 and Path(f"/proc/{daemon}/environ").stat().st_uid == 0, "it was not looked at"
    else:
        assert b"PADDOCK_SECRETS_KEY=" in hay, "what stands there is found"


def _is_server(commandline: bytes) -> bool:
    """Whether a process is the MCP server itself, and not what stands around it."""
    return b"elsewhere/server.py" in commandline and b"bwrap" not in commandline


@contextmanager
def killed(paddock: Paddock) -> Generator[Daemon, None, None]:
    """A daemon that is killed hard at the end of the block."""
    with daemon(paddock) as running:
        yield running
        running.process.kill()


def tell_everything(paddock: Paddock, folder: Path) -> Story:
    """All that can happen to secrets, in one home."""
    with web(folder) as outside:
        trusting = {"SSL_CERT_FILE": str(outside.authority), "PADDOCK_SECRETS_KEY": "file"}
        trusting["PADDOCK_LOG_LEVEL"] = "debug"
        paddock = Paddock(paddock.home, paddock.store, {**paddock.more, **trusting})
        story = Story(paddock, folder, outside)
        story.set_up()
        # A new Python: the environment of one that was ready before is not the daemon's own to those who look.
        with killed(dataclasses.replace(paddock, fresh=True)) as running:
            story.use(running)
            story.send(running)
            story.ask_somebody(running)
            story.go_wrong(running)
            story.park(running)
            story.look(running)
        story.places["daemon"] = "".join(running.log).encode()
        story.keep_files("killed")
        with daemon(paddock) as again:
            story.told("secret", "rotate", "--yes", as_process=True)
        story.places["daemon again"] = "".join(again.log).encode()
        story.look_afterwards()
    return story
