"""What studies share: data, networks, one training loop, trials."""
