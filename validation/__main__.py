"""`python3 dev.py validate`: run the validation, and write the page; or compare with what is recorded."""

from __future__ import annotations

import argparse
import sys
import time

from validation import page, profiles, residuals, results, scale
from validation.runs import Runs


def main() -> int:
    """Run all parts, or with --short those that take seconds. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="dev.py validate", description=(__doc__ or "").strip())
    parser.add_argument(
        "--short", action="store_true", help="closed forms, the eight, and all held-out lines with the recorded profiles: say what differs"
    )
    arguments = parser.parse_args()
    began = time.perf_counter()
    with Runs() as runs:
        short = results.short(runs, results.read()) if arguments.short else results.whole(runs)
        if not arguments.short:
            profiles.write(short)
            residuals.write(runs, short)
            short["expected_error"] = residuals.coverage()
            short["scale"] = scale.summary(runs, short)
    if arguments.short:
        different = results.differences(results.short_part(results.read()), short)
        print("\n".join(different[:20]) or "all as recorded")
        status = bool(different)
    else:
        results.write(short)
        page.write(short)
        scale.write(short)
        status = False
    print(f"{runs.made} iterations were simulated in {time.perf_counter() - began:.0f} s; docs/validation.md has the figures")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
