"""Keys and certificates: an authority, requests to it, and secrets sealed at rest.

The time is an argument everywhere. `cryptography` takes long to import: import this room where it
is used.
"""
