"""How we know: the gate, the timers, the provenance and the ledger of records."""
