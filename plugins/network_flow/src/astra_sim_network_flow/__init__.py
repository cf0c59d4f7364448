"""The flow-level network of astra: messages share links max-min fairly, on any graph."""
