# SPDX-License-Identifier: Apache-2.0
# find_python.sh, to be sourced. find_python MODULES PACKAGES : $python becomes one that can import them ("numpy, wheel"), or
# the test is skipped, naming Debian's packages. The first python3 may be a user's own, without what the system's has.
find_python() {
    for python in python3 /usr/bin/python3; do
        if "$python" -c "import $1" >/dev/null 2>&1; then return 0; fi
    done
    echo "skipped: no Python that can import $1 (Debian packages $2)"
    exit 77
}
