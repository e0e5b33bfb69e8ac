"""Nodes that are Linux network namespaces of this machine."""

from hawser.node.netns.node import NamespaceNode

__all__ = ["NamespaceNode"]
