"""What is computed: the networks, their inputs, their weights and the precision tiers."""
