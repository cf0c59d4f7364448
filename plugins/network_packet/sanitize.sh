#!/bin/sh
# Builds the core with the address and undefined-behaviour sanitizers, and runs its tests on it. From anywhere; needs .venv of the checkout
# (python3 dev.py test --co) with scikit-build-core and nanobind, and cmake.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python="$root/.venv/bin/python"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
PATH="$root/.venv/bin:$PATH"
cmake -S "$here" -B "$build" -DSANITIZE=ON -DPython_EXECUTABLE="$python" >"$build/log" 2>&1 || { cat "$build/log"; exit 1; }
cmake --build "$build" --parallel 2 >"$build/log" 2>&1 || { cat "$build/log"; exit 1; }
# The instrumented module takes the place of the installed one.
cat >"$build/sitecustomize.py" <<PY
import importlib.util, pathlib, sys
path = next(pathlib.Path("$build").glob("_core*.so"))
spec = importlib.util.spec_from_file_location("astra_sim_network_packet._core", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules["astra_sim_network_packet._core"] = module
PY
cd "$root"
# Python itself does not free everything at its end.
ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)" \
    PYTHONPATH="$build" "$python" -m pytest -q -p no:cacheprovider tests/test_packet.py tests/test_packet_table.py tests/test_packet_traffic.py "$@"
