"""Run every bench, or those named on the command line, and print their ratios."""

from __future__ import annotations

import sys

from bench import docker_nodes, harness, launching, p2p, startup

BENCHES = {
    "startup": startup.main,
    "harness": harness.main,
    "p2p": p2p.main,
    "docker": docker_nodes.main,
    "launching": launching.main,
}


def main(names: list[str]) -> int:
    unknown = set(names) - set(BENCHES)
    if unknown:
        print(f"unknown bench {', '.join(sorted(unknown))}; allowed: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    for name in names or BENCHES:
        print(f"\n## {name}: {(BENCHES[name].__doc__ or '').strip()}")
        BENCHES[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
