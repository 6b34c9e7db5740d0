# What .ci/run and .ci/long share; to be sourced in bash, in the root of a clone.

step() { printf '\n=== %s (%s s) ===\n' "$1" "$SECONDS"; }

# The commands are read from the README, so that what it promises is what runs.
readme_command() {
  local command
  command=$(grep -m1 -F -- "$1" README.md) || { echo "README.md has no command with: $1"; exit 1; }
  printf '%s\n' "$command"
}

# Without a browser the tests of the page fail here.
browser() {
  export MOLATTN_REQUIRE_BROWSER=1
  if ! command -v chromium-headless-shell >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends chromium-headless-shell >/dev/null
  fi
}

# `in_way WAY COMMAND...`: a command as another machine would run it. Torch's own kernels, those of MKL and of oneDNN
# each choose by the processor, and each has a variable of its own.
in_way() {
  local way=$1
  shift
  # What torch's compiler has written for one processor, it takes from its cache for another.
  local -x TORCHINDUCTOR_CACHE_DIR
  TORCHINDUCTOR_CACHE_DIR=${TMPDIR:-/tmp}/molattn-inductor-$way
  case $way in
    plain | lowest | newest) "$@" ;;
    # No C compiler, no wide registers, one thread.
    uncompiled)
      MOLATTN_COMPILE=0 ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 \
        OMP_NUM_THREADS=1 "$@" ;;
    # A processor with AVX2, and neither AVX-512 nor AMX; two threads.
    x86-64-v3)
      MOLATTN_MARCH=x86-64-v3 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 \
        OMP_NUM_THREADS=2 "$@" ;;
    *) echo "no such way: $way" && return 2 ;;
  esac
}

# `every_library PYTHON...`: each C file is built, or this fails.
every_library() {
  "$@" - <<'PYTHON'
from pathlib import Path
import molattn
from molattn.kernels.loader import load_library, unavailable_reason

for source in sorted(Path(molattn.__file__).parent.rglob("*.c")):
    assert load_library(source) is not None, f"{source}: {unavailable_reason(source)}"
    print(source.name)
PYTHON
}

# `nothing_skipped WAY LOG...`: fails where something was skipped, for lack of an install say. The tests of the compiled
# code itself may be where nothing is compiled, and those of our reader of RDKit's binaries with an RDKit that it leaves
# to RDKit. The logs are those of `pytest -rs`, with a line for each reason.
nothing_skipped() {
  local way=$1 left may=''
  shift
  case $way in
    uncompiled) may='MOLATTN_COMPILE is 0' ;;
    lowest) may='binaries of version [0-9.]* are not supported' ;;
  esac
  if [ -n "$may" ]; then
    left=$(grep -hE '^SKIPPED|[0-9]+ xfailed' "$@" | grep -vE "$may" || true)
  else
    left=$(grep -hE '^SKIPPED|(^|[ ,])[0-9]+ (skipped|xfailed)' "$@" || true)
  fi
  if [ -n "$left" ]; then
    echo "something that should run was skipped:"
    printf '%s\n' "$left"
    return 1
  fi
}
