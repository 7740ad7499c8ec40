#!/usr/bin/env bash
# What docs/results.md says of a GPU, measured again, one topic or several at a time:
#
#   OUT=/tmp/out bash benchmarks/gpu.sh data tests overhead parts bench:pose_regression
#   OUT=/tmp/out bash benchmarks/gpu.sh record:lora_diffusion record:spike_deblur:20
#   OUT=/tmp/out bash benchmarks/gpu.sh tune:frame_interpolation:8 tune:vae:5      (minutes)
#   OUT=/tmp/out bash benchmarks/gpu.sh tune:vae:5 by_hand:vae:1:bf16+compile,scope=blocks     (rounds)
#   OUT=/tmp/out bash benchmarks/gpu.sh tune:vae:5 by_hand:vae:1://cudnn-benchmark   (on top of what was kept)
#
# Packages that the machine lacks may lie in carry/site-packages, the clones LDMVFI,
# taming-transformers and VRT in carry/public. Timed topics run alone; `data` generates in the
# background while the next topic runs; `wait` is a topic too. Everything printed goes to $OUT/log
# as well, and recordings to $OUT/NAME.tgz. A topic that fails or outlasts its time costs that topic only.
# With CALL_S all ends after so many seconds of the call; what a search kept by then is in $OUT/NAME.search.tgz, which `by_hand` reads
# on another machine from carry/searches.
set -uo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:?a folder for the results}
PYTHON=${PYTHON:-python3}
CALL_S=${CALL_S:-999999}
export PYTHONPATH=$PWD/src:$PWD/carry/site-packages${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 NO_COLOR=1 COLUMNS=150
export PITSTOP_CACHE=${PITSTOP_CACHE:-/tmp/pitstop-cache}
mkdir -p "$OUT"
work=$(mktemp -d)
searches=${TMPDIR:-/tmp}/pitstop-searches  # they outlive the call
export PYTHONPYCACHEPREFIX=${TMPDIR:-/tmp}/pitstop-pycache  # else each trial compiles all that it imports
packages=$("$PYTHON" -c 'import numpy, PIL, torch; print(*(each.__path__[0] for each in (numpy, PIL, torch)))')
[ -d "$PYTHONPYCACHEPREFIX" ] || "$PYTHON" -m compileall -q -j 0 $(ls -d carry/site-packages 2>/dev/null) src $packages >/dev/null

pitstop() { "$PYTHON" -m pitstop "$@"; }

stamped() { while IFS= read -r line; do printf '%(%T)T %s\n' -1 "$line"; done; }

say() { echo "=== $* ($(date +%T))"; }

limit() {  # SECONDS COMMAND ...: `timeout` for functions too, and not beyond the call
  local seconds=$1 left=$((CALL_S - SECONDS)); shift
  ((left < seconds)) && seconds=$((left > 0 ? left : 1))
  export -f pitstop; export PYTHON
  timeout --signal="${SIGNAL:-TERM}" --kill-after=20 "$seconds" bash -c '"$@"' - "$@"
}

data() {  # NAMES ...: full-size files of these systems, or of all five, on all cores
  local names=("$@")
  [ $# -gt 0 ] || names=(frame_interpolation spike_deblur tiled_vae lora_diffusion pose_regression)
  for name in "${names[@]}"; do
    (limit 400 "$PYTHON" benchmarks/full_data.py "$name" >"$work/data-$name" 2>&1; say "data: $name, exit code $?") &
  done
}

compiled() {  # pose_regression's minutes of compiling, once: the next run finds them in a cache
  limit 550 "$PYTHON" -m pitstop.workloads.pose_regression.slow --steps 3 --out "$work/compiled" >"$work/compiled.log" 2>&1
  say "pose_regression compiled, exit code $?"; tail -3 "$work/compiled.log"
}

tests() { (cd tests/gpu && limit 400 "$PYTHON" -m pytest -q -p no:cacheprovider "${@:-.}"); }  # FILES ...

overhead() {  # steps of about 5 and 80 ms on an H200, and what is left of a profile afterwards
  limit 150 "$PYTHON" benchmarks/afterwards.py --device cuda --pairs 3
  for size in "2048 4 1024" "4096 8 4096"; do
    read -r width depth batch <<<"$size"
    limit 120 "$PYTHON" benchmarks/overhead.py --device cuda --pairs 11 --width "$width" --depth "$depth" --batch "$batch"
  done
}

parts() { limit 400 "$PYTHON" benchmarks/parts.py --only tiled; }

bench() { limit "${2:-200}" pitstop bench "$1" --steps "${3:-40}"; }

script() {  # NAME: the words that run one of the five, diffusers' VAE decode, or a public training
  case $1 in
    vae) echo "$PWD/benchmarks/vae_decode.py" ;;
    ldmvfi) echo "$PWD/benchmarks/public/ldmvfi.py --source $PWD/carry/public/LDMVFI --steps 400" ;;  # enough for blocks of them
    vrt) echo "$PWD/benchmarks/public/vrt.py --source $PWD/carry/public/VRT" ;;
    spike_deblur) echo "-m pitstop.workloads.spike_deblur.slow --accumulate 1 --workers 1" ;;  # of 12, steps of 17 s; of 4, each sent the whole cache for 11 s
    pose_regression) echo "-m pitstop.workloads.pose_regression.slow --rvs_refresh_rate 99 --max_attempts 1 --train_skip 2" ;;  # views are no part of a step: 36 s for all of them, 20 attempts each
    tiled_vae) echo "-m pitstop.workloads.tiled_vae.slow --steps 400" ;;
    *) echo "-m pitstop.workloads.$1.slow" ;;
  esac
}

