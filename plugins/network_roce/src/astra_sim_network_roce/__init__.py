"""RDMA over Ethernet for astra: switches with PFC and ECN, queue pairs, congestion control, packet by packet."""
