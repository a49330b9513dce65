#!/usr/bin/env bash
# Builds the test images without any registry, and imports them into engines.
#
# Usage: ci/images.sh [--check] [--force] [--engine docker|podman|podman-rootless]… [IMAGE…]
#        ci/images.sh archives      makes the archives for a cluster's nodes, and prints their files
#
#   --check   changes nothing: fails where an engine lacks an image
#   --force   builds the images again
#
# Without --engine every engine that runs gets them. The images are busybox, busybox-user, scratch,
# python (which stands in for python:3.11-slim) and languages (2 GB, which has a compiler or an
# interpreter of every language; rootless engines do not get it). DEBIAN_MIRROR names another Debian mirror.
set -euo pipefail
# Otherwise a build that fails in `$(archive …)` leaves an empty archive.
shopt -s inherit_errexit
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=
. "$here/lib.sh"
case ${1:-} in -h | --help) usage ;; esac
folder=$cache/images
label=sandbox-test.recipe
all=(busybox busybox-user scratch python languages)
search_path=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# The configuration of an image, as instructions of a Dockerfile.
config_of() {
    case $1 in
        busybox) printf '%s\n' "ENV $search_path" "ENV SANDBOX_IMAGE_ENV_CANARY=leak" 'CMD ["/bin/sh"]' ;;
        busybox-user)
            printf '%s\n' "ENV $search_path" "ENV SANDBOX_IMAGE_ENV_CANARY=leak" "USER 1000:1000" "WORKDIR /home/guest" \
                'ENTRYPOINT ["/bin/sh", "-c", "echo image-entrypoint-ran >&2; exit 93"]' 'CMD ["image-command"]'
            ;;
        scratch) ;;
        python | languages) printf '%s\n' "ENV $search_path" "ENV LANG=C.UTF-8" 'CMD ["python3"]' ;;
        *) fail "there is no image $1" "choose ${all[*]}" ;;
    esac
}

# pack FOLDER: the folder as an archive whose files belong to root, but for the home of the user guest.
pack() {
    local tar=(tar --numeric-owner --sort=name --mtime=@946684800 -C "$1")
    "${tar[@]}" --owner=0 --group=0 --exclude=./home/guest -cf "$1.tar" .
    [ ! -d "$1/home/guest" ] || "${tar[@]}" --owner=1000 --group=1000 -rf "$1.tar" ./home/guest
}

