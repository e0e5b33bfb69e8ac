"""Alarms: what is wrong with paths and gateways, who has been told, and who takes care of it."""
