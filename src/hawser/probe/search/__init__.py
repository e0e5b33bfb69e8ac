"""Searches for the highest load that gets through, on trials that somebody else carries out."""
