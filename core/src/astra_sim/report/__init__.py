"""From the record of a run to its result, tables and files."""
