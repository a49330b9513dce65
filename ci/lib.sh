# Functions that the scripts in this folder share. Each script sets $engine, for messages.
# shellcheck shell=bash

# Records of started daemons and their logs; images and programs that take long to make.
state=${XDG_STATE_HOME:-$HOME/.local/state}/sandbox-xtask
cache=${SANDBOX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sandbox}
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { echo "${engine:+$engine: }$*" >&2; }

# fail WHAT FIX
fail() {
    echo "error: ${engine:+$engine: }$1; fix: $2" >&2
    exit 1
}

# Prints the comment at the head of the script.
usage() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
}

is_root() { [ "$(id -u)" = 0 ]; }
has_systemd() { [ -d /run/systemd/system ]; }

# lock FOLDER: waits until no other script changes the folder, until this one ends.
lock() {
    mkdir -p "$1"
    exec 9>"$1/lock"
    flock --nonblock 9 || { say "waiting for another task that holds $1/lock" && flock 9; }
}

# install PROGRAM=PACKAGE…: installs the packages of missing programs; a program with a slash is a file.
install() {
    local pair missing=()
    for pair in "$@"; do
        case $pair in
            /*) [ -e "${pair%%=*}" ] || missing+=("${pair#*=}") ;;
            *) command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}") ;;
        esac
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || fail "cannot install ${missing[*]} without apt" "install them by hand"
    is_root || fail "not installed: ${missing[*]}" "sudo apt-get install --no-install-recommends ${missing[*]}"
    say "installing ${missing[*]}"
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
    # Package lists that are missing or old name files that the mirror does not have.
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2 9>&- ||
        { "${apt[@]}" update >&2 9>&- && "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2 9>&-; }
}

# wait_for SECONDS COMMAND…: repeats the command until it succeeds.
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}

# The start time of a running process, which tells it from a later one with its number.
start_ticks() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # Fields behind the name, which may hold spaces: the first is the state, the 20th the start.
    read -r -a stat <<<"${stat##*) }"
    case ${stat[0]} in Z | X) return 1 ;; esac
    echo "${stat[19]}"
}

# recorded NAME FIELD: a field of the record of a daemon.
recorded() { sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",}]*\).*/\1/p" "$state/$1.json" 2>/dev/null; }

# daemon NAME: the number of the process, where it still runs.
daemon() {
    local pid
    pid=$(recorded "$1" pid)
    [ -n "$pid" ] && [ "$(recorded "$1" boot_id)" = "$(cat /proc/sys/kernel/random/boot_id)" ] &&
        [ "$(start_ticks "$pid")" = "$(recorded "$1" start_ticks)" ] && echo "$pid"
}

# start NAME LOG READY COMMAND…: starts a daemon in a session of its own, and waits until the function READY succeeds.
start() {
    local name=$1 log=$2 ready=$3 pid
    shift 3
    mkdir -p "$state" "$(dirname "$log")"
    # Descriptors of a caller that waits for the end of its pipes are closed.
    (cd / && exec setsid "$@" >"$log" 2>&1 </dev/null 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-) &
    pid=$!
    say "started $name, log $log"
    printf '{"process": {"pid": %s, "start_ticks": %s, "boot_id": "%s", "program": "%s"}}\n' "$pid" \
        "$(start_ticks "$pid" || echo 0)" "$(cat /proc/sys/kernel/random/boot_id)" "$name" >"$state/$name.json"
    local end=$((SECONDS + 60))
    until "$ready" >/dev/null 2>&1; do
        if ! kill -0 "$pid" 2>/dev/null || [ "$SECONDS" -ge "$end" ]; then
            tail -n 15 "$log" >&2
            stop "$name"
            fail "$name ended, or did not answer within 60 s" "see its log above"
        fi
        sleep 0.2
    done
}

# stop NAME: ends a daemon that `start` has started, and forgets it.
stop() {
    local pid
    if pid=$(daemon "$1"); then
        kill "$pid" || true
        # Docker gives its containers 10 s.
        wait_for 30 eval "! start_ticks $pid" || kill -KILL "$pid" || true
        say "stopped $1 (process $pid)"
    fi
    rm -f "$state/$1.json"
}

# write_once FILE: writes standard input to a file that is not there yet.
write_once() {
    mkdir -p "$(dirname "$1")"
    if [ -e "$1" ]; then cat >/dev/null; else say "writing $1" && cat >"$1"; fi
}

# debian_sources [deb-src]: the apt sources of Debian 12, by the mirrors that this machine uses.
# shellcheck disable=SC2120
debian_sources() {
    local sources kind keys=/usr/share/keyrings/debian-archive-keyring.gpg
    sources=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        grep -E '^[^ ]+ bookworm[^ ]* main$' | sort -u) || true
    [ -z "${DEBIAN_MIRROR:-}" ] || sources="$DEBIAN_MIRROR bookworm main"
    [ -n "$sources" ] || fail "the apt sources name no mirror of Debian 12" "set DEBIAN_MIRROR to the address of one"
    for kind in deb "$@"; do sed "s|^|$kind [signed-by=$keys] |" <<<"$sources"; done
}

# The options by which apt reaches its mirrors here, for an apt with a configuration of its own.
apt_options() { apt-config dump --no-empty | grep -iE '^Acquire::(https?::|Retries|Check-Date|Check-Valid-Until)' || true; }
