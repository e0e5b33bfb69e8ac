"""What an agent cannot do."""

from __future__ import annotations


class AgentError(Exception):
    """The agent cannot do its work, for a reason that its user can change."""
