"""`python -m astra_sim` is the command `astra`."""

from astra_sim.cli import main

main()