# A shell and nothing else: this machine's static busybox, with a link for each of its programs.
build_busybox() {
    local root=$1 program applet
    install /bin/busybox=busybox-static
    program=$(command -v busybox)
    if LC_ALL=C ldd "$program" >/dev/null 2>&1; then
        fail "$program needs shared libraries" "apt-get install busybox-static"
    fi
    mkdir -p "$root"/{bin,dev,etc,home/guest,proc,root,run,sbin,sys,tmp,usr/bin,usr/sbin,var/tmp}
    chmod 755 "$root" "$root"/*/
    chmod 700 "$root/root"
    chmod 1777 "$root/tmp" "$root/var/tmp"
    cp "$program" "$root/bin/busybox"
    for applet in $("$program" --list-full); do
        case $applet in
            bin/busybox | linuxrc) ;;
            *) ln -sf /bin/busybox "$root/$applet" ;;
        esac
    done
    printf '%s\n' root:x:0:0:root:/root:/bin/sh guest:x:1000:1000:guest:/home/guest:/bin/sh \
        nobody:x:65534:65534:nobody:/nonexistent:/bin/false >"$root/etc/passwd"
    printf '%s\n' root:x:0: guest:x:1000: nogroup:x:65534: >"$root/etc/group"
    pack "$root"
}

build_scratch() {
    mkdir -p "$1/etc"
    echo "the only file" >"$1/only-file"
    chmod 755 "$1" "$1/etc"
    chmod 644 "$1/only-file"
    pack "$1"
}

# debian ROOT PACKAGES OPTION…: Debian 12 with these packages. What only this machine's network needs is removed.
debian() {
    local root=$1 packages=$2
    shift 2
    install mmdebstrap=mmdebstrap
    say "running mmdebstrap with $packages"
    apt_options >"$root.conf"
    debian_sources | mmdebstrap --variant=minbase --include="$packages" --aptopt="$root.conf" \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --customize-hook='rm -rf "$1/etc/apt/sources.list" "$1"/etc/apt/sources.list.d/* "$1/var/log/apt"' \
        --customize-hook='rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"; : >"$1/etc/hostname"; : >"$1/etc/resolv.conf"' \
        "$@" --format=tar bookworm "$root.tar" - >&2 9>&-
    rm -f "$root.conf"
}

# Python 3.11 and pip: about a minute.
build_python() {
    debian "$1" python3,python3-pip --customize-hook='ln -s python3 "$1/usr/bin/python"' \
        --customize-hook='chroot "$1" python3 -c "import sys, http.client, json, ssl, pip; assert sys.version_info[:2] == (3, 11)"'
}

# A compiler or an interpreter of every language, and what installs its packages: some minutes. Debian's Node.js is too
# old for TypeScript, and npm's package of it is one program. Left out are files that no small program needs.
build_languages() {
    local modules=$cache/node/node_modules program
    local node=$modules/node/bin/node
    local plots=,python3-matplotlib,python3-seaborn,python3-plotly,python3-jinja2,python3-ipython,python3-pip,r-cran-ggplot2,r-cran-lattice,r-cran-plotly
    [ -x "$node" ] && [ -d "$modules/npm" ] ||
        { install npm=npm && npm install --no-fund --no-audit --prefix "$cache/node" node@22 npm@11 >&2 9>&-; }
    # Java's packages make links in the folder of manual pages.
    local options=(--aptopt='Apt::Install-Recommends "false"' --essential-hook='mkdir -p "$1/usr/share/man/man1"') excluded
    for excluded in '/usr/lib/jvm/*/jmods/*' '/usr/lib/go-*/pkg/linux_*/cmd/*' '/usr/lib/go-*/pkg/linux_*_race/*' \
        '/usr/share/go-*/test/*' '/usr/share/go-*/src/cmd/*' '/usr/share/go-*/src/*_test.go' '/usr/share/go-*/src/*/testdata/*' \
        '/usr/lib/gcc/*/lto1' '/usr/bin/*lto-dump*' '/usr/share/icons/*'; do
        options+=("--dpkgopt=path-exclude=$excluded")
    done
    options+=("--customize-hook=cp '$node' \"\$1/usr/local/bin/node\"")
    options+=("--customize-hook=mkdir \"\$1/usr/local/lib/node_modules\" && cp -r '$modules/npm' \"\$1/usr/local/lib/node_modules/npm\"")
    options+=("--customize-hook=ln -s ../lib/node_modules/npm/bin/npm-cli.js \"\$1/usr/local/bin/npm\"")
    for program in gcc g++ go javac java rustc cargo ruby gem Rscript node npm python3; do
        options+=("--customize-hook=chroot \"\$1\" sh -c 'command -v $program' >/dev/null")
    done
    # Large, and needed by no plot.
    for excluded in usr/bin/pandoc usr/share/javascript/mathjax 'usr/lib/python3/dist-packages/sympy' \
        'usr/lib/python3/dist-packages/*/tests' 'usr/lib/*/openblas-pthread/*.a' usr/include/boost; do
        options+=("--customize-hook=rm -rf \"\$1\"/$excluded")
    done
    options+=("--customize-hook=chroot \"\$1\" python3 -c 'import matplotlib, seaborn, plotly, pandas, jinja2, IPython'")
    options+=("--customize-hook=chroot \"\$1\" Rscript -e 'library(ggplot2); library(lattice); library(plotly)' >/dev/null")
    debian "$1" python3,gcc,g++,libc6-dev,golang-go,openjdk-17-jdk-headless,rustc,cargo,ruby,r-base-core$plots "${options[@]}"
}

# The recipe of an image's files, and that of the whole image: a change of either makes it anew.
files_of() { echo "${1%-user}"; }
hash() { sha256sum | cut -c 1-16; }
files_hash() {
    local functions=(pack "build_$(files_of "$1")")
    case $1 in python | languages) functions+=(debian) ;; esac
    { uname -m && declare -f "${functions[@]}"; } | hash
}
recipe() { { files_hash "$1" && config_of "$1"; } | hash; }

# archive IMAGE: the file system of the image in the cache, built where it is missing; prints its name.
archive() {
    local files path work old
    files=$(files_of "$1")
    path=$folder/$files-$(files_hash "$1").tar
    if [ ! -e "$path" ] || { [ -n "${force:-}" ] && [ ! "$path" -nt "$started" ]; }; then
        work=$(mktemp -d "$folder/building.XXXXXX")
        say "building $path"
        mkdir "$work/root"
        "build_$files" "$work/root"
        for old in "$folder/$files"-????????????????.tar; do rm -f "$old"; done
        mv "$work/root.tar" "$path"
        rm -rf "$work"
    fi
    echo "$path"
}

# The client of an engine, as words of a command.
client_of() {
    case $1 in
        docker) echo docker ;;
        podman | podman-rootless) echo "podman --remote --url $("$here/engines.sh" socket "$1")" ;;
        *) fail "$1 takes no images" "choose docker, podman or podman-rootless" ;;
    esac
}

# label_of CLIENT… REFERENCE: the recipe of an image; fails where there is no such image.
label_of() { "${@:1:$#-1}" image inspect --format "{{index .Config.Labels \"$label\"}}" "${@: -1}" 2>/dev/null; }

# The full names of an image: Podman would make others of short ones.
reference() { echo "docker.io/sandbox-test/$1:latest"; }
python_alias=docker.io/library/python:3.11-slim

check_image() {
    local name=$1
    shift
    local fix="cargo xtask images --engine $engine"
    [ "$(label_of "$@" "$(reference "$name")")" = "$(recipe "$name")" ] || fail "no current image sandbox-test/$name" "$fix"
    [ "$name" != python ] || label_of "$@" "$python_alias" >/dev/null || fail "no image python:3.11-slim" "$fix"
}

import_image() {
    local name=$1 path recipe changes=() line foreign
    shift
    path=$(archive "$name")
    recipe=$(recipe "$name")
    if [ -n "${force:-}" ] || [ "$(label_of "$@" "$(reference "$name")")" != "$recipe" ]; then
        while read -r line; do changes+=(--change "$line"); done < <(config_of "$name")
        "$@" import --change "LABEL $label=$recipe" "${changes[@]}" "$path" "$(reference "$name")" >/dev/null
        say "imported sandbox-test/$name"
    fi
    [ "$name" = python ] || return 0
    # The user's own python:3.11-slim is left alone.
    if foreign=$(label_of "$@" "$python_alias") && [ -z "${foreign#<no value>}" ]; then
        say "kept python:3.11-slim, which is not one of the test images"
    else
        "$@" tag "$(reference python)" "$python_alias"
    fi
}

# node_archive IMAGE: the image in the format of `docker save`, for a node's runtime; prints its file.
node_archive() {
    local name=$1 recipe path layer tags old
    recipe=$(recipe "$name")
    path=$cache/k8s/images/$name-$recipe.tar
    if [ ! -e "$path" ]; then
        layer=$(archive "$name")
        for old in "$cache/k8s/images/$name"-????????????????.tar; do rm -f "$old"; done
        # By the second name a node knows whether it has this image or an older one.
        tags="$(reference "$name") docker.io/sandbox-test/recipe:$name-$recipe"
        [ "$name" != python ] || tags="$tags $python_alias"
        mkdir -p "$cache/k8s/images"
        config_of "$name" | "$here/node-image.py" "$layer" "$path" $tags
    fi
    echo "$path"
}

force='' check='' engines=() images=()
while [ $# -gt 0 ]; do
    case $1 in
        --check) check=1 ;;
        --force) force=1 ;;
        --engine) shift && IFS=, read -r -a more <<<"${1:?--engine needs a name}" && engines+=("${more[@]}") ;;
        -*) fail "there is no option $1" "--help lists them" ;;
        *) images+=("$1") ;;
    esac
    shift
done
mkdir -p "$folder"
[ -n "$check" ] || lock "$folder"
started=$(mktemp "$folder/building.XXXXXX")
trap 'rm -rf "$folder"/building.*' EXIT
if [ "${images[*]}" = archives ]; then
    for image in "${all[@]}"; do node_archive "$image"; done
    exit
fi
[ ${#images[@]} -gt 0 ] || images=("${all[@]}")
for image in "${images[@]}"; do config_of "$image" >/dev/null; done
if [ ${#engines[@]} -eq 0 ]; then
    for engine in docker podman podman-rootless; do
        if "$here/engines.sh" status "$engine" >/dev/null 2>&1; then engines+=("$engine"); fi
    done
    engine=
    [ ${#engines[@]} -gt 0 ] || fail "no engine runs" "cargo xtask engines up"
fi
for engine in "${engines[@]}"; do
    words=$(client_of "$engine") || exit
    read -r -a client <<<"$words"
    for image in "${images[@]}"; do
        # It is large, and rootless Podman differs from Podman in nothing that a language needs.
        [ "$engine/$image" != podman-rootless/languages ] || continue
        if [ -n "$check" ]; then check_image "$image" "${client[@]}"; else import_image "$image" "${client[@]}"; fi
        [ -n "$check" ] || echo "$engine: sandbox-test/$image is current"
    done
done
