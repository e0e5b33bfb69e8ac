"""Docstrings below the fields of models, read when a JSON Schema is made.

Pydantic's `use_attribute_docstrings` reads them while each class is made, which took half of the
time to import the models.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise


@cache
def field_docstrings(model: type) -> dict[str, str]:
    """Docstrings of the fields that a class itself declares, by name."""
    source = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for declared in source
        if isinstance(declared, ast.ClassDef)
        for field, text in pairwise(declared.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
