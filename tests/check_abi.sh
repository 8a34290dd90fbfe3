#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_abi.sh : is python/esscher/_abi.py what cmake/abi.awk makes of the public headers, with every awk that is here? Does
# abi.awk see a change of a header, and refuse what it cannot read, with its place?
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
fail() { echo "FAIL: $*" >&2; exit 1; }

tried=
for awk in awk mawk gawk original-awk "busybox awk"; do
    command -v "${awk%% *}" >/dev/null || continue
    $awk -v form=python -f cmake/abi.awk include/esscher/*.h >"$work/_abi.py"
    diff python/esscher/_abi.py "$work/_abi.py" ||
        fail "python/esscher/_abi.py (<) is not what $awk makes of include/esscher (>): build the target python_abi"
    tried="$tried, $awk"
done

# changed WHAT SCRIPT : a header edited by sed gives another text in both forms.
mkdir "$work/esscher"
changed() {
    cp include/esscher/*.h "$work/esscher"
    sed "$2" include/esscher/mask.h >"$work/esscher/mask.h"
    for form in c python; do
        awk -v form=$form -f cmake/abi.awk include/esscher/*.h >"$work/before"
        awk -v form=$form -f cmake/abi.awk "$work"/esscher/*.h >"$work/after"
        cmp -s "$work/before" "$work/after" && fail "form $form does not show $1"
    done
    return 0
}
changed "a field that was renamed" 's/int64_t sinks;/int64_t first;/'
changed "a field that is gone" '/int64_t local;/d'
changed "fields in another order" '/bool causal;/d; /int64_t sinks;/a\
bool causal;'

# refused LINE WORDS TEXT : a header with this text is refused in that line with these words.
refused() {
    { printf '%s\n' "$3"; echo 'typedef struct es_good { int x; } es_good;'; echo 'ES_API void es_go(es_good *at);'; } >"$work/bad.h"
    for form in c python; do
        if awk -v form=$form -f cmake/abi.awk "$work/bad.h" >"$work/out" 2>"$work/err"; then fail "accepted: $3"; fi
        grep -q "bad.h:$1: .*$2" "$work/err" || fail "$3: expected line $1, $2; got $(cat "$work/err")"
        [ ! -s "$work/out" ] || fail "something was written after: $3"
    done
}
refused 1 "member x : 3" 'typedef struct es_bad { int x : 3; } es_bad;'
refused 2 "unknown type: long" 'struct es_bad {
    int a; long b; };'
refused 1 "cannot read: typedef union" 'typedef union es_bad { int x; double y; } es_bad;'
refused 1 "cannot read: ES_API extern" 'ES_API extern const int es_bad;'
refused 1 "cannot read: static inline" 'static inline int es_bad(void);'
refused 1 "unknown type: es_nothing" 'ES_API int es_bad(const es_nothing *x);'
refused 1 "not a number" 'struct es_bad { int x[ES_MISSING]; };'
refused 2 "a value of es_bad" 'typedef struct es_bad es_bad;
struct es_worse { es_bad x; };'
refused 3 "condition HAVE_IT" '#define X 1
#ifdef HAVE_IT
struct es_bad { int x; };
#endif'
refused 2 "unknown directive: #pragma" '
#pragma pack(1)'
refused 3 "ends inside" '/* a comment'
echo "_abi.py is what the headers say (${tried#, }); changes show, and what cannot be read is refused"
