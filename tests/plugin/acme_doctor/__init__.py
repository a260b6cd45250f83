"""Acme's own checks for its hosts: a plugin of ds-doctor."""
