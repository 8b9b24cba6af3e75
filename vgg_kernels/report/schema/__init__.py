"""The published JSON Schemas, one file a document; ``report.schemas`` makes, reads and applies them."""
