"""The controller (SSC): onboarding, desired and observed state of a network, and its API."""
