"""Figures, one module a notebook: each function takes a DataFrame and returns a matplotlib Figure."""
