"""Long texts of a resolved workflow, such as models and traces: each in a file of its own, once.

Every variant of a workflow has its models and traces whole. In place of a long string the JSON has
`texts/` and the SHA-256 of its content, which is a file of the bundle.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from hawser.spec.tree import Data
from hawser.store import files
from hawser.store.errors import BundleError

TEXTS: Final = "texts"
_LONG: Final = 4096
"""Strings of more characters have files of their own."""
_REFERENCE: Final = re.compile(rb'"texts/([0-9a-f]{64})"')


def split(document: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Give a JSON text without its long strings, and these: name of a file -> content."""
    texts: dict[str, bytes] = {}

    def short(node: Data) -> Data:
        match node:
            case dict():
                return {key: short(value) for key, value in node.items()}
            case list():
                return [short(value) for value in node]
            case str() if len(node) > _LONG:
                content = node.encode()
                name = f"{TEXTS}/{sha256(content).hexdigest()}"
                texts[name] = content
                return name
            case _:
                return node

    return json.dumps(short(json.loads(document)), indent=1).encode(), texts


def joined(document: bytes, folder: Path) -> bytes:
    """Give a JSON text of the bundle in `folder` with its long strings.

    Raises:
        BundleError: a file is missing or not what was written, or all is larger than
            `files.LARGEST`.
    """
    names = [found.decode() for found in _REFERENCE.findall(document)]
    kept = {name: _read(folder / TEXTS / name) for name in names}
    if len(document) + sum(len(kept[name]) for name in names) > files.LARGEST:
        raise BundleError(folder / TEXTS, f"with these, larger than {files.LARGEST // 2**20} MiB")
    return _REFERENCE.sub(lambda reference: kept[reference[1].decode()], document)


def _read(file: Path) -> bytes:
    """Read a text as a string of JSON."""
    content = files.read(file)
    if sha256(content).hexdigest() != file.name:
        raise BundleError(file, "damaged: its content is not what its name says")
    try:
        return json.dumps(content.decode()).encode()
    except UnicodeDecodeError as error:
        raise BundleError(file, "not a text") from error
