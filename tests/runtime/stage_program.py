"""A stage in a process of its own, so that a test can kill it: starts two plugins, tells their pids, and waits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.runtime.stage import open_stage
from tests.runtime.witness import WELL

# Leaves somebody behind in its cage, and heeds no signal.
CLINGING = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nif os.fork() == 0:\n    time.sleep(600)\n" + WELL


async def main(folder: Path) -> None:
    async with open_stage(folder) as stage:
        actors = [stage.actor(WELL, "plain"), stage.actor(CLINGING, "clinging")]
        pids = [(await actor.settled()).pid for actor in actors]
        sys.stdout.write(f"{pids[0]} {pids[1]}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
