#!/usr/bin/env bash
# The public LDMVFI and VRT on a GPU: bare for 20 steps, then profiled. In the repository's root:
#
#   PYTHONPATH=src bash benchmarks/public/gpu.sh SOURCES_FOLDER OUT_FOLDER
#
# SOURCES_FOLDER holds the clones LDMVFI, taming-transformers and VRT. What comes after OUT_FOLDER
# goes to both scripts (`--small` for a trial on a CPU). Everything printed goes to OUT/log, the
# reports to OUT/NAME.txt, the recordings to OUT/NAME.tgz. A command that fails or outlasts its time
# costs that command only; the exit code then is 1.
set -uo pipefail
sources=${1:?the folder of the clones} out=${2:?a folder for the results}
shift 2
PYTHON=${PYTHON:-python3}
export PYTHONUNBUFFERED=1 NO_COLOR=1 COLUMNS=150
mkdir -p "$out"
stamp=$(mktemp)
failed=0

limited() {  # SECONDS COMMAND ...
  local code
  echo "=== ${*:2} ($(date +%T))"
  timeout --kill-after=10 "$@"
  code=$?
  echo "=== exit code $code ($(date +%T))"
  return $code
}

both() {  # NAME CLONE ARGUMENTS ...
  local name=$1 run script=(benchmarks/public/"$1".py --source "$sources/$2" "${@:3}")
  limited 130 "$PYTHON" "${script[@]}" --steps 20 || failed=1
  touch "$stamp"
  limited 160 "$PYTHON" -m pitstop profile --steps 20 --format terminal --output "$out/$name.txt" "${script[@]}" --steps 30 || failed=1
  run=$(find .pitstop/runs -maxdepth 1 -name "*-$name" -newer "$stamp" | head -1)
  if [ -z "$run" ]; then echo "no recording of $name"; failed=1; return; fi
  tar -C "$(dirname "$run")" -czf "$out/$name.tgz" "$(basename "$run")" && ls -l "$out/$name.tgz"
  cat "$out/$name.txt"
}

{
  both ldmvfi LDMVFI "$@"
  both vrt VRT "$@"
  exit $failed
} 2>&1 | tee "$out/log"
