"""A port of a node."""

from __future__ import annotations

from typing import Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class Port(str):
    """A port of a node, written `node.port`: it is that text, taken apart once."""

    __slots__ = ("name", "node")

    PATTERN = r"^[a-z][a-z0-9-]{0,30}\.[a-z][a-z0-9-]{0,14}$"

    node: str
    name: str
    """Its name at the node, and its interface's."""

    def __new__(cls, node: str, name: str) -> Self:
        """Join a node's name and a port's."""
        port = super().__new__(cls, f"{node}.{name}")
        port.node, port.name = node, name
        return port

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.node, self.name

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `node.port`."""
        node, _, name = text.partition(".")
        return cls(node, name)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: type[object], _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls.parse, core_schema.str_schema(pattern=cls.PATTERN)
        )


def node_of(end: str) -> str:
    """Give the node of a measurement's end, which is a node or a port of one."""
    return end.partition(".")[0]
