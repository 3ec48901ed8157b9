"""The page's files, read once at start: no route reads a path from a request."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

WEB = Path(__file__).parent / "web"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


@dataclass(frozen=True)
class Asset:
    """A file with its media type and its tag."""

    content: bytes
    type: str
    tag: str


def load_assets(folder: Path = WEB) -> dict[str, Asset]:
    """Return every file of the page by its name; names are unique across folders."""
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in TYPES]
    return {file.name: _asset(file) for file in files}


def _asset(file: Path) -> Asset:
    content = file.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Asset(content, TYPES[file.suffix], tag)
