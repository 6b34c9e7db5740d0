# Functions of .ci/run and .ci/long; source it in bash, in the root of a clone.

step() { printf '\n=== %s (%s s) ===\n' "$1" "$SECONDS"; }

# The first command in the README that contains a text, so that the documented commands are the tested ones.
readme_command() {
  local command
  command=$(grep -m1 -F -- "$1" README.md) || { echo "README.md has no command with: $1"; exit 1; }
  printf '%s\n' "$command"
}

# Install a browser, without which the tests of the HTML page fail.
browser() {
  export MOLATTN_REQUIRE_BROWSER=1
  if ! command -v chromium-headless-shell >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends chromium-headless-shell >/dev/null
  fi
}

# Options of pytest with which each call of a function is checked against its annotations, shapes included. Trainings take
# half as long again.
rooms=(attention graph sequence models data chem training explain viewer inference)
check_annotations=("--jaxtyping-packages=$(printf 'molattn.%s,' "${rooms[@]}")beartype.beartype")

# `run_in CONFIGURATION COMMAND...`: runs a command as on another machine. The kernels of torch, MKL and oneDNN are each
# selected by the processor, and each library has a variable to override it.
run_in() {
  local configuration=$1
  shift
  # Separate caches, because torch's compiler would reuse code for another processor.
  local -x TORCHINDUCTOR_CACHE_DIR
  TORCHINDUCTOR_CACHE_DIR=${TMPDIR:-/tmp}/molattn-inductor-$configuration
  case $configuration in
    plain | lowest | newest) "$@" ;;
    # No C compiler, no AVX, one thread.
    uncompiled)
      MOLATTN_COMPILE=0 ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 \
        OMP_NUM_THREADS=1 "$@" ;;
    # A processor with AVX2, without AVX-512 and AMX; two threads.
    x86-64-v3)
      MOLATTN_MARCH=x86-64-v3 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 \
        OMP_NUM_THREADS=2 "$@" ;;
    *) echo "no such configuration: $configuration" && return 2 ;;
  esac
}

# `build_libraries PYTHON...`: builds each C file, and fails if one cannot be built.
build_libraries() {
  "$@" - <<'PYTHON'
from pathlib import Path
import molattn
from molattn.kernels.loader import load_library

for source in sorted(Path(molattn.__file__).parent.rglob("*.c")):
    loaded = load_library(source)
    assert loaded.library is not None, f"{source}: {loaded.unavailable_reason}"
    print(source.name)
PYTHON
}

# `check_skipped CONFIGURATION LOG...`: fails if a test was skipped, such as for a missing package. Allowed are the tests
# of compiled code where nothing is compiled, those of the reader of RDKit binaries with a version of RDKit that it does
# not support, and those of exported models with a torch that does not export them. The logs are those of `pytest -rs`, with a line for each reason.
check_skipped() {
  local configuration=$1 skipped allowed=''
  shift
  case $configuration in
    uncompiled) allowed='MOLATTN_COMPILE is 0' ;;
    lowest) allowed='binaries of version [0-9.]* are not supported|the export needs torch' ;;
  esac
  if [ -n "$allowed" ]; then
    skipped=$(grep -hE '^SKIPPED|[0-9]+ xfailed' "$@" | grep -vE "$allowed" || true)
  else
    skipped=$(grep -hE '^SKIPPED|(^|[ ,])[0-9]+ (skipped|xfailed)' "$@" || true)
  fi
  if [ -n "$skipped" ]; then
    echo "skipped tests:"
    printf '%s\n' "$skipped"
    return 1
  fi
}
