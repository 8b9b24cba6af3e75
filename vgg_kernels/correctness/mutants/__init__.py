"""Wrong networks, each one step away from a right one; `base.py` has their groups, `catalogue.py` all of them."""
