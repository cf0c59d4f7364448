"""The packet network of astra: flits, virtual channels, credits, routers and links, cycle by cycle."""
