# Sourced by tools/setup: runs long commands, and says how far they are.

follow() { # LABEL LOG COUNT COMMAND...: COUNT is a function that says from the log how much is done
  local label=$1 log=$2 count=$3 start=$SECONDS said=$SECONDS job status=0; shift 3
  "$@" >"$log" 2>&1 &
  job=$!
  trap 'kill $job 2>/dev/null; exit 130' INT TERM
  while kill -0 "$job" 2>/dev/null; do
    if [ -t 2 ]; then
      printf '\r\033[Khawser: %s: %s (%d s)' "$label" "$("$count" "$log")" $((SECONDS - start)) >&2
    elif [ $((SECONDS - said)) -ge "${PROGRESS_EVERY:-20}" ]; then
      said=$SECONDS; say "$label: $("$count" "$log") ($((SECONDS - start)) s)"
    fi
    sleep 0.3
  done
  wait "$job" || status=$?
  trap - INT TERM
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
  if [ "$status" = 0 ]; then say "$label: done ($((SECONDS - start)) s)"; return; fi
  grep -v '^{"reason"' "$log" | tail -n 20 >&2 || true; say "failed: $*"; return 1
}

matches() { grep -cE "$@" || true; } # PATTERN FILE: how many lines

apt_done() {
  local all; all=$(sed -nE 's/.* ([0-9]+) newly installed.*/\1/p' "$1" | tail -n 1)
  if [ -n "$all" ]; then printf '%d of %d packages' "$(matches '^Setting up ' "$1")" "$all"; else printf 'reading lists'; fi
}

pip_done() {
  if grep -q '^Installing collected' "$1"; then printf 'all are here, installing'
  else printf '%d of %d packages' "$(matches '^Collecting ' "$1")" "$(matches '^[A-Za-z].*==' "$pip_lock")"; fi
}

cargo_done() { # a crate is done when its library or program is, not its build script
  local done; done=$({ grep '"compiler-artifact"' "$1" || true; } |
    sed -nE '/"kind":\["custom-build"\]/!s/.*("package_id":"[^"]*").*/\1/p' | sort -u | wc -l)
  printf '%d of %d crates' "$done" "$crates"
}

count_crates() { # PACKAGE: how many crates it is built of
  cargo tree --locked --package "$1" --edges normal,build --prefix none 2>/dev/null |
    cut -d ' ' -f 1,2 | sort -u | wc -l
}
