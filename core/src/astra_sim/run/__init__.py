"""One run: what is simulated, how it is lowered to the engine, and its record."""
