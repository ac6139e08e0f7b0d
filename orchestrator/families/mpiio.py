"""Parallel input and output: out-of-core matrix multiplications, and reading and writing alone.

The eleven variants, their access methods and the sizes follow S.-S. Park, "Benchmarks for Performance Testing of MPI-IO
on the General Parallel File System", 2001, sections 2 and 3; docs/mpiio.md says what is the paper's and what is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from orchestrator.families.base import Benchmark, Figure, Metric, Parameter, Parameters, Point

_BLOCKING = ("non_collective", "collective")
_STARTED = ("non_blocking", "split_collective")
_DOUBLE_BYTES = 8


@dataclass(frozen=True)
class Variant:
    """How ranks go over the matrices: as a square or one below the other, and with which access methods."""

    square: bool
    accesses: tuple[str, ...]

    def order(self, ranks: int, local_block: int, replication: int) -> int:
        """Rows of each matrix: sqrt(P) L R for ranks in a square, else P L R (section 3.2 of the paper)."""
        return (isqrt(ranks) if self.square else ranks) * local_block * replication


VARIANTS = {
    "TESTMAT1": Variant(True, _BLOCKING),
    "TESTMAT2": Variant(True, _STARTED),
    "SREVERSEMAT": Variant(True, _BLOCKING),
    "MREVERSEMAT": Variant(False, _BLOCKING),
    "CREVERSEMAT": Variant(False, _BLOCKING),
    "TESTDBMAT1": Variant(True, ("non_blocking",)),
    "DB1SREVERSEMAT": Variant(True, ("non_blocking",)),
    "DB1MREVERSEMAT": Variant(False, ("non_blocking",)),
    "TESTDBMAT2": Variant(True, ("split_collective",)),
    "DB2SREVERSEMAT": Variant(True, ("split_collective",)),
    "DB2MREVERSEMAT": Variant(False, ("split_collective",)),
}

ACCESS = Parameter(
    "access", "non_collective", "access method: READ_AT, READ_AT_ALL, IREAD_AT or READ_AT_ALL_BEGIN, and for writing",
    choices=(*_BLOCKING, *_STARTED),
)  # fmt: skip
SHIPPING_BLOCKS = Parameter(
    "shipping_blocks", 0, "buffers of ROMIO's optimisations in blocks of 256 KiB; 0 turns these off",
    minimum=0, maximum=4096,
)  # fmt: skip
CACHE = Parameter(
    "cache", "warm", "page cache before a repetition: as the last one left it, dropped, or gone around",
    choices=("warm", "dropped", "direct"),
)  # fmt: skip


def _order(point: Parameters, ranks: int) -> int:
    return VARIANTS[str(point["variant"])].order(ranks, int(point["local_block"]), int(point["replication"]))  # type: ignore[arg-type]


def _refuse_matmul(point: Point, ranks: int) -> str | None:
    name = str(point["variant"])
    variant = VARIANTS[name]
    if point["access"] not in variant.accesses:
        return f"{name} does not run with access={point['access']}; allowed: {', '.join(variant.accesses)}"
    if variant.square and isqrt(ranks) ** 2 != ranks:
        return f"{name} needs a square number of ranks (1, 4, 9, 16, ...), the testbed gives {ranks}"
    order = _order(point, ranks)
    if int(point["local_block"]) * order * _DOUBLE_BYTES >= 1 << 31:
        return f"a block of {point['local_block']} rows of {order} elements has 2 GiB or more; lower local_block"
    return None


def _refuse_testrdwr(point: Point, ranks: int) -> str | None:
    one_round = int(point["request_bytes"]) * ranks
    if int(point["file_bytes"]) % one_round:
        return f"file_bytes={point['file_bytes']} is no multiple of request_bytes times {ranks} ranks, {one_round}"
    return None


def _estimate_matmul(parameters: Parameters, repetitions: int) -> float:
    """Seconds on 4 ranks if the host multiplies 20 Gflop/s and files move 0.5 GB/s, checking included."""
    order = _order(parameters, 4)
    panels = order // int(parameters["local_block"])  # type: ignore[arg-type]
    file_bytes = _DOUBLE_BYTES * order**2
    return repetitions * (0.02 + 2 * order**3 / 20e9 + (panels + 6) * file_bytes / 0.5e9)


def _estimate_testrdwr(parameters: Parameters, repetitions: int) -> float:
    """Seconds if the file moves 0.3 GB/s each way."""
    return repetitions * (0.02 + 2 * int(parameters["file_bytes"]) / 0.3e9)  # type: ignore[arg-type]


def _figures(metrics: dict[str, str], axes: tuple[str, ...]) -> tuple[Figure, ...]:
    """A figure for each metric, with its title, over each axis; named `metric_by_axis`."""
    return tuple(
        Figure(name=f"{metric}_by_{axis}", title=title, x=axis, metric=metric)
        for metric, title in metrics.items()
        for axis in axes
    )


def _time(name: str, what: str) -> Metric:
    return Metric(name, "s", "lower", f"{what}; slowest rank")


BENCHMARKS = (
    Benchmark(
        name="mpiio.matmul",
        program="mpiio_matmul",
        summary="out-of-core matrix multiplication: read blocks of A and B, multiply, write blocks of C",
        parameters=(
            Parameter("variant", "TESTMAT1", "which of the paper's programs", choices=tuple(VARIANTS)),
            ACCESS,
            Parameter(
                "local_block",
                64,
                "N_b: rows of A and columns of B that a rank multiplies at once",
                minimum=1,
                maximum=8192,
            ),
            Parameter(
                "replication",
                1,
                "R: how many times larger than what the ranks hold at once the matrices are",
                minimum=1,
                maximum=1024,
            ),
            SHIPPING_BLOCKS,
            CACHE,
        ),
        metrics=(
            _time("read_time", "time in the calls that read, with those that set their view and wait"),
            _time("write_time", "time in the calls that write, likewise; not the time until storage has it"),
            _time("compute_time", "time of the multiplications"),
            _time("total_time", "from a barrier to the end of the last step"),
            Metric("bytes_read", "B", "lower", "what all ranks together got; ROMIO may move more for it"),
            Metric("bytes_written", "B", "lower", "what all ranks together gave, likewise"),
        ),
        figures=_figures(
            {"total_time": "Total time", "read_time": "Reading time", "write_time": "Writing time"},
            ("access", "nodes", "replication", "shipping_blocks"),
        ),
        needs_shared_directory=True,
        refuse=_refuse_matmul,
        estimate=_estimate_matmul,
    ),
    Benchmark(
        name="mpiio.testrdwr",
        program="mpiio_testrdwr",
        summary="write a file and read it back, without computation",
        parameters=(
            Parameter("file_bytes", 64 << 20, "size of the file", unit="B", minimum=1, maximum=1 << 40),
            Parameter("request_bytes", 256 << 10, "what one call moves", unit="B", minimum=1, maximum=1 << 30),
            ACCESS,
            SHIPPING_BLOCKS,
            CACHE,
        ),
        metrics=(
            _time("write_time", "time in the calls that write"),
            _time("sync_time", "MPI_File_sync after them, until storage has the file"),
            _time("read_time", "time in the calls that read what another rank wrote"),
            Metric("write_bandwidth", "B/s", "higher", "size of the file over the longest write_time + sync_time"),
            Metric("read_bandwidth", "B/s", "higher", "size of the file over read_time"),
        ),
        figures=_figures(
            {"read_bandwidth": "Reading bandwidth", "write_bandwidth": "Writing bandwidth"},
            ("request_bytes", "shipping_blocks"),
        ),
        needs_shared_directory=True,
        refuse=_refuse_testrdwr,
        estimate=_estimate_testrdwr,
    ),
)
