#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# aarch64_root.sh ROOT PACKAGE... : unpacks Debian's arm64 packages and their dependencies into the directory ROOT, for a
# cross build. apt's lists and downloads are also in ROOT, so the machine's own packages do not change and root is not
# needed. Does nothing if ROOT already has these packages.
set -eu
root=$1
shift
wanted="$*"
[ "$(cat "$root/complete" 2>/dev/null)" = "$wanted" ] && exit 0

rm -rf "$root"
mkdir -p "$root/apt/lists/partial" "$root/apt/archives/partial"
root=$(cd "$root" && pwd)
: >"$root/apt/status" # no package is installed, so all are downloaded
apt() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$root/apt" \
        -o Dir::State::status="$root/apt/status" -o Dir::Cache="$root/apt" -o Debug::NoLocking=true \
        -o APT::Sandbox::User="$(id -un)" "$@"
}
apt update || echo "aarch64_root: apt-get update failed, going on" >&2 # another source than Debian's may have no arm64
# shellcheck disable=SC2086  # a list of words is meant
apt install -y --download-only --no-install-recommends $wanted
for package in "$root"/apt/archives/*.deb; do
    dpkg -x "$package" "$root"
done

# Make the links that an installation would make: OpenBLAS with pthreads, also as BLAS and LAPACK.
libraries=$root/usr/lib/aarch64-linux-gnu
ln -sf openblas-pthread/libopenblas.so openblas-pthread/libopenblas.so.0 "$libraries/"
ln -sf openblas-pthread/libblas.so.3 openblas-pthread/liblapack.so.3 "$libraries/"
for link in openblas:openblas lapack:lapack-openblas blas:blas-openblas; do
    ln -sf "../openblas-pthread/pkgconfig/${link#*:}.pc" "$libraries/pkgconfig/${link%:*}.pc"
done
# Links to /lib/... would lead out of the folder.
find "$libraries" -type l | while read -r link; do
    target=$(readlink "$link")
    case $target in
    /*) ln -sfr "$root$target" "$link" ;;
    esac
done
rm -rf "$root/apt/archives"
echo "$wanted" >"$root/complete"
