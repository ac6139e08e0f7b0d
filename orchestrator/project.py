"""Where mpibed's own files are: node programs, images, lock file. One place, so that nobody guesses paths."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODE_SOURCES = ROOT / "images" / "node" / "src"
PROGRAMS = ROOT / "build" / "node" / "bin"  # what `make build` leaves
EXPERIMENTS = ROOT / "experiments"
LOCK = ROOT / "requirements.lock"
MPI_PREFIX = Path(sys.prefix)  # the mpich wheel installs into the virtual environment
