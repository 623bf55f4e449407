"""Data, networks and training for the chapters that put a layer to work."""
