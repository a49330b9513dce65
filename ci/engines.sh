#!/usr/bin/env bash
# Installs, starts, stops and describes the engines that tests need.
#
# Usage: ci/engines.sh up [--with-runsc] [--build-only] [ENGINE…]
#        ci/engines.sh down|status [ENGINE…]
#        ci/engines.sh socket ENGINE      prints the address of its socket
#        ci/engines.sh rootless-account   prints user, group and environment of rootless Podman
#        ci/engines.sh kubeconfig         prints the file of the cluster that `up k8s` starts
#
# ENGINE is docker, podman, podman-rootless or k8s. Without one: Docker, Podman, and those that `up`
# has started. An engine that answers already is left as it is, and so is one that DOCKER_HOST, a
# Docker context, CONTAINER_HOST or KUBECONFIG names: such an engine is never started or stopped.
#
#   --with-runsc   adds gVisor's runtime to Docker's daemon.json
#   --build-only   builds the programs of the Kubernetes node, and starts nothing
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
case ${1:-} in -h | --help) usage ;; esac
. "$here/kubernetes.sh"
account=sandbox-podman
docker_socket=unix:///var/run/docker.sock
podman_socket=unix:///run/podman/podman.sock

# ---- Docker

docker_endpoint() {
    if [ -n "${DOCKER_HOST:-}" ]; then
        echo "$DOCKER_HOST"
    elif command -v docker >/dev/null; then
        docker context inspect --format '{{.Endpoints.docker.Host}}'
    else
        echo "$docker_socket"
    fi
}

docker_version() { timeout 5 docker version --format '{{.Server.Version}} (API {{.Server.APIVersion}})' 2>/dev/null; }

docker_start() {
    install dockerd=docker.io docker=docker.io iptables=iptables
    if has_systemd; then
        wait_for 30 docker_version || fail "systemd manages it, and it does not run" "systemctl start docker"
        return
    fi
    write_once /etc/docker/daemon.json <<'J'
{
  "storage-driver": "overlay2",
  "exec-opts": ["native.cgroupdriver=cgroupfs"]
}
J
    # dockerd refuses to start beside the files of one that was killed.
    pidof dockerd >/dev/null || rm -f /run/docker.pid /run/docker/containerd/containerd.pid
    start docker "$state/dockerd.log" docker_version dockerd
}

docker_knows_runsc() { docker info --format '{{json .Runtimes}}' | grep -q '"runsc"'; }

docker_add_runsc() {
    if docker_knows_runsc; then return; fi
    install runsc=runsc
    is_root || fail "no runtime runsc" "as root: cargo xtask engines up docker --with-runsc"
    say "adding the runtime runsc to /etc/docker/daemon.json"
    python3 - "$(command -v runsc)" <<'P'
import json, os, sys
path = "/etc/docker/daemon.json"
config = json.load(open(path)) if os.path.exists(path) else {}
runtime = {"path": sys.argv[1], "runtimeArgs": ["--platform=ptrace", "--network=none"]}
config.setdefault("runtimes", {}).setdefault("runsc", runtime)
with open(path + ".partial", "w") as file:
    json.dump(config, file, indent=2)
os.rename(path + ".partial", path)
P
    local pid
    pid=$(daemon docker) || fail "daemon.json names runsc, and another one started dockerd" "systemctl reload docker"
    kill -HUP "$pid"
    wait_for 10 docker_knows_runsc || fail "dockerd does not know runsc after 10 s" "see $state/dockerd.log"
}

# ---- Podman

podman_packages=(podman=podman runc=runc /usr/lib/podman/netavark=netavark /usr/lib/podman/aardvark-dns=aardvark-dns)

podman_endpoint() {
    local user=unix://${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/podman/podman.sock
    if [ -n "${CONTAINER_HOST:-}" ]; then
        echo "$CONTAINER_HOST"
    elif ! is_root && [ ! -S "${podman_socket#unix://}" ] && [ -S "${user#unix://}" ]; then
        echo "$user"
    else
        echo "$podman_socket"
    fi
}

podman_version() {
    timeout 5 podman --remote --url "$1" version --format '{{.Server.Version}} (API {{.Server.APIVersion}})' 2>/dev/null
}
podman_answers() { podman_version "$podman_socket"; }
rootless_answers() { podman_version "$(rootless_endpoint)"; }

