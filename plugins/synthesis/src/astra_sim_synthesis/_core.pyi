"""The compiled part. Columns are bytes: of int32 if they number edges, links, pieces or ranks, of float64 if they are times (ns)."""

def match(
    ranks: int,
    source: bytes,
    target: bytes,
    first_link: bytes,
    links: bytes,
    latency: bytes,
    busy: bytes,
    pieces: int,
    attempts: int,
) -> tuple[bytes, bytes, bytes, bytes, float, float]:
    """Edges, pieces, starts and arrivals of messages, the time of all, and one that none can beat. Raises ValueError for a wrong graph."""
