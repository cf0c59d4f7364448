"""The CSV files of ASTRA-sim 1.0 as a report of astra."""
