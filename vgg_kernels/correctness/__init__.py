"""Is the output right?

``suite`` makes weights, inputs (``images``), float64 references and ``error_bounds``; ``runner`` calls a candidate on
them, with ``isolation`` around it; ``compare`` and ``locate`` compare its outputs and find where they differ;
``result`` holds the verdict; ``gate`` is the way in (``verify``, ``candidate``). ``emulation``, ``truncation`` and
``ladder`` are the tiers in plain PyTorch; ``kernelbench`` is the public rule, ``sensitivity`` what a check can tell
apart; ``kill_matrix`` runs the wrong networks of ``mutants`` through all of them.
"""
