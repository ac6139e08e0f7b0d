"""Models that run on the host: programs like those of the nodes, whose clock is the model's own.

    python -m orchestrator.models.<program> --name value ... --repetitions N --warmup N

They write the same JSON lines as the C programs and know nothing of the rest of mpibed.
"""
