"""Entry point of the recording process: makes this folder a package, whatever else is on the path, and runs the script."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

NAME = "_astra_sim_torch_recording"


def main() -> None:
    """Run the recording with the arguments of this process."""
    folder = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != folder]
    specification = importlib.util.spec_from_file_location(NAME, folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert specification is not None
    assert specification.loader is not None
    package = importlib.util.module_from_spec(specification)
    sys.modules[NAME] = package
    specification.loader.exec_module(package)
    importlib.import_module(f"{NAME}.run").main(sys.argv[1:])


if __name__ == "__main__":
    main()
