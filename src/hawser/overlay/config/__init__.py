"""Configurations of daemons, as models."""
