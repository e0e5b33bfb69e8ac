"""What all configurations have in common."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import PurePath, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.fields import FieldInfo

from hawser.spec.model import Model

Place = Annotated[PurePosixPath, WithJsonSchema({"type": "string"})]
"""A file or Unix socket; one that is relative lies in the directory of the daemon's lab."""

Mac = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$")]
"""An Ethernet address."""

Network = IPv4Network | IPv6Network
Port16 = Annotated[int, Field(ge=0, le=0xFFFF)]
PortRange = tuple[Port16, Port16]
"""First and last port."""

Need = Literal["hawserd", "mptcp", "ovs-vswitchd", "tproxy", "tun", "xdp"]
"""A program or a kernel feature, by the name that `hawser doctor` gives it."""


def omit(value: object) -> FieldInfo:
    """Leave a field out of the JSON where it has this value, which is the daemon's default."""
    info: FieldInfo = Field(exclude_if=lambda found: bool(found == value))
    return info


OMIT_NONE = omit(None)
OMIT_EMPTY: FieldInfo = Field(exclude_if=lambda found: not found)


def replace_old_names(data: object, **renamed: str) -> object:
    """Give the values of a part with new names for old ones, and warn about each.

    An old name beside its new one stays, and is then refused as unknown.

    Args:
        data: what the part is made from.
        renamed: old names, accepted in this version, and their new names.
    """
    if not isinstance(data, Mapping):
        return data
    for old, new in renamed.items():
        if old in data and new not in data:
            message = f"configuration field {old} was renamed to {new}"
            warnings.warn(message, FutureWarning, stacklevel=2)
            data = {new if name == old else name: value for name, value in data.items()}
    return data


class Part(Model):
    """A part of a configuration. Its JSON has the names that the daemon reads."""

    model_config = ConfigDict(
        serialize_by_alias=True, validate_by_alias=True, validate_by_name=True
    )


class Configuration(Part):
    """All that one daemon is told."""

    version: Literal[1] = 1
    """Of the format."""

    def paths(self) -> tuple[PurePosixPath, ...]:
        """Give all files and sockets in it, in the order of its fields."""
        return tuple(_paths(self))

    def placed(self, directory: PurePath) -> Self:
        """Give a copy whose relative paths are in a directory."""
        copy: Self = _placed(self, PurePosixPath(directory))
        return copy

    def needs(self) -> frozenset[Need]:
        """Give what a machine must have for it."""
        return frozenset({"hawserd"})


def _paths(value: object) -> Iterator[PurePosixPath]:
    if isinstance(value, PurePosixPath):
        yield value
    elif isinstance(value, Model):
        yield from _paths(dict(value))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _paths(each)
    elif isinstance(value, tuple):
        for each in value:
            yield from _paths(each)


def _placed(value: Any, directory: PurePosixPath) -> Any:  # noqa: ANN401 (any part of a model)
    if isinstance(value, PurePosixPath):
        return directory / value
    if isinstance(value, Model):
        moved = {name: _placed(each, directory) for name, each in value}
        changed = {name: each for name, each in moved.items() if each is not getattr(value, name)}
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, tuple):
        return _all_placed(value, directory)
    return value


def _all_placed(values: tuple[Any, ...], directory: PurePosixPath) -> tuple[Any, ...]:
    """Give the very same tuple where nothing in it has a path."""
    moved = tuple(_placed(each, directory) for each in values)
    same = all(new is old for new, old in zip(moved, values, strict=True))
    return values if same else moved
