"""The systolic-array compute model of astra, with SCALE-Sim's cycle counts, and the workload generator."""
