"""The measurements of the chapters; a module is named after its chapter."""
