#!/usr/bin/env bash
# Starts the Docker or Podman of a newer Debian release beside the machine's own, to measure a profile with it.
#
# Usage, as root:  ci/newer-engine.sh docker|podman [RELEASE]        RELEASE is trixie unless named
#
# The engine runs in a private mount namespace whose root is that release's tree (0.6 GB, made once, in
# $SANDBOX_CACHE/newer). The last line on standard output sets the variable that clients read; standard error names the
# process to end. Measured with it: Docker 26.1 and Podman 5.4 of Debian 13, on Debian 12 with cgroup v1.
#
#   eval "$(ci/newer-engine.sh docker)"        # sets and exports DOCKER_HOST
#   cargo xtask images --engine docker              # the test images, into that engine
#   cargo xtask matrix --write --tier docker
set -euo pipefail

engine=${1:?usage: newer-engine.sh docker|podman [RELEASE]}
release=${2:-trixie}
top=${SANDBOX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sandbox}/newer
tree=$top/$release
sockets=$top/sockets-$engine-$release
log=$top/$engine-$release.log

[ "$(id -u)" = 0 ] || { echo "newer-engine.sh: this needs root, to make namespaces and mounts" >&2; exit 1; }
case $engine in
    docker)
        variable=DOCKER_HOST
        # With a bridge of its own, and no rules: a second daemon would take docker0 and its rules from the first one.
        if ! [ -e /sys/class/net/newer0 ]; then
            ip link add newer0 type bridge
            ip address add 172.31.255.1/24 dev newer0
            ip link set newer0 up
        fi
        run='dockerd --host unix:///sockets/docker.sock --data-root /var/lib/newer-docker --exec-root /run/newer/exec
             --pidfile /run/newer/pid --bridge newer0 --iptables=false --ip6tables=false
             --ip-forward=false --ip-masq=false'
        ;;
    podman)
        variable=CONTAINER_HOST
        # With runc: crun refuses hybrid control groups.
        run='podman --runtime runc --cgroup-manager cgroupfs --root /var/lib/newer-podman --runroot /run/newer/podman
             system service --time=0 unix:///sockets/podman.sock'
        ;;
    *)
        echo "newer-engine.sh: unknown engine '$engine'; use docker or podman" >&2
        exit 2
        ;;
esac
if ! [ -e "$tree/usr/sbin/nft" ]; then
    command -v mmdebstrap >/dev/null || apt-get install -y -q --no-install-recommends mmdebstrap >&2
    mkdir -p "$top"
    rm -rf --one-file-system "$tree" "$tree.new"
    mmdebstrap --variant=minbase --include=docker.io,docker-cli,podman,crun,runc,iptables,nftables,ca-certificates \
        "$release" "$tree.new" >&2
    mv "$tree.new" "$tree"
fi

mkdir -p "$sockets"
exec 9>"$sockets/lock"
if ! flock -n 9; then
    echo "newer-engine.sh: $engine of $release runs already; log $log" >&2
    echo "export $variable=unix://$sockets/$engine.sock"
    exit 0
fi
rm -f "$sockets/$engine.sock"
export tree sockets run
setsid unshare --mount bash -c '
    set -e
    mount --make-rprivate /
    mount --bind "$tree" "$tree"
    for folder in proc sys dev; do mount --rbind "/$folder" "$tree/$folder"; done
    mount -t tmpfs tmpfs "$tree/run"
    mkdir -p "$tree/run/newer" "$tree/sockets" "$tree/mnt"
    mount --bind "$sockets" "$tree/sockets"
    # The engine must find the folders that sandboxes show at the same paths.
    for folder in tmp var/tmp root home etc/ssl usr/share/ca-certificates; do mount --rbind "/$folder" "$tree/$folder"; done
    cd "$tree"
    pivot_root . mnt
    umount -l /mnt
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root $run
' >"$log" 2>&1 </dev/null &
process=$!

for _ in $(seq 60); do
    [ -S "$sockets/$engine.sock" ] && break
    kill -0 "$process" 2>/dev/null || break
    sleep 0.5
done
if ! [ -S "$sockets/$engine.sock" ]; then
    echo "newer-engine.sh: $engine of $release did not start; the end of $log:" >&2
    tail -n 5 "$log" >&2
    exit 1
fi
echo "newer-engine.sh: $engine of $release runs as process $process; log $log" >&2
echo "export $variable=unix://$sockets/$engine.sock"
