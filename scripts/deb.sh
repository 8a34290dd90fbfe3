#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deb.sh: builds Debian packages and runs lintian; as root, also installs and purges them in a minimal system.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_to_build
need nodejs node
need npm npm
need git git
need xz-utils xz
need libopenmpi-dev '/usr/lib/*/pkgconfig/ompi-c.pc'
need libmpich-dev '/usr/lib/*/pkgconfig/mpich.pc'
need build-essential /usr/share/build-essential/list # always required by dpkg-buildpackage
need debhelper dh
need dh-python pybuild
need python3-all /var/lib/dpkg/info/python3-all.list # a metapackage without files
for part in numpy setuptools wheel; do
    need python3-$part "/usr/lib/python3*/*-packages/$part"
done
need lintian lintian
wish mmdebstrap mmdebstrap
install_missing
sh packaging/deb.sh build/deb
if [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null 2>&1; then
    sh packaging/check_deb.sh build/deb
else
    say "the packages were not tried in a minimal system: that needs root and mmdebstrap"
fi
