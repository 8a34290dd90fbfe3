#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_deb.sh DEBS [BARE] : installs the packages of the directory DEBS with apt in a minimal system of the same release, tries
# and purges them. Needs root. Prints a transcript of commands and output. Makes the minimal system, or copies the directory
# BARE.
#
# apt's sources, keys, settings and proxies are those of this machine.
set -eu
debs=$(cd "$1" && pwd)
root=$(mktemp -d)
. /etc/os-release
leave() {
    umount "$root/proc" 2>/dev/null || :
    rm -rf --one-file-system "$root"
}
trap leave EXIT INT TERM
fail() { echo "FAIL: $*" >&2; exit 1; }

echo "--- a bare $PRETTY_NAME"
like_here='for part in sources.list sources.list.d apt.conf.d auth.conf.d preferences.d keyrings trusted.gpg trusted.gpg.d; do
    [ ! -e /etc/apt/$part ] || cp -a /etc/apt/$part "$1/etc/apt/"; done
    mkdir -p "$1/usr/share/keyrings" && cp -a /usr/share/keyrings/. "$1/usr/share/keyrings/"'
# An empty list of its own: sources come from the hook.
if [ $# -gt 1 ]; then
    cp -a "$2/." "$root"
else
    mmdebstrap --quiet --mode=root --variant=apt --setup-hook="$like_here" "$VERSION_CODENAME" "$root" - </dev/null
fi
[ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp -L /etc/hosts "$root/etc/hosts"
mount -t proc proc "$root/proc"
mkdir "$root/debs" "$root/root/before"
cp "$debs"/*.deb "$root/debs"
rm -f "$root"/debs/*-dbgsym_*
# Manuals are left out of images made for containers; here one is to be read.
find "$root/etc/dpkg/dpkg.cfg.d" -type f -delete

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    http_proxy="${http_proxy-}" https_proxy="${https_proxy-}" no_proxy="${no_proxy-}" "$@"; }
# type COMMAND : shows it, runs it.
type_in() {
    echo "\$ $1"
    inside bash -c "$1" 2>&1 || fail "$1"
}
state() { inside find / -xdev \( -path /proc -o -path /tmp -o -path /root -o -path /debs -o -path /var/cache -o -path /var/log \
    -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -print | sort; }

inside apt-get update -qq
# Dependencies are installed first, so that only the packages' own files are added afterwards.
needs=$(inside sh -c 'apt-get install --simulate --no-install-recommends /debs/*.deb bash-completion man-db openmpi-bin' |
    awk '$1 == "Inst" && $2 !~ /esscher/ { print $2 }')
[ -n "$needs" ] || fail "apt does not say what they need"
# shellcheck disable=SC2086  # a list
inside apt-get install -y -qq --no-install-recommends $needs >/dev/null 2>&1 || fail "what they need"
state >"$root/root/before/files"

type_in 'apt-get install -y -qq --no-install-recommends /debs/*.deb 2>&1 | grep -E "^Setting up"'
type_in 'esscher --version | head -1'
type_in 'esscher converge --dim 4 --n 100..2000*5 --replicates 4 --scales 1 --out /tmp/x.run --quiet | head -11'
type_in 'esscher report /tmp/x.run -o /tmp/x.html --quiet | head -3'
grep -q vega "$root/tmp/x.html" || fail "the report has no figures"
type_in 'man esscher-converge | head -5'
echo '$ esscher con<TAB>'
inside bash -c '. /usr/share/bash-completion/bash_completion
    _completion_loader esscher
    COMP_WORDS=(esscher con) COMP_CWORD=1 COMP_LINE="esscher con" COMP_POINT=11
    $(complete -p esscher | sed "s/.*-F \([^ ]*\).*/\1/") esscher con esscher
    echo "${COMPREPLY[@]}"' | grep converge || fail "completion"
type_in 'python3 -c "import esscher, numpy; q = numpy.eye(4); print(esscher.__version__, esscher.attend(q, q, q).round(4)[0])"'
type_in 'esscher converge --dim 2 --n 50,100 --replicates 2 --scales 1 --mpi --csv 2>&1 | grep rank'
for test in program python; do
    cp "$(dirname "$0")/../debian/tests/$test" "$root/debs"
    type_in "/debs/$test >/dev/null && echo autopkgtest $test: passed"
done
type_in 'apt-get purge -y -qq "*esscher*" 2>&1 | grep -E "^(Removing|Purging)"'
state >"$root/root/before/left"
diff "$root/root/before/files" "$root/root/before/left" || fail "purging left (>) or took (<) these"
type_in 'dpkg -l | grep esscher || echo nothing is left'
