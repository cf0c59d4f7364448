# SPDX-License-Identifier: GPL-2.0-only
"""TCP in ns-3 as a network of astra, on any graph."""
