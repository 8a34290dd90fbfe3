# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# lib_tests.sh: functions that run tests and count the results. Source it after lib.sh.
#
# build/check.txt has a line per test: passed|failed|skipped, part, name, and why it was skipped; and a line "repeated", part,
# name for each test that failed at first and passed when it was run again.

# note LINE : adds a line to build/check.txt.
note() { printf '%s\n' "$*" >>build/check.txt; }

# results PART XML : prints the line of each test in a JUnit file of ctest. A test that did not run counts as failed unless it
# printed "skipped: REASON".
results() {
    awk -v part="$1" '
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
        }' "$2" | sed "s/&quot;/\"/g; s/&apos;/'/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g"
}

# repeat_foreign PRESET : runs failed tests with the label foreign once more: a browser, a shell, an MPI launcher or Slurm may
# have failed, not Esscher. The second result counts.
repeat_foreign() {
    foreign=$(ctest --test-dir "build/$1" -N -L '^foreign$' | sed -n 's/^ *Test *#[0-9]*: //p')
    for name in $foreign; do
        grep -qx "failed $1 $name" "build/$1.txt" || continue
        say "running $name once more"
        rm -f "build/$1.again.xml"
        ctest --test-dir "build/$1" --output-on-failure --test-output-size-passed 100000 \
            --output-junit "$PWD/build/$1.again.xml" --tests-regex "^$name\$" || :
        [ -f "build/$1.again.xml" ] || continue
        grep -vx "failed $1 $name" "build/$1.txt" >"build/$1.rest" || :
        results "$1" "build/$1.again.xml" >>"build/$1.rest"
        mv "build/$1.rest" "build/$1.txt"
        note "repeated $1 $name"
    done
}

# run_tests PRESET [OPTION of ctest]... : runs the tests of a build and notes their results.
run_tests() {
    preset=$1
    shift
    rm -f "build/$preset.xml"
    well=yes
    ctest --test-dir "build/$preset" --output-on-failure --test-output-size-passed 100000 \
        --output-junit "$PWD/build/$preset.xml" "$@" || well=no
    [ -f "build/$preset.xml" ] || { note "failed $preset ctest"; return 0; }
    results "$preset" "build/$preset.xml" >"build/$preset.txt"
    [ $well = yes ] || grep -q "^failed $preset " "build/$preset.txt" || note "failed $preset ctest"
    repeat_foreign "$preset"
    cat "build/$preset.txt" >>build/check.txt
    rm -f "build/$preset.txt"
}

# can_fuzz : succeeds if clang can build a fuzzer.
can_fuzz() {
    echo '#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) { return data && size == 7; }' >build/can_fuzz.c
    clang -fsanitize=fuzzer,address build/can_fuzz.c -o build/can_fuzz >/dev/null 2>&1
}

# sum_up : prints skipped, failed and repeated tests, then the totals as the last line. Fails if a test failed or none ran.
sum_up() {
    sed -n 's/^skipped \([^ ]*\) \([^ ]*\) /skipped (\1): \2: /p; s/^failed \([^ ]*\) /FAILED (\1): /p
        s/^repeated \([^ ]*\) /repeated (\1): /p' build/check.txt
    passed=$(grep -c '^passed ' build/check.txt) || :
    failed=$(grep -c '^failed ' build/check.txt) || :
    skipped=$(grep -c '^skipped ' build/check.txt) || :
    echo "$(grep -c '^repeated ' build/check.txt || :) repeated"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
