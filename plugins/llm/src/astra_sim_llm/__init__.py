"""Training and inference of large language models as a workload."""
