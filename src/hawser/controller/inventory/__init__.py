"""Gateways: tokens to join, approval, certificates, revocation."""
