"""Replay of a capture with labels: `recording` splits it, `sender` sends it, `beside` does all.

Frames keep their addresses above Ethernet, their order and their distances in time. They do not
react: what is lost is not sent again, and what is blocked is answered all the same.
"""
