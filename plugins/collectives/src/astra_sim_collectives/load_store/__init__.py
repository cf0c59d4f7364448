"""GPUs at the level of loads and stores: their inside as a platform, and MSCCL++ plans as requests of cache lines."""
