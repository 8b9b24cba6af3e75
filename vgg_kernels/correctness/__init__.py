"""Is the output right? The test suite, the comparison with float64, and the wrong networks that it must reject."""
