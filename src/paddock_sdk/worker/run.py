"""The program that the host starts in a plugin's cage. Its configuration is in the environment: `worker_config.py`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    # A script's own folder comes first in the import path; the SDK is two folders up.
    own_folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 pathlib is slow to import
    sdk = os.path.dirname(os.path.dirname(own_folder))  # noqa: PTH120
    sys.path[:] = [*(entry for entry in sys.path if entry not in (own_folder, sdk)), sdk]

    from paddock_sdk.worker.start import start

    start()


if __name__ == "__main__":
    main()
