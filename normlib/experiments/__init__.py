"""Data, networks and one training loop; what serves one chapter alone has its name."""
