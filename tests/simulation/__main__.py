"""Go through histories by their seeds: `python -m tests.simulation SEED`, or `--count N` of them from there on.

One seed alone is told step by step.
"""

from __future__ import annotations

import argparse
import logging
import sys

from tests.simulation.world import simulate


def main() -> int:
    """How many histories broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=1)
    asked = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    broken = 0
    for seed in range(asked.seed, asked.seed + asked.count):
        history = simulate(seed)
        broken += bool(history.broken)
        if asked.count == 1:
            sys.stdout.writelines(f"{line}\n" for line in history.trace)
        if asked.count == 1 or history.broken:
            sys.stdout.write(f"seed {seed}: {'; '.join(history.broken) or 'sound'}; trace {history.digest}\n")
    return min(broken, 100)


if __name__ == "__main__":
    sys.exit(main())
