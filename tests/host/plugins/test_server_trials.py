"""The trial of a server file in an installation: it ends when the installation does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fixtures.packages import write_file
from paddock.core.ids import PrincipalId
from paddock.host.plugins.install_job import InstallStage, InstallStopReason
from paddock.host.wiring.open_host import Config, open_host
from paddock.plugins.install.request import InstallRequest
from paddock.plugins.package.source import parse_source

PATIENCE = 20.0  # less than the host waits for the handshake of a server


async def test_an_installation_that_is_cancelled_ends_the_trial_and_leaves_nothing(tmp_path: Path) -> None:
    file = write_file(tmp_path / "silent.py", "import sys\nfor line in sys.stdin: pass\n")
    config = Config(home=tmp_path / "home", environ={}, role="command", start="nothing")
    async with open_host(config) as host:
        installer = host.plugins.installer
        job = installer.start(InstallRequest(parse_source(str(file))), "silent.py", PrincipalId("user:ann"))
        async with asyncio.timeout(PATIENCE):
            async for _ in job.watch():
                if job.progress.step == "trying silent.py":
                    job.stop(InstallStopReason.CANCELLED)
        assert job.stage is InstallStage.CANCELLED
        assert not any(installer.staging.iterdir())
