"""Fifty secrets, and plugins of every kind that use them: in calls that succeed, fail, crash and are lost."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from fixtures.packages import native, write_file, write_json

NAMES = [f"canary_{number}" for number in range(50)]
OF_ALL, OF_ANN = NAMES[::2], NAMES[1::2]
IN_HEADERS = OF_ALL[-3:]
FOR_SHU, IN_CONFIG, FOR_SERVER, IN_ARGUMENT, FOR_WORK = OF_ALL[-4], OF_ALL[-5], OF_ALL[-6], OF_ALL[-7], OF_ALL[-8]
FOR_REMOTE, BOUND = IN_HEADERS[1:]
CONFIGURED = OF_ALL[-9]
# What no header can carry is in all but those that are sent in one.
VALUES = {name: f'{secrets.token_hex(8)}-"{"" if name in IN_HEADERS else "ü"}&= %{name}' for name in NAMES}

KEEPER = """
import os, sys, time
from paddock_sdk import Plugin

plugin = Plugin("keeper", "1.0.0")

@plugin.tool
def use(params, context):
    found = plugin.host.secrets.get(params["name"]).wait()
    return {"length": len(found or ""), "configured": [len(plugin.config.get(key, "")) for key in ("api_key", "typed")]}

@plugin.tool
def hold(params, context):
    found = [plugin.host.secrets.get(name).wait() for name in params["names"]]
    plugin.progress(len(found), len(found), "held")
    while True:
        time.sleep(0.02)
        plugin.check_cancelled()

@plugin.tool
def act(params, context):
    found = plugin.host.secrets.get(params["name"]).wait()
    kept = plugin.host.artifacts.put(b"%d characters" % len(found)).wait()
    plugin.host.sql.exec("CREATE TABLE IF NOT EXISTS lengths (n)").wait()
    plugin.host.sql.exec("INSERT INTO lengths VALUES (?)", [len(found)]).wait()
    plugin.host.audit.write("used", length=len(found)).wait()
    plugin.host.log.info("used", length=len(found))
    return {"length": len(found), "kept": str(kept)}

@plugin.tool
def fail(params, context):
    failing(plugin.host.secrets.get(params["name"]).wait())

def failing(found):
    raise RuntimeError("it did not work, with %d characters" % len(found))

@plugin.tool
def steal(params, context):
    return {"got": plugin.host.secrets.get("not_declared").wait()}

@plugin.tool
def crash(params, context):
    found = plugin.host.secrets.get(params["name"]).wait()
    os.abort()

@plugin.tool
def send(params, context):
    header = {"secret": params["name"], "prefix": "Bearer "}
    answer = plugin.host.http.fetch({"url": params["url"], "headers": {"Authorization": header}}).wait()
    return {"status": answer["status"], "body": answer["body"], "echo": answer["headers"].get("x-echo")}

plugin.run()
"""
SHU = """
class Plugin:
    async def execute(self, params, context, host):
        found = await host.secrets.get(params["name"])
        if params["fails"]:
            self.failing(found, {"authorization": found})
        return {"status": "success", "data": {"length": len(found)}}

    def failing(self, found, headers):
        headers["nothing"]
"""
KERNEL = """
async def run(call, host):
    return {"status": "succeeded", "result": {"got": await host.secrets.get(call["payload"]["name"])}}
"""
SERVER = """
import json, os, sys

TOOL = {"name": "length", "description": "How long its keys are", "inputSchema": {"type": "object"}}
FAIL = {"name": "fail", "description": "Fails", "inputSchema": {"type": "object"}}

def failing(key):
    return {}["nothing"]

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    match asked["method"]:
        case "initialize":
            answer = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
            answer["serverInfo"] = {"name": "server", "version": "1"}
        case "tools/list":
            answer = {"tools": [TOOL, FAIL]}
        case "tools/call" if asked["params"]["name"] == "fail":
            failing(os.environ["API_TOKEN"])
        case "tools/call":
            lengths = f"{len(os.environ['API_TOKEN'])} {len(sys.argv[2])}"
            answer = {"content": [{"type": "text", "text": lengths}]}
        case _:
            answer = {}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""
