#!/usr/bin/env bash
# Runs the local backend in an emulated machine: Debian 12 with its kernel, systemd and control
# groups of version 2. `cargo xtask guest` builds the programs, and calls this with their paths.
#
# Usage: SANDBOX=FILE SUITE=FILE [TESTS="FILE…"] ci/guest.sh [OPTION…]
#
#   --who NAME,…     as whom: root, user (after a login), service (of the user's systemd),
#                    no-systemd (a user without one); by default root, user and no-systemd
#   --full           all probes, not only those that control groups or systemd affect
#   --filter TEXT    only probes whose names hold this text
#   --tests          the tests of the local backend as well
#   --write FOLDER   copies the measured profiles into the folder; needs --full
#   --force          builds the guest's disk again, which takes a minute and root
#   --minutes N      most time for the guest; 30 by default
#
# Everything is slow there, so nothing is concluded about time. DEBIAN_MIRROR names another mirror.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=guest
. "$here/lib.sh"
case ${1:-} in -h | --help) usage ;; esac
# Probes that control groups or systemd affect, and one of each other kind. Probes with bounds of a
# few seconds are left out: a busy host does not meet them here.
probes=(cpus:: denials::memory denials::process_limit detached::found_by_name detached::outlives_handle
    detached::removed filesystem::read_outside filesystem::write_outside kernel::control_groups memory::
    neighbors::temporary_folder network::tcp4_host_listener pids:: processes:: subprocess::fork timeout::stubborn)
# Tests with bounds in seconds that an emulated processor does not meet.
slow=(artifacts::many_skipped_entries_are_truncated detached::creation::cancelled_detached_creation_leaves_nothing
    streams::signals_and_kill_work_while_output_is_unread)
# Units that take time, and that a machine does without that runs for minutes.
masked=(apt-daily-upgrade.timer apt-daily.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer
    getty.target kmod-static-nodes.service ldconfig.service systemd-journal-flush.service
    systemd-machine-id-commit.service systemd-modules-load.service systemd-pstore.service
    systemd-random-seed.service systemd-sysctl.service systemd-udev-trigger.service
    systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udevd.service systemd-update-utmp.service)

# make_disk FOLDER FILE SIZE
make_disk() { mke2fs -q -t ext4 -O ^has_journal -d "$@" >&2; }

# The disk, the kernel, and an initrd that loads the disk's driver and hands over to the disk.
build_image() {
    local root=$1/system modules file
    install mmdebstrap=mmdebstrap mke2fs=e2fsprogs busybox=busybox-static
    apt_options >"$1/apt.conf"
    debian_sources | mmdebstrap --variant=minbase --aptopt="$1/apt.conf" --aptopt='APT::Install-Recommends "false"' \
        --include=linux-image-cloud-amd64,systemd-sysv,dbus-user-session,libpam-systemd,busybox-static,python3,python3-pip \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --customize-hook='chroot "$1" useradd -m -u 1000 -s /bin/bash tester' \
        --customize-hook='chroot "$1" useradd -m -u 1001 -s /bin/bash no-systemd' --format=directory bookworm "$root" - >&2
    echo guest >"$root/etc/hostname"
    : >"$root/etc/fstab"
    echo 127.0.0.1 localhost >"$root/etc/hosts"
    mkdir -p "$root/var/lib/systemd/linger" "$root/etc/systemd/system/multi-user.target.wants"
    : >"$root/var/lib/systemd/linger/tester"
    cat >"$root/etc/systemd/system/work.service" <<'U'
[Unit]
Description=Runs the program on the second disk, and ends the machine
After=multi-user.target systemd-logind.service systemd-user-sessions.service

[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/bin/sh -c 'mount -o ro /dev/vdb /media && exec /bin/bash /media/run.sh'
ExecStopPost=/bin/systemctl poweroff --force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity
U
    ln -s ../work.service "$root/etc/systemd/system/multi-user.target.wants/work.service"
    for file in "${masked[@]}"; do ln -sf /dev/null "$root/etc/systemd/system/$file"; done

    modules=$(cd "$root" && echo usr/lib/modules/*)
    mkdir -p "$1/initrd"/{bin,dev,proc,root}
    cp "$root/bin/busybox" "$1/initrd/bin/busybox"
    for file in modules.dep $(grep -E '/virtio_(pci|blk)\.ko:' "$root/$modules/modules.dep" | tr -d :); do
        mkdir -p "$1/initrd/lib/modules/${modules##*/}/$(dirname "$file")"
        cp "$root/$modules/$file" "$1/initrd/lib/modules/${modules##*/}/$file"
    done
    cat >"$1/initrd/init" <<'I'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox modprobe virtio_pci
/bin/busybox modprobe virtio_blk
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox umount /proc
/bin/busybox mount -o move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
I
    chmod 755 "$1/initrd/init"
    (cd "$1/initrd" && find . | busybox cpio -o -H newc >"$1/initrd.cpio")
    cp "$root"/boot/vmlinuz-* "$1/vmlinuz"
    rm -rf "${root:?}/boot" "$1/initrd"
    make_disk "$root" "$1/disk" 2G
    rm -rf "$root" "$1/apt.conf"
}

who=root,user,no-systemd minutes=30 full='' tests='' write='' force='' filters=()
while [ $# -gt 0 ]; do
    case $1 in
        --who) who=$2 && shift ;;
        --filter) filters+=(--filter "$2") && shift ;;
        --minutes) minutes=$2 && shift ;;
        --write) write=$2 && shift ;;
        --full) full=1 ;;
        --tests) tests=1 ;;
        --force) force=1 ;;
        *) fail "there is no option $1" "--help lists them" ;;
    esac
    shift
