#!/usr/bin/env bash
# The five systems at full size on a GPU, before and after, for benchmarks/results/systems:
#
#   OUT=/tmp/out bash benchmarks/gpu_bench.sh              three at once, then spike_deblur and lora_diffusion
#   OUT=/tmp/out bash benchmarks/gpu_bench.sh edits:pose_regression:6     each edit, six in memory at once
#
# Packages that the machine lacks may lie in carry/site-packages. Every result is in $OUT as soon as
# it is there. What lora_diffusion reads is generated meanwhile.
set -uo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:?a folder for the results}
PYTHON=${PYTHON:-python3}
export PYTHONPATH=$PWD/src:$PWD/carry/site-packages${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 NO_COLOR=1 COLUMNS=200
export PITSTOP_CACHE=${PITSTOP_CACHE:-/tmp/pitstop-cache} HF_HUB_OFFLINE=1
mkdir -p "$OUT"

bench() { timeout --kill-after=10 "$1" "$PYTHON" -m pitstop bench --times-only --pairs "${PAIRS:-6}" --save "$OUT" "${@:2}"; echo "exit code $?, $(date +%T)"; }

both() {
  "$PYTHON" benchmarks/full_data.py lora_diffusion >"$OUT/lora.log" 2>&1 &
  bench 150 frame_interpolation tiled_vae pose_regression --at-once --steps 60
  bench 100 spike_deblur --steps 40
  wait
  bench 200 lora_diffusion --steps 22
}

edits() {  # NAME BESIDE
  bench 280 "$1" --edits --beside "${2:-3}" --steps 60
}

for topic in "${@:-both}"; do
  IFS=: read -ra words <<<"$topic"
  "${words[@]}"
done 2>&1 | tee "$OUT/log"
