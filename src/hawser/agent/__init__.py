"""The management agent: joins a network and applies what its controller sends.

It runs beside the gateway's daemon and starts it, but does not own it: packets are forwarded while
the agent or the controller is away.
"""
