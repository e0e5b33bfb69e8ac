"""Archives of runs: one file each, with a checksum of everything in it.

`RUN.tar.gz` has the run's folder and, first, its `SHA256SUMS` in the format of sha256sum(1). The
same run gives the same bytes. An archive of the results alone has what `hawser.store.results` says.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from pydantic import TypeAdapter, ValidationError

from hawser.store import files
from hawser.store.bundle import Bundle
from hawser.store.errors import BundleError
from hawser.store.manifest import RunId
from hawser.store.results import results

SUMS: Final = "SHA256SUMS"
SUFFIX: Final = ".tar.gz"

_MOST_FILES: Final = 1_000_000
_MOST_BYTES: Final = 64 * 2**30
"""Of all files of an archive; a campaign has less than a gigabyte."""
_LARGEST_SUMS: Final = 256 * 2**20
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_PIECE: Final = 1 << 20


def archive(bundle: Bundle, target: Path, only_results: bool = False) -> str:
    """Write a run into a file, which is complete or absent.

    Args:
        bundle: the run.
        target: the file.
        only_results: leave out what its results are not computed from.

    Returns:
        The SHA-256 of the file.

    Raises:
        BundleError: the run is being written, or a file cannot be read or written.
    """
    if bundle.state == "running":
        raise BundleError(bundle.path, "is being written: archive it when it has ended")
    if target.exists():
        raise BundleError(target, "exists already")
    temporary = target.with_name(files.TEMPORARY + target.name)
    try:
        with temporary.open("wb") as stream:
            _pack(bundle, stream, results(bundle) if only_results else _files(bundle.path))
        files.sync(temporary)
        temporary.rename(target)
        return _digest(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BundleError(target, error.strerror or str(error)) from error


def _pack(bundle: Bundle, stream: BinaryIO, kept: Mapping[str, Path | bytes]) -> None:
    top, started = bundle.manifest.run, int(bundle.manifest.started.timestamp())
    sums = "".join(f"{_digest(kept[name])}  {name}\n" for name in sorted(kept)).encode()
    with (
        gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, what in [(SUMS, sums), *sorted(kept.items())]:
            size = what.stat().st_size if isinstance(what, Path) else len(what)
            with _opened(what) as content:
                tar.addfile(_member(f"{top}/{name}", size, started), content)


def _files(folder: Path) -> dict[str, Path | bytes]:
    """The files of a run, but no temporary ones, locks, sockets and links."""
    found: dict[str, Path | bytes] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and not path.is_symlink() and not hidden and name.as_posix() != SUMS:
            found[name.as_posix()] = path
    return found


def _opened(what: Path | bytes) -> io.BufferedIOBase:
    return what.open("rb") if isinstance(what, Path) else io.BytesIO(what)


def _member(name: str, size: int, at: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, at, 0o644
    return member


def _digest(what: Path | bytes) -> str:
    with _opened(what) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def restore(file: Path, runs: Path) -> Bundle:
    """Unpack an archive into the folder of runs, whole or not at all, and check every sum.

    Raises:
        BundleError: it is no archive of a run, is damaged, or the run is there already.
    """
    temporary = None
    try:
        with tarfile.open(file, "r:gz") as tar:
            run, sums = _begin(file, tar)
            final, temporary = runs / run, runs / (files.TEMPORARY + run)
            if final.exists():
                raise BundleError(final, "exists already")
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            _unpack(file, tar, temporary, sums)
        named = Bundle.open(temporary).manifest.run
        if named != run:
            raise BundleError(file, f"found the run {named}, expected {run}, its folder's name")
        files.publish(temporary, final)
        return Bundle.open(final)
    except (tarfile.TarError, zlib.error, EOFError, ValueError) as error:
        raise BundleError(file, f"damaged, or no archive of a run: {error}") from error
    except OSError as error:
        raise BundleError(file, error.strerror or str(error)) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _begin(file: Path, tar: tarfile.TarFile) -> tuple[str, dict[str, str]]:
    """The run's id and the sums of its files: name -> SHA-256."""
    first = tar.next()
    name = PurePosixPath(first.name) if first is not None else PurePosixPath()
    content = tar.extractfile(first) if first is not None and first.isfile() else None
    if first is None or content is None or len(name.parts) != 2 or name.name != SUMS:
        raise BundleError(file, f"not an archive of a run: it does not begin with {SUMS}")
    if first.size > _LARGEST_SUMS:
        raise BundleError(file, f"{SUMS} is larger than {_LARGEST_SUMS >> 20} MiB")
    try:
        run = TypeAdapter(RunId).validate_python(name.parts[0])
    except ValidationError as error:
        raise BundleError(file, f"found {name.parts[0]!r}, expected the id of a run") from error
    sums = {}
    for number, line in enumerate(content.read().decode().splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise BundleError(file, f"{SUMS}: line {number} is damaged")
        sums[match[2]] = match[1]
    if len(sums) > _MOST_FILES:
        raise BundleError(file, f"more than {_MOST_FILES} files")
    return run, sums


def _unpack(file: Path, tar: tarfile.TarFile, folder: Path, sums: dict[str, str]) -> None:
    left, total = dict(sums), 0
    while (member := tar.next()) is not None:
        name = PurePosixPath(*PurePosixPath(member.name).parts[1:])
        expected = left.pop(name.as_posix(), None)
        plain = not name.is_absolute() and ".." not in name.parts
        content = tar.extractfile(member) if member.isfile() and plain else None
        if expected is None or content is None:
            raise BundleError(file, f"found {member.name!r}, which {SUMS} does not name")
        total += member.size
        if total > _MOST_BYTES:
            raise BundleError(file, f"more than {_MOST_BYTES >> 30} GiB")
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with target.open("wb") as stream:
            while piece := content.read(_PIECE):
                digest.update(piece)
                stream.write(piece)
        if digest.hexdigest() != expected:
            raise BundleError(file, f"{name}: checksum differs")
    if left:
        raise BundleError(
            file, f"{len(left)} of {len(sums)} files are missing, such as {min(left)}"
        )
