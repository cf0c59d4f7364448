"""Limits on inputs, in one place: larger values are refused at once, in a message that names the limit.

They are far above useful values, and low enough that a run below them needs the memory of a machine. Further limits of a topology or a
network are in its own module, and in its options.
"""

from __future__ import annotations

MAX_FILE_BYTES = 1 << 28
"""Bytes of an input file that is read as a whole, and of its content if it is gzipped."""
MAX_TRACE_BYTES = 1 << 30
"""Bytes of a gzipped trace's content, which is read piece by piece."""
MAX_VALUES = 1 << 24
"""Values of a file of JSON, as commas and brackets count them."""
MAX_YAML_CHARACTERS = 1 << 20
"""Characters of a file of YAML."""
MAX_YAML_VALUES = 1 << 17
"""With those behind aliases, which count wherever they are used."""
MAX_YAML_SCALAR = 1000
"""Characters of a value of YAML."""
MAX_TRACE_NODES = 1 << 24
"""Nodes of a trace; `kMaxNodes` in the compiled reader."""
MAX_CHECKED_NODES = 1 << 21
"""Nodes of a trace that `astra trace` looks at one by one."""
MAX_ROWS = 1 << 22
"""Rows of a table of results."""
MAX_CELLS = 1 << 25
"""Cells of a table of results."""
MAX_CELL = 131_072
"""Characters of a cell of CSV."""
MAX_NPUS = 1 << 31
"""NPUs of a platform; if they are not alike, memory is the limit."""
MAX_SIMULATED_NPUS = 1 << 20
"""NPUs that are simulated one by one."""
MAX_EVENT_NPUS = 1 << 18
"""NPUs on a network whose messages wait for each other: each NPU and each link is simulated."""
MAX_MESSAGES = 1 << 32
"""Messages of a collective that are simulated one by one; if they wait for each other, times the links that each crosses."""
MAX_LAYERS = 100_000
"""Layers of a model."""
MAX_PORTS = 1 << 16
"""Ports of a switch of a Clos fabric."""
MAX_MICRO_BATCHES = 1 << 14
"""Micro-batches of an iteration."""
MAX_RING = 1 << 18
"""Ranks of a ring, which are as many steps of a collective."""
