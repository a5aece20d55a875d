# cmake/common.sh -- what demo and check share: installing packages, configuring a preset. Sourced
# by bash. REQUIRES: $root is the project's folder.

die() {
  printf '%s\n' "$*" >&2
  exit 1
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Of the alternatives a|b|c: prints nothing when one is installed, else the first that apt offers
# (else the first).
missing_of() {
  local alternatives choice
  IFS='|' read -r -a alternatives <<<"$1"
  for choice in "${alternatives[@]}"; do
    if is_installed "$choice"; then return; fi
  done
  for choice in "${alternatives[@]}"; do
    if apt-cache show --no-all-versions "$choice" >/dev/null 2>&1; then
      printf '%s\n' "$choice"
      return
    fi
  done
  printf '%s\n' "${alternatives[0]}"
}

# Lines "package reason" of the groups given.
packages_of() {
  local group name reason wanted
  while read -r group name reason; do
    for wanted in "$@"; do
      if [ "$group" = "$wanted" ]; then printf '%s %s\n' "$name" "$reason"; fi
    done
  done < <(grep -v '^ *\(#\|$\)' "$root/cmake/packages.txt")
}

missing_packages() {
  local name reason
  packages_of "$@" | while read -r name reason; do missing_of "$name"; done
}

# Installs what is missing of the package groups given. TMH_NO_INSTALL=1: trusts that all is there,
# on any system.
install_packages() {
  local missing as_root=()
  [ "${TMH_NO_INSTALL:-0}" = 1 ] && return
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "This is not Debian or Ubuntu. Please install what these Debian packages hold:" >&2
    packages_of "$@" | sed 's/^/  /' >&2
    die "then run this again with TMH_NO_INSTALL=1."
  fi
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "Not root, and no sudo here. As root: apt-get install --no-install-recommends" $missing
    as_root=(sudo)
    [ -t 0 ] || as_root=(sudo -n)  # nobody there to type a password: fail, do not wait
  fi
  echo "Installing:" $missing
  "${as_root[@]}" apt-get update -qq ||
    echo "apt-get update failed; trying with the package lists that are there." >&2
  missing=$(missing_packages "$@")  # again: a bare system had no lists to choose from
  # no-remove: an older Boost that other software needs is the owner's decision, not ours.
  mkdir -p "$root/build"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 \
    --no-install-recommends --no-remove $missing >"$root/build/packages.log" 2>&1 || {
    tail -n 20 "$root/build/packages.log" >&2
    die "Could not install:" $missing
  }
}

# is_configured <preset>: its build folder is this project's, made by the preset. Not so: nothing is
# there, the folder came along when the project was copied, or it has another generator.
is_configured() {
  local cache="$root/build/$1/CMakeCache.txt"
  [ -f "$cache" ] && grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache" &&
    grep -qxF "CMAKE_GENERATOR:INTERNAL=Ninja" "$cache"
}

# configure <preset> [cmake arguments]. NOTICE: warnings, and the summary of optional parts.
configure() {
  local preset=$1 fresh=()
  shift
  is_configured "$preset" || fresh=(--fresh)
  (cd "$root" && cmake --preset "$preset" "${fresh[@]}" --log-level=NOTICE "$@") ||
    die "Configuring $preset failed."
}

# Prints how much slower than a quiet machine of today this one is now, a whole number from 2 to 64:
# by two loops of the shell for each processor. 2 at least, because others may begin to compute when
# the loops have ended.
measure_slowdown() {
  local begin end i loops=()
  # Measured: 0.2 s on a 2-core EPYC VM that does nothing else, with two loops on each.
  local quiet_ms=200
  begin=$(date +%s%N)
  for ((i = 2 * $(nproc); i > 0; --i)); do
    (for ((j = 0; j < 100000; ++j)); do :; done) &
    loops+=($!)
  done
  wait "${loops[@]}"
  end=$(date +%s%N)
  i=$(((end - begin) / 1000000 / quiet_ms))
  printf '%s\n' "$((i < 2 ? 2 : i > 64 ? 64 : i))"
}
