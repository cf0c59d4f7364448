"""One run: its inputs, how it is lowered to the engine, and its record."""
