"""Units: simulated time is counted in picoseconds, and ASTRA-sim's MB and GB are powers of two."""

PS_PER_NS = 1000
MIB = 2**20
GIB = 2**30
