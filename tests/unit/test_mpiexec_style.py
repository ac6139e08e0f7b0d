"""Commands as people write them for mpiexec."""

from __future__ import annotations

import pytest

from orchestrator.errors import UsageError
from orchestrator.mpiexec_style import Command, parse


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (Command(("./a",), None, None, {}), "./a"),
        (Command(("./a", "-n", "3"), None, None, {}), "./a -n 3"),
        (Command(("./a",), 4, None, {}), "-n 4 ./a"),
        (Command(("./a",), 4, None, {}), "mpiexec -np 4 ./a"),
        (Command(("./a", "x"), 4, 2, {}), "mpirun -n 4 -ppn 2 ./a x"),
        (Command(("./a",), None, None, {"A": "1", "B": "-n"}), "mpiexec.hydra -env A 1 -genv B -n ./a"),
        (Command(("./mpiexec",), None, None, {}), "./mpiexec"),
        (Command(("a",), 2, None, {}), "-n 1 -n 2 a"),
    ],
)
def test_options_come_before_the_program_and_its_arguments_after(command, line):
    assert command == parse(line.split())


@pytest.mark.parametrize(
    ("because", "line"),
    [
        ("no program to run", ""),
        ("no program to run", "mpiexec -n 2"),
        ("'-x' is not understood before the program; allowed: -n N, -ppn K, -env NAME VALUE", "-x ./a"),
        ("'--oversubscribe' is not understood", "mpirun --oversubscribe ./a"),
        ("'-env' is not understood", "-env A"),
        ("-n needs a whole number of 1 or more, not 'x'", "-n x ./a"),
        ("-n needs a whole number of 1 or more, not '0'", "-n 0 ./a"),
        ("-ppn needs a whole number of 1 or more, not '-1'", "-ppn -1 ./a"),
        ("-n needs a whole number of 1 or more, not ''", "-n"),
        ("-n needs a whole number of 1 or more, not '²'", "-n ² ./a"),
    ],
)
def test_a_word_that_is_not_understood_is_named(because, line):
    with pytest.raises(UsageError, match=because):
        parse(line.split())