record() {  # NAME STEPS OPTIONS ...: a recording at full size
  local name=$1 folder=$work/record-$1 words
  read -ra words <<<"$(script "$1")"
  mkdir -p "$folder"
  (cd "$folder" && limit 240 pitstop profile --steps "${2:-24}" "${words[@]}" "${@:3}") | tail -60
  tar -C "$folder/.pitstop/runs" -czf "$OUT/$name.tgz" . && ls -l "$OUT/$name.tgz"
}

tune() {  # NAME MINUTES OPTIONS ...: those of `pitstop tune`
  local words
  read -ra words <<<"$(script "$1")"
  rm -rf "${searches:?}/$1"
  searched "$1" "${2:-8}" "${@:3}" "${words[@]}"
}

carried() {  # NAME: its search of another machine, if there is one
  local from=carry/searches/$1.search.tgz
  [ -d "$searches/$1" ] || [ ! -e "$from" ] || { mkdir -p "$searches" && tar -C "$searches" -xzf "$from"; }
}

searched() {  # NAME MINUTES WORDS ...
  local name=$1 minutes=$2 folder=$searches/$1 seconds=$((60 * ${2%.*} + 180))
  mkdir -p "$folder"
  (cd "$folder" && SIGNAL=INT limit "$seconds" pitstop tune --force --budget "$minutes" --output "$OUT/tune-$name.html" "${@:3}") 2>&1 | stamped
  cat "$folder/tuned.toml" "$folder/tuned.patch" 2>/dev/null | head -120
  tar -C "$searches" -czf "$OUT/$name.search.tgz" "$name"
}

by_hand() {  # NAME ROUNDS SETS ...: an expert's sets, and what `tune:NAME` has kept before; STEPS of each run
  local kept=$searches/$1/tuned.toml words rounds=${2:-2}
  carried "$1"
  read -ra words <<<"$(script "$1")"
  shift 2
  set -- "${@/#\/\//@$kept//}"  # //MORE: on top of what was kept
  [ -e "$kept" ] && set -- "$@" "@$kept"
  limit 560 "$PYTHON" benchmarks/by_hand.py --rounds "$rounds" --steps "${STEPS:-16}" "$@" -- "${words[@]}"
}

for topic in "$@"; do
  IFS=: read -ra words <<<"$topic"
  say "$topic"
  "${words[@]//,/:}" || say "$topic: exit code $?"
  [ "${words[0]}" = tests ] && wait
done 2>&1 | tee "$OUT/log"
wait
cat "$work"/data-* 2>/dev/null | tail -20
rm -rf "$work"