WORK = """
async def run(call, host):
    found = await host.secrets.get(call["payload"]["name"])
    asked = call.get("in_progress", {}).get("asked", 0)
    if call["payload"]["fails"] and asked == 1:
        raise OSError("the service is away, with %d characters" % len(found))
    if asked < call["payload"].get("looks", 3):
        return {"status": "in_progress", "result": {"length": len(found)}, "retry_after_s": 0.1}
    return {"status": "succeeded", "result": {"length": len(found)}}
"""
CONFIG = {
    "type": "object",
    "properties": {"api_key": {"type": "string"}, "typed": {"type": "string", "x-secret": True}},
}


def keeper(folder: Path, *ports: int) -> Path:
    """A plugin that uses secrets in every way that our own contract has."""
    effects = dict.fromkeys(("use", "fail", "steal", "send"), "read_only")
    effects |= {"hold": "db_write", "crash": "db_write", "act": "external_call"}
    tools = [
        {"name": name, "description": name, "effects": [effect], "input_schema": {"type": "object"}}
        for name, effect in effects.items()
    ]
    tools[-1]["effects"].append("db_write")
    granted = ["host:secrets", "host:http", "host:artifacts", "storage:write"]
    granted += [f"net:127.0.0.1:{port}" for port in ports]
    native(
        folder,
        "keeper",
        runtime={"command": ["python3", "./main.py"]},
        capabilities=granted,
        secrets=[*NAMES],
        secret_hosts={BOUND: [f"127.0.0.1:{port}" for port in ports[:1]]} if ports else {},
        tools=tools,
        system_config_schema=CONFIG,
    )
    write_file(folder / "main.py", KEEPER)
    return folder


def shu(folder: Path) -> Path:
    about = {"name": "shuttle", "version": "1.0.0", "entrypoints": {"shuttle": "shuttle.plugin:Plugin"}}
    auth = {"shuttle": {"secrets": {FOR_SHU: {"allowed_scope": "system"}}}}
    write_json(folder / "manifest.yaml", about | {"capabilities": ["secrets"], "op_auth": auth})
    write_file(folder / "shuttle" / "__init__.py", "")
    write_file(folder / "shuttle" / "plugin.py", SHU)
    return folder


def kernel(folder: Path) -> Path:
    """The Kernel's contract has no place to declare a secret, so this one gets none."""
    about = {"name": "seed", "type": "operator", "version": "1.0.0", "description": "x", "owner": "us"}
    write_json(folder / "manifest.json", about | {"effects": [], "idempotent": True})
    runtime = {"paddock": 1, "runtime": {"module": "thing:run"}, "capabilities": ["host:secrets"]}
    write_json(folder / "paddock.yaml", runtime)
    write_file(folder / "thing.py", KERNEL)
    return folder


def work(folder: Path) -> Path:
    """An operator that takes a while, and uses a secret each time that it is asked."""
    about = {"paddock": 1, "name": "work", "version": "1.0.0", "description": "x", "dialect": "kernel"}
    about |= {"kind": "operator", "runtime": {"module": "thing:run"}, "capabilities": ["host:secrets"]}
    execute = [{"name": "work", "description": "x", "effects": ["db_write"]}]
    write_json(folder / "paddock.yaml", about | {"secrets": [FOR_WORK], "execute": execute})
    write_file(folder / "thing.py", WORK)
    return folder


def remote(folder: Path, url: str) -> Path:
    """A file of another program's settings that holds the key for a server elsewhere."""
    entry = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {VALUES[FOR_REMOTE]}"}}
    return write_json(folder / "remote.json", {"mcpServers": {"remote": entry}})


def server(folder: Path) -> tuple[Path, Path]:
    """A file of another program's settings that holds two keys, and the MCP server that it is about."""
    script = write_file(folder / "server.py", SERVER)
    entry: dict[str, Any] = {"command": "python3", "args": [str(script), "--api-key", VALUES[IN_ARGUMENT]]}
    entry["env"] = {"API_TOKEN": VALUES[FOR_SERVER]}
    return write_json(folder / "mcp.json", {"mcpServers": {"server": entry}}), script
