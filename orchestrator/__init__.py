"""mpibed: containerized MPI testbeds, declarative experiments, tidy CSVs."""

__version__ = "0.1.0"
