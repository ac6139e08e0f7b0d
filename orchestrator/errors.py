"""What can go wrong, in a user's words.

Every error says what failed, the value seen, what is allowed and what to do. It is raised where it is
found and printed once, at the edge (`cli.py`), without a traceback.
"""

from __future__ import annotations


class MpibedError(Exception):
    """A problem the user can act on. `exit_code` is what the command ends with."""

    exit_code = 1


class ManifestError(MpibedError):
    """The manifest is wrong; the message holds one `file:line:column: ...` line per mistake."""

    exit_code = 2


class UsageError(MpibedError):
    """The command line, or a value given on it, is wrong."""

    exit_code = 2


class MissingPiece(MpibedError):
    """This machine lacks something the request needs; the message names the remedy."""

    exit_code = 3


class TestbedLost(MpibedError):
    """The testbed, or the engine that holds it, went away while it was in use."""

    __test__ = False  # not a test class, whatever its name suggests to pytest
