# SPDX-License-Identifier: Apache-2.0
# abi.awk : describes the structs, enums and functions of the public headers for another language.
#
#   awk -v form=c -f abi.awk include/esscher/*.h >layout.c          where every field of every struct is
#   awk -v form=python -f abi.awk include/esscher/*.h >_abi.py      the same for ctypes, with all functions
#
# The headers are the only place where a field or a function is written. Their style is regular, so this reads a part of C:
# enums, structs of numbers, pointers, arrays, structs and functions, typedefs of functions, and prototypes marked ES_API.
# Anything else ends it with FILE:LINE and status 1. Any POSIX awk runs it.
#
# Types for ctypes: a pointer to char is a text, a pointer to a struct that is known is typed, any other pointer is an
# address. A function that is a member is an address. So is a text that a callback is given: it need not end with a zero.
# Python does not get functions with a variable number of arguments.

BEGIN {
    if (form != "c" && form != "python") {
        print "abi.awk: give -v form=c or -v form=python" >"/dev/stderr"
        exit 1
    }
    ctype["char"] = "c.c_char"
    ctype["bool"] = "c.c_bool"
    ctype["int"] = "c.c_int"
    ctype["unsigned"] = "c.c_uint"
    ctype["float"] = "c.c_float"
    ctype["double"] = "c.c_double"
    ctype["size_t"] = "c.c_size_t"
    split("int32_t int64_t uint8_t uint16_t uint32_t uint64_t", whole)
    for (i = 1; i in whole; i++)
        ctype[whole[i]] = "c.c_" substr(whole[i], 1, length(whole[i]) - 2)
    for (i = 1; i < ARGC; i++)
        read_header(ARGV[i])
    if (!structs || !functions)
        fail("no struct or no function was found")
    if (form == "c")
        write_c()
    else
        write_python()
    exit 0
}

function fail(message) {
    print (file == "" ? "abi.awk" : file ":" line) ": " message >"/dev/stderr"
    exit 1
}

function trim(text) {
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    return text
}

# ---- reading ----

