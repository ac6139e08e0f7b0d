"""Content digests of files and folders: what identifies a build."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def sha256_of_files(files: Iterable[Path]) -> str:
    """One digest over the names and contents of the files, whatever order they come in."""
    digest = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        with path.open("rb") as handle:
            content = hashlib.file_digest(handle, "sha256").hexdigest()
        digest.update(f"{path.name}\0{content}\n".encode())
    return digest.hexdigest()