# Limits that this machine allows; a container with Podman's own would fail to start. Without a
# systemd that serves Podman it counts control groups and writes events itself.
podman_config() {
    local files processes
    files=$(ulimit -Hn) processes=$(ulimit -Hu)
    [ "$files" != unlimited ] && [ "$files" -lt 1048576 ] || files=1048576
    [ "$processes" != unlimited ] && [ "$processes" -lt 32768 ] || processes=32768
    cat <<C
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=$processes:$processes"]

[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
C
}

# A path for the services of tests. Each client asks Podman for its `info`, which runs dpkg for the
# packages of four helper programs: 0.4 s of CPU time. This dpkg-query answers at once.
podman_path() {
    local folder=/var/lib/sandbox-xtask/bin
    if is_root; then
        mkdir -p "$folder"
        printf '#!/bin/sh\nexit 1\n' | write_once "$folder/dpkg-query"
        chmod 755 "$folder/dpkg-query"
    fi
    echo "PATH=$folder:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

podman_start() {
    install "${podman_packages[@]}"
    if has_systemd; then
        wait_for 30 podman_answers || fail "systemd manages it, and it does not run" "systemctl start podman.socket"
        return
    fi
    podman_config | write_once /etc/containers/containers.conf
    [ -d /run/podman ] || mkdir -m 700 /run/podman
    start podman "$state/podman.log" podman_answers \
        env "$(podman_path)" podman system service --time=0 "$podman_socket"
}

# ---- Podman without root: the caller's own; root makes an account for it.

rootless_passwd() { if is_root; then getent passwd "$account"; else getent passwd "$(id -u)"; fi; }

rootless_runtime() {
    local user
    user=$(rootless_passwd | cut -d: -f3)
    if is_root; then echo "/run/user/$user"; else echo "${XDG_RUNTIME_DIR:-/run/user/$user}"; fi
}

rootless_endpoint() { echo "unix://$(rootless_runtime)/podman/podman.sock"; }

rootless_account() {
    local name user group home
    IFS=: read -r name _ user group _ home _ < <(rootless_passwd) ||
        fail "there is no account $account" "cargo xtask engines up podman-rootless"
    printf '%s\n' "$user" "$group" "HOME=$home" "USER=$name" "LOGNAME=$name" \
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "XDG_RUNTIME_DIR=$(rootless_runtime)"
}

# The words that run a command as the user of rootless Podman.
as_rootless() {
    local words
    mapfile -t words < <(rootless_account)
    is_root || { echo env && return; }
    printf '%s\n' setpriv "--reuid=${words[0]}" "--regid=${words[1]}" --clear-groups env -i "${words[@]:2}"
}

# own_folder FOLDER: makes a folder of the account, with mode 0700.
own_folder() {
    local user group
    IFS=: read -r _ _ user group _ < <(rootless_passwd)
    [ -d "$1" ] || { mkdir -p "$(dirname "$1")" && mkdir -m 700 "$1" && chown "$user:$group" "$1"; }
    [ "$(stat -c %u "$1")" = "$user" ] || fail "$1 belongs to another user" "set XDG_RUNTIME_DIR to a folder of your own"
}

# newuidmap demands a range of subordinate users and groups, which no other account may have.
rootless_ranges() {
    local name first range missing=()
    name=$(rootless_passwd | cut -d: -f1)
    touch_of() { cat "$1" 2>/dev/null || true; }
    for file in uid gid; do
        touch_of "/etc/sub$file" | grep -qE "^$name:[0-9]+:65536$" || missing+=("--add-sub${file}s")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    first=$(cat /etc/subuid /etc/subgid 2>/dev/null | awk -F: '$2 + $3 > n { n = $2 + $3 } END { print (n > 100000 ? n : 100000) }')
    range=$first-$((first + 65535))
    is_root || fail "$name has no subordinate users" "as root: usermod --add-subuids $range --add-subgids $range $name"
    for option in "${missing[@]}"; do usermod "$option" "$range" "$name"; done
}

rootless_start() {
    local name home as folder
    install "${podman_packages[@]}" newuidmap=uidmap slirp4netns=slirp4netns
    if is_root && ! getent passwd "$account" >/dev/null; then
        say "making the account $account"
        useradd --no-create-home --home-dir "/var/lib/$account" --shell /usr/sbin/nologin \
            --comment "rootless Podman for tests" "$account"
    fi
    IFS=: read -r name _ _ _ _ home _ < <(rootless_passwd)
    rootless_ranges
    mkdir -p /run/user
    for folder in "$home" "$(rootless_runtime)" "$(rootless_runtime)/podman"; do own_folder "$folder"; done
    mapfile -t as < <(as_rootless)
    if is_root; then
        for folder in "$home/.config" "$home/.config/containers"; do own_folder "$folder"; done
        # Since Linux 5.13 users mount overlays themselves; Podman would choose copies of layers.
        [ -e "$home/.local/share/containers/storage" ] || write_once "$home/.config/containers/storage.conf" <<C
[storage]
driver = "overlay"
runroot = "$(rootless_runtime)/containers"
graphroot = "$home/.local/share/containers/storage"
C
    fi
    if [ ! -e /etc/containers/containers.conf ] && ! has_systemd; then
        podman_config | write_once "$home/.config/containers/containers.conf"
    fi
    # Containers of a killed machine still count as running; Podman then fails to join their namespace.
    if ! (cd / && "${as[@]}" podman info >/dev/null 2>&1); then
        say "rootless Podman fails; resetting its pause process"
        (cd / && "${as[@]}" podman system migrate >&2) || fail "podman system migrate failed" "see its message above"
    fi
    start podman-rootless "$state/podman-rootless.log" rootless_answers \
        "${as[@]}" env "$(podman_path)" podman system service --time=0 "$(rootless_endpoint)"
}

rootless_down() {
    stop podman-rootless
    is_root && getent passwd "$account" >/dev/null && [ -d "$(rootless_runtime)" ] || return 0
    local as
    mapfile -t as < <(as_rootless)
    # Ends the process that holds the account's user namespace.
    (cd / && "${as[@]}" podman system migrate >&2)
}

# ---- All of them

# endpoint and version of an engine with a socket
endpoint_of() {
    case $1 in
        docker) docker_endpoint ;;
        podman) podman_endpoint ;;
        podman-rootless) rootless_endpoint ;;
        *) fail "$1 has no socket" "choose docker, podman or podman-rootless" ;;
    esac
}
version_of() { if [ "$1" = docker ]; then docker_version; else podman_version "$(endpoint_of "$1")"; fi; }

