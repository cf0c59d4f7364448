"""The workload generator: from the layers of a model, a parallelisation and a compute model to a workload."""
