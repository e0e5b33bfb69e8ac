"""Colours of roles, from the page's style sheet."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


@cache
def colours() -> dict[str, str]:
    """Role -> colour of the light theme, whose value comes first in the style sheet."""
    sheet = Path(__file__).parents[1] / "templates" / "style.css"
    found = re.findall(r"--(\w+): (#[0-9a-f]{6})", sheet.read_text())
    return dict(reversed(found))