status() {
    local line endpoint pid
    if [ "$engine" = k8s ]; then
        k8s_status
        return
    fi
    endpoint=$(endpoint_of "$engine")
    if line=$(version_of "$engine"); then
        if pid=$(daemon "$engine"); then pid="started by ci/engines.sh (process $pid)"; else pid="started by another program"; fi
        echo "$engine: $line at ${endpoint#unix://}, $pid"
    else
        echo "$engine: not found: nothing answers at $endpoint; fix: cargo xtask engines up $engine"
        return 1
    fi
}

up() {
    if [ -n "$build_only" ]; then
        [ "$engine" != k8s ] || k8s_build
        return
    fi
    case $engine in
        k8s) k8s_up ;;
        podman-rootless) rootless_answers >/dev/null || rootless_start ;;
        *)
            local default=$docker_socket
            [ "$engine" = docker ] || default=$podman_socket
            if ! version_of "$engine" >/dev/null; then
                [ "$(endpoint_of "$engine")" = "$default" ] ||
                    fail "nothing answers at $(endpoint_of "$engine")" "start that engine, or unset what names it"
                is_root || fail "only root starts it" "sudo systemctl start $engine, or cargo xtask engines up podman-rootless"
                "${engine}_start"
            fi
            ;;
    esac
    if [ "$engine" = docker ] && [ -n "$with_runsc" ]; then docker_add_runsc; fi
    status
}

down() {
    [ "$engine" = k8s ] || daemon "$engine" >/dev/null || say "these scripts did not start it, or it has ended"
    case $engine in
        k8s) k8s_down ;;
        podman-rootless) rootless_down ;;
        *) stop "$engine" ;;
    esac
}

action=${1:-}
shift || true
with_runsc='' build_only='' engines=()
for word; do
    case $word in
        --with-runsc) with_runsc=1 ;;
        --build-only) build_only=1 ;;
        docker | podman | podman-rootless | k8s) engines+=("$word") ;;
        *) engine='' fail "there is no engine or option $word" "--help lists them" ;;
    esac
done
engine=
if [ ${#engines[@]} -eq 0 ]; then
    engines=(docker podman)
    [ ! -e "$state/podman-rootless.json" ] || engines+=(podman-rootless)
    [ ! -e "$state/k8s-kubelet.json" ] || engines+=(k8s)
fi
failed=0
case $action in
    socket) endpoint_of "${engines[0]}" ;;
    rootless-account) rootless_account ;;
    kubeconfig) echo "$k8s_state/admin.kubeconfig" ;;
    status) for engine in "${engines[@]}"; do status || failed=1; done ;;
    up | down)
        lock "$state"
        for engine in "${engines[@]}"; do "$action"; done
        ;;
    *) fail "there is no action '$action'" "--help lists them" ;;
esac
exit $failed
