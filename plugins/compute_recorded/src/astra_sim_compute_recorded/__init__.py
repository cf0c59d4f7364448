"""The compute model of astra that uses the times recorded in the workload."""
