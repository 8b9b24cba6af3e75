"""What is on file? Tables, the run store, ranking, trust and statistics."""