# Reads a header once, those that it includes first.
function read_header(path,    outer, outer_line, outer_conditions, text, name, at, got) {
    name = path
    sub(/.*\//, "", name)
    if (name in known_header)
        return
    known_header[name] = 1
    outer = file
    outer_line = line
    outer_conditions = conditions + 0
    at = 0
    while ((got = (getline text < path)) > 0) {
        file = path
        line = ++at
        if (text ~ /^#include <esscher\//) {
            sub(/^#include <esscher\//, "", text)
            sub(/>.*/, "", text)
            name = path
            sub(/[^\/]*$/, text, name)
            read_header(name)
            continue
        }
        read_line(text)
    }
    close(path)
    file = path
    line = at
    if (got < 0)
        fail("cannot be read")
    if (in_comment || statement != "" || depth || conditions != outer_conditions)
        fail("ends inside a comment, a declaration or a condition")
    headers[++header_count] = path
    sub(/.*\//, "", headers[header_count])
    file = outer
    line = outer_line
}

function read_line(text) {
    text = without_comments(text)
    if (in_directive || text ~ /^[ \t]*#/) {
        read_directive(text)
        return
    }
    text = trim(text)
    if (text == "" || (conditions && condition[conditions] == "__cplusplus"))
        return
    if (conditions && condition[conditions] != "")
        fail("a declaration under the condition " condition[conditions])
    collect(text)
}

# A line without the comments in it; a comment may go on in the next line.
function without_comments(text,    out, at) {
    out = ""
    for (;;) {
        if (in_comment) {
            at = index(text, "*/")
            if (!at)
                return out
            text = substr(text, at + 2)
            in_comment = 0
        }
        at = index(text, "/*")
        if (!at)
            return out text
        out = out substr(text, 1, at - 1) " "
        text = substr(text, at + 2)
        in_comment = 1
    }
}

# Macros are not described. A condition is remembered, that of the header's own guard as "".
function read_directive(text,    words) {
    if (!in_directive) {
        split(trim(text), words, " ")
        if (words[1] ~ /^#if/)
            condition[++conditions] = words[2] ~ /^ESSCHER_[A-Z_]*_H$/ ? "" : words[2]
        else if (words[1] == "#endif")
            conditions--
        else if (words[1] !~ /^#(define|include|else)$/)
            fail("an unknown directive: " words[1])
    }
    in_directive = text ~ /\\$/
}

# Adds a line to the declaration that is being read, which ends with a semicolon outside braces.
function collect(text,    i, letter) {
    for (i = 1; i <= length(text); i++) {
        letter = substr(text, i, 1)
        depth += (letter == "{") - (letter == "}")
        if (letter == ";" && depth == 0) {
            read_declaration(trim(statement))
            statement = ""
        } else {
            statement = statement letter
        }
    }
    statement = statement " "
    if (statement ~ /^ *$/)
        statement = ""
}

function read_declaration(text,    name) {
    if (text ~ /^(typedef )?enum( es_[a-z0-9_]+)? \{/)
        read_enum(text)
    else if (text ~ /^(typedef )?struct es_[a-z0-9_]+ \{/)
        read_struct(text)
    else if (text ~ /^(typedef )?struct es_[a-z0-9_]+( es_[a-z0-9_]+)?$/) {
        name = text
        sub(/.* /, "", name)
        opaque[name] = 1
    } else if (text ~ /^typedef [a-z0-9_ ]+ \*?\(\*es_[a-z0-9_]+\) ?\(.*\)$/)
        read_callback(substr(text, 9))
    else if (text ~ /^ES_API [^(]*[ *]es_[a-z0-9_]+\(.*\)$/)
        read_function(substr(text, 8))
    else
        fail("cannot read: " text)
}

# The text between the first opening brace or parenthesis and the last closing one.
function inside(text, open, close_) {
    sub("^[^" open "]*[" open "]", "", text)
    sub("[" close_ "][^" close_ "]*$", "", text)
    return trim(text)
}

function read_enum(text,    parts, n, i, pair, value, name) {
    name = text
    sub(/^typedef /, "", name)
    sub(/^enum /, "", name)
    sub(/ ?\{.*/, "", name)
    if (name != "")
        is_enum[name] = 1
    n = split(inside(text, "{", "}"), parts, ",")
    value = -1
    for (i = 1; i <= n; i++) {
        split(parts[i], pair, "=")
        pair[1] = trim(pair[1])
        if (pair[1] !~ /^ES_[A-Z0-9_]+$/)
            fail("not the name of a constant: " pair[1])
        value = parts[i] ~ /=/ ? number(trim(pair[2])) : value + 1
        constants[++constant_count] = pair[1]
        constant[pair[1]] = value
    }
}

# The value of a constant: a decimal or hexadecimal number, a name, or A << B.
function number(text,    parts, value, i) {
    if (text ~ /^-?[0-9]+$/)
        return text + 0
    if (text in constant)
        return constant[text]
    if (text ~ /^0x[0-9a-f]+$/) {
        for (i = 3; i <= length(text); i++)
            value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
        return value
    }
    if (split(text, parts, "<<") == 2) {
        value = number(trim(parts[1]))
        for (i = number(trim(parts[2])); i > 0; i--)
            value *= 2
        return value
    }
    fail("not a number: " text)
}

function read_struct(text,    name, parts, n, i) {
    name = text
    sub(/^(typedef )?struct /, "", name)
    sub(/ .*/, "", name)
    if (name in is_struct)
        fail("described twice: " name)
    struct_name[++structs] = name
    n = split(inside(text, "{", "}"), parts, ";")
    if (trim(parts[n]) != "")
        fail("no semicolon after the last member of " name)
    for (i = 1; i < n; i++)
        read_member(name, trim(parts[i]))
    is_struct[name] = 1
}

# TYPE NAME, *NAME, NAME[N] or RESULT (*NAME)(ARGUMENTS).
function read_member(type, text,    parts, n, i, base, name) {
    if (text ~ /^[a-z0-9_ ]+ \*?\(\*[a-z0-9_]+\) ?\(.*\)$/) {
        name = text
        sub(/^[^(]*\(\*/, "", name)
        sub(/\).*/, "", name)
        add_field(type, name, "Pointer")
        return
    }
    n = split(text, parts, ",")
    base = base_of(parts[1])
    parts[1] = declarator_of(parts[1])
    for (i = 1; i <= n; i++)
        read_declarator(type, base, trim(parts[i]))
}

function read_declarator(type, base, text,    name, pointers, kind) {
    name = text
    pointers = gsub(/\*/, "", name)
    gsub(/const /, "", name)
    name = trim(name)
    if (name !~ /^[a-z][a-z0-9_]*(\[[A-Z0-9_]+\])*$/)
        fail("cannot read the member " text " of " type)
    kind = python_type(base, pointers, "member")
    while (match(name, /\[[A-Z0-9_]+\]$/)) {
        kind = (kind ~ / / ? "(" kind ")" : kind) " * " number(substr(name, RSTART + 1, RLENGTH - 2))
        name = substr(name, 1, RSTART - 1)
    }
    add_field(type, name, kind)
}

function add_field(type, name, kind) {
    field_count[type]++
    field_name[type, field_count[type]] = name
    field_kind[type, field_count[type]] = kind
}

# The first words of a declaration, without const and struct: `const es_mask *mask` has the base es_mask.
function base_of(text) {
    text = " " text
    gsub(/ const /, " ", text)
    sub(/^ struct /, " ", text)
    text = trim(text)
    sub(/[ *].*/, "", text)
    return text
}

# What follows the base: `*mask`.
function declarator_of(text) {
    text = trim(text)
    sub(/^const /, "", text)
    sub(/^struct /, "", text)
    sub(/^[a-z0-9_]+/, "", text)
    return trim(text)
}

# RESULT (*NAME)(ARGUMENTS), a typedef: arguments of that type are functions.
function read_callback(text,    name, result) {
    name = text
    sub(/^[^(]*\(\*/, "", name)
    sub(/\).*/, "", name)
    result = text
    sub(/ ?\(\*.*/, "", result)
    sub(/^[^)]*\)/, "", text)
    callback[name] = "c.CFUNCTYPE(" type_of(result, "callback")
    text = arguments_of(inside(text, "(", ")"), "callback")
    callback[name] = callback[name] (text == "" ? "" : ", " text) ")"
    callbacks[++callback_count] = name
}

# RESULT NAME(ARGUMENTS), perhaps with ES_PRINTF(A, B).
function read_function(text,    name, result) {
    sub(/ ES_PRINTF\([0-9]+, ?[0-9]+\)$/, "", text)
    match(text, /es_[a-z0-9_]+\(/)
    name = substr(text, RSTART, RLENGTH - 1)
    result = trim(substr(text, 1, RSTART - 1))
    text = inside(text, "(", ")")
    if (name in has_function)
        fail("described twice: " name)
    has_function[name] = 1
    function_name[++functions] = name
    function_varies[name] = sub(/, ?\.\.\.$/, "", text)
    function_result[name] = type_of(result, "result")
    function_takes[name] = arguments_of(text, "argument")
}

function arguments_of(text, use,    parts, n, i, out) {
    if (text == "void")
        return ""
    n = split(text, parts, ",")
    if (n == 0)
        fail("write (void) where there are no arguments")
    for (i = 1; i <= n; i++)
        out = out (i > 1 ? ", " : "") type_of(trim(parts[i]), use)
    return out
}

# The type of an argument or a result, with or without a name.
function type_of(text, use,    pointers, rest) {
    rest = declarator_of(text)
    if (rest !~ /^[*const ]*([a-z][a-z0-9_]*)?(\[[0-9]+\])?$/)
        fail("cannot read the type " text)
    pointers = gsub(/\*/, "", rest) + (rest ~ /\]$/)
    return python_type(base_of(text), pointers, use)
}

# What ctypes calls a type. `use` is member, argument, result or callback.
function python_type(base, pointers, use) {
    if (base in callback && !pointers)
        return use == "member" ? "Pointer" : class_of(base)
    if (!(base in ctype || base in is_enum || base in is_struct || base in opaque || base == "void" ||
          base in field_count))
        fail("an unknown type: " base)
    if (pointers == 0) {
        if (base == "void" && (use == "result" || use == "callback"))
            return "None"
        if (base in ctype)
            return ctype[base]
        if (base in is_enum)
            return "c.c_int"
        if (base in is_struct)
            return class_of(base)
        fail("a value of " base)
    }
    if (base == "char" && use != "callback" && pointers <= 2)
        return pointers == 1 ? "Text" : "c.POINTER(Text)"
    if (pointers == 2)
        return "c.POINTER(Pointer)"
    return base in is_struct ? "c.POINTER(" class_of(base) ")" : "Pointer"
}

# es_attend_opts is AttendOpts.
function class_of(name,    parts, n, i, out) {
    n = split(name, parts, "_")
    for (i = 2; i <= n; i++)
        out = out toupper(substr(parts[i], 1, 1)) substr(parts[i], 2)
    return out
}

# ---- writing ----

function write_c(    i, j, name) {
    print "/* SPDX-License-Identifier: Apache-2.0 */"
    print "/* Made from include/esscher by cmake/abi.awk. */"
    print "#include <stddef.h>\n"
    print "#include <esscher/foreign.h>\n"
    for (i = 1; i <= header_count; i++)
        print "#include <esscher/" headers[i] ">"
    print "\n#define WHOLE(t)   #t, \"\", 0, (int64_t)sizeof(t)"
    print "#define PART(t, f) #t, #f, (int64_t)offsetof(t, f), (int64_t)sizeof(((t *)0)->f)\n"
    print "static const es_field fields[] = {"
    for (i = 1; i <= structs; i++) {
        name = struct_name[i]
        print "    {WHOLE(" name ")},"
        for (j = 1; j <= field_count[name]; j++)
            print "    {PART(" name ", " field_name[name, j] ")},"
    }
    print "};\n"
    print "const es_field *es_field_at(int64_t at)\n{"
    print "    const int64_t count = (int64_t)(sizeof fields / sizeof fields[0]);"
    print "    return at >= 0 && at < count ? &fields[at] : NULL;\n}"
}

function write_python(    i, j, name) {
    print "# SPDX-License-Identifier: Apache-2.0"
    print "# Made from include/esscher by cmake/abi.awk: cmake --build build/release --target python_abi"
    print "\"\"\"The constants, structs and functions of the shared library, as ctypes describes them.\"\"\"\n"
    print "from __future__ import annotations\n"
    print "import ctypes as c"
    print "from typing import Any, Dict, List, Tuple, Type\n"
    print "Pointer = c.c_void_p"
    print "Text = c.c_char_p\n"
    for (i = 1; i <= constant_count; i++)
        printf "%s = %d\n", constants[i], constant[constants[i]]
    for (i = 1; i <= structs; i++) {
        name = struct_name[i]
        print "\n\nclass " class_of(name) "(c.Structure):"
        print "    _fields_ = ["
        for (j = 1; j <= field_count[name]; j++)
            fill("(\"" field_name[name, j] "\", " field_kind[name, j] ")")
        end_fill()
        print "    ]  # fmt: skip"
    }
    print "\n"
    for (i = 1; i <= callback_count; i++)
        print class_of(callbacks[i]) " = " callback[callbacks[i]]
    print "\nSTRUCTS: Dict[str, Type[c.Structure]] = {"
    for (i = 1; i <= structs; i++)
        print "    \"" struct_name[i] "\": " class_of(struct_name[i]) ","
    print "}\n"
    print "# What each function returns and takes."
    print "FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {"
    for (i = 1; i <= functions; i++)
        if (!function_varies[function_name[i]])
            write_python_function(function_name[i])
    print "}  # fmt: skip"
}

# One entry of FUNCTIONS.
function write_python_function(name,    text, parts, n, i) {
    text = "    \"" name "\": (" function_result[name] ", ["
    if (length(text function_takes[name] "]),") <= 100) {
        print text function_takes[name] "]),"
        return
    }
    print text
    n = split(function_takes[name], parts, ", ")
    for (i = 1; i <= n; i++)
        fill(parts[i])
    end_fill()
    print "    ]),"
}

# Adds an item to a list that is written in lines of at most 100 columns. end_fill() : that was the last.
function fill(item) {
    if (length(filled item) + 2 > 100)
        end_fill()
    filled = filled (filled == "" ? "        " : " ") item ","
}

function end_fill() {
    if (filled != "")
        print filled
    filled = ""
}