done
[ "$(uname -m)" = x86_64 ] || fail "the guest is x86-64, and so are its programs" "run it on such a machine"
[ -z "$write" ] || [ -n "$full" ] || fail "--write needs all probes" "add --full"

# A change of the recipe makes another disk.
image=$cache/guest/$({ declare -f build_image && echo "${masked[@]}"; } | sha256sum | cut -c 1-16)
lock "$cache/guest"
if [ ! -e "$image/disk" ] || [ -n "$force" ]; then
    is_root || fail "only root can make the guest's disk" "run it once as root"
    say "building $image; this takes about a minute"
    rm -rf "$cache/guest/partial"
    mkdir "$cache/guest/partial"
    build_image "$cache/guest/partial"
    for old in "$cache/guest"/????????????????; do rm -rf "$old"; done
    mv "$cache/guest/partial" "$image"
fi
exec 9>&-

# The second disk: programs, tests and settings, which every user of the guest may read.
install qemu-system-x86_64=qemu-system-x86 mke2fs=e2fsprogs
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
umask 022
files=$scratch/files
mkdir -p "$files/bin" "$files/tests" "$files/checkout"
cp "$here/guest/run.sh" "$here/guest/checks.sh" "$files"
copy_program() { if ! strip --strip-debug -o "$2" "$1" 2>/dev/null; then cp "$1" "$2"; fi; }
copy_program "${SANDBOX:?}" "$files/bin/sandbox"
copy_program "${SUITE:?}" "$files/bin/sandbox-conformance"
if [ -n "$tests" ]; then
    for test in ${TESTS:?}; do copy_program "$test" "$files/tests/$(basename "$test")"; done
    cp -r "$here/../sandbox-local" "$files/checkout/"
fi
suite=(--skip-self-checks)
[ -z "$write" ] || suite+=(--write-profile)
if [ ${#filters[@]} -gt 0 ]; then
    suite+=("${filters[@]}")
elif [ -z "$full" ]; then
    for probe in "${probes[@]}"; do suite+=(--filter "$probe"); done
fi
skip=()
for test in "${slow[@]}"; do skip+=(--skip "$test"); done
printf 'WHO=%q\nRUN_SUITE=1\nRUN_TESTS=%s\nSUITE=(%s)\nSKIP=(%s)\n' "${who//,/ }" "$tests" "${suite[*]@Q}" "${skip[*]@Q}" >"$files/settings"
make_disk "$files" "$scratch/work" "$(($(du -sm "$files" | cut -f 1) * 5 / 4 + 64))M"
truncate -s 16M "$scratch/results"

# Without acceleration, so that it works where virtual machines cannot be nested.
drives=()
for drive in system=on=$image/disk work=on=$scratch/work results=off=$scratch/results; do
    IFS="=" read -r name snapshot path <<<"$drive"
    drives+=(-drive "if=none,id=$name,format=raw,snapshot=$snapshot,file=${path//,/,,}" -device "virtio-blk-pci,drive=$name")
done
timeout $((minutes * 60)) qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -machine q35 -accel tcg,thread=multi \
    -cpu max -smp 2 -m 2048 -display none -serial stdio -kernel "$image/vmlinuz" -initrd "$image/initrd.cpio" \
    -append "console=ttyS0 root=/dev/vda rw quiet panic=-1 mitigations=off systemd.show_status=0" "${drives[@]}" </dev/null |
    tr -d '\r' | tee "$scratch/console" || fail "the guest failed or took longer than $minutes min" "see its console above"

expected=()
for name in ${who//,/ }; do
    for step in doctor killed-owner detached stopped-scope suite tests nothing-left; do
        [ "$name/$step" = no-systemd/stopped-scope ] || { [ "$step" = tests ] && [ -z "$tests" ]; } || expected+=("$name/$step")
    done
done
failed=0
echo
for step in "${expected[@]}" end; do
    # The kernel writes on the console as well.
    result=$(sed -n "s,.*GUEST $step \([a-z]*\).*,\1,p" "$scratch/console")
    echo "$step: ${result:-not run}"
    [ "$result" = ok ] || failed=$((failed + 1))
done
echo "guest: $((${#expected[@]} + 1 - failed)) passed, $failed failed"
[ "$failed" = 0 ] || exit 1
if [ -n "$write" ]; then
    tar -xf "$scratch/results" -C "$scratch"
    mkdir -p "$write"
    cp "$scratch"/*/matrix/*.json "$write"
fi
