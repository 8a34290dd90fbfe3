# shellcheck shell=sh
# lib_tests.sh: functions that run tests and count the results. Source it after lib.sh.
#
# build/check.txt has a line per test: passed|failed|skipped, part, name, and why it was skipped.

# note LINE : adds a line to build/check.txt.
note() { printf '%s\n' "$*" >>build/check.txt; }

# run_tests PRESET [OPTION of ctest]... : runs the tests of a build and notes their results.
run_tests() {
    preset=$1
    shift
    rm -f "build/$preset.xml"
    well=yes
    ctest --test-dir "build/$preset" --output-on-failure --test-output-size-passed 100000 \
        --output-junit "$PWD/build/$preset.xml" "$@" || well=no
    [ -f "build/$preset.xml" ] || { note "failed $preset ctest"; return 0; }
    # A test that did not run counts as failed unless it printed "skipped: REASON".
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

# can_fuzz : succeeds if clang can build a fuzzer.
can_fuzz() {
    echo '#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) { return data && size == 7; }' >build/can_fuzz.c
    clang -fsanitize=fuzzer,address build/can_fuzz.c -o build/can_fuzz >/dev/null 2>&1
}

# sum_up : prints skipped and failed tests, then the totals as the last line. Fails if a test failed or none ran.
sum_up() {
    sed -n 's/^skipped \([^ ]*\) \([^ ]*\) /skipped (\1): \2: /p; s/^failed \([^ ]*\) /FAILED (\1): /p' build/check.txt
    passed=$(grep -c '^passed ' build/check.txt) || :
    failed=$(grep -c '^failed ' build/check.txt) || :
    skipped=$(grep -c '^skipped ' build/check.txt) || :
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
