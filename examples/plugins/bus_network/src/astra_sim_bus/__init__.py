"""Network `bus` for astra: all messages share one bus, in C++."""
