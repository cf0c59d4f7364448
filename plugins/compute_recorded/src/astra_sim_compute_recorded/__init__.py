"""The compute model of astra that takes times as the workload recorded them."""
