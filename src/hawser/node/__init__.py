"""One machine that can be acted on. Subprocesses and netlink live here and nowhere below."""
