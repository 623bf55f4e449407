"""The book's own code, beside the library: studies, the register of claims, views for pages."""
