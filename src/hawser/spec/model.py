"""The base of every described thing: frozen, and strict about names."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, StringConstraints
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from hawser.spec.docstrings import field_docstrings


class Model(BaseModel):
    """A frozen value. An unknown field is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe fields by the docstrings below them."""
        made = handler(schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for owner in reversed(cls.__mro__):
            if issubclass(owner, Model):
                for name, text in field_docstrings(owner).items():
                    properties[cls.model_fields[name].alias or name]["description"] = text
        return made


Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
"""What a user names: a node, a link, a branch, a measurement."""

PortName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,14}$")]
"""A port's name. It becomes the interface's name, which Linux limits to 15 characters."""

NodeOrPort = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}(\.[a-z][a-z0-9-]{0,14})?$")
]
"""A node, or one port of it: as a measurement's end, the port also chooses the address."""
