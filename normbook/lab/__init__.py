"""Shared by all studies: data, networks, one training loop, trials."""
