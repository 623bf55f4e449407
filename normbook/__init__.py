"""What only the book uses: studies, the register of claims, and what pages show."""
