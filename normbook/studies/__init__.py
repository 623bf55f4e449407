"""What the chapters measure; a module is named after its chapter."""
