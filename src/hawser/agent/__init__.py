"""The management agent beside a gateway's daemon: it joins a network and applies what its controller sends.

It starts the daemon, but does not own it: packets pass while the agent or the controller is away.
"""
