"""The least it costs: data sheets, operations, bytes, and the floors that follow."""
