# SPDX-License-Identifier: MIT
# The rules of tools/check-style: one pass over all files. In this order: set-up, the
# layers, comments and strings taken out, the rules for a line, the rules for a file.

BEGIN {
    # who may include what (L1): a file's layer -> the layers it may use; "" is its own
    may["include"] = " include engine.h dibs.h "
    may["src/util"] = " "
    may["src/resp"] = " src/util dibs.h engine.h "
    may["src/http"] = " src/util dibs.h engine.h "
    may["src/kit"] = " src/util dibs.h engine.h "
    may["src/sql"] = " src/util dibs.h engine.h "
    may["src/core"] = " src/util dibs.h engine.h "
    may["src/engine"] = " src/util src/resp src/http src/kit src/sql dibs.h engine.h "
    may["cli"] = " src/util dibs.h "
    may["examples"] = " dibs.h "

    banned_count = split("strcpy strcat sprintf vsprintf gets strtok atoi system", banned)

    while ((getline line < list) > 0)
        exists[line] = 1
    while ((getline line < allow) > 0)
        if (line !~ /^#/ && split(line, word) >= 4)
            allowed[word[1] " " word[2] " " word[3]] = 1
}

function complain(rule, text)
{
    print FILENAME ":" FNR ": " rule ": " text
    bad = 1
}

function folder(path)
{
    return match(path, /\/[^\/]*$/) ? substr(path, 1, RSTART - 1) : ""
}

# the layer a file belongs to; an engine's folder is a layer of its own
function layer(path)
{
    if (path == "include/dibs.h")
        return "dibs.h"
    if (path == "include/dibs/engine.h")
        return "engine.h"
    if (match(path, /^src\/engine\/[^\/]+/) || match(path, /^src\/[^\/]+/))
        return substr(path, 1, RLENGTH)
    return match(path, /^[^\/]+/) ? substr(path, 1, RLENGTH) : path
}

# which file of ours "#include NAME" means, or "" if none
function target(name,    path)
{
    path = folder(FILENAME) "/" name
    while (match(path, /[^\/]+\/\.\.\//))
        path = substr(path, 1, RSTART - 1) substr(path, RSTART + RLENGTH)
    if (path in exists)
        return path
    if (("src/" name) in exists)
        return "src/" name
    if (("include/" name) in exists)
        return "include/" name
    return ""
}

function check_include(name,    path, from, to, kind)
{
    path = target(name)
    if (path == "")
        return
    from = layer(FILENAME)
    to = layer(path)
    kind = from ~ /^src\/engine\// ? "src/engine" : from
    kind = kind ~ /\.h$/ ? "include" : kind
    if (from == to || !(kind in may) || index(may[kind], " " to " "))
        return
    if (!((FILENAME " layer " name) in allowed))
        complain("layer", from " must not include " path)
}

# the line without comments and without what strings hold; sets saw_slashes
function code_of(line,    out, i, n, c, two)
{
    out = ""
    n = length(line)
    saw_slashes = 0
    for (i = 1; i <= n; i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (in_comment) {
            if (two == "*/") {
                in_comment = 0
                i++
            }
        } else if (quote != "") {
            if (c == "\\") {
                i++
            } else if (c == quote) {
                quote = ""
                out = out c
            }
        } else if (two == "/*") {
            in_comment = 1
            i++
        } else if (two == "//") {
            saw_slashes = 1
            return out
        } else {
            if (c == "\"" || c == "'")
                quote = c
            out = out c
        }
    }
    if (line !~ /\\$/)
        quote = ""
    return out
}

# is NAME called in the code? not as part of a longer name, nor as a member
function calls(code, name)
{
    return match(" " code, "[^A-Za-z0-9_.>]" name "[ ]*\\(")
}

function check_size()
{
    if (lines > 800)
        bad = 1
    if (lines > 400)
        print (lines > 800 ? "" : "note: ") last_file ":" lines ": size: " \
            lines " lines" (lines > 800 ? ", 800 at most" : ": does its head list its parts?")
}

FNR == 1 {
    check_size()
    last_file = FILENAME
    in_comment = 0
    quote = ""
    if ($0 != "/* SPDX-License-Identifier: MIT */")
        complain("spdx", "the first line is not /* SPDX-License-Identifier: MIT */")
}

{ lines = FNR }

/\t/ { complain("tab", "a tab") }
/[ \r]$/ { complain("space", "trailing space") }
/(^|[^A-Za-z0-9_])(TODO|FIXME|XXX)([^A-Za-z0-9_]|$)/ {
    complain("unfinished", "finish it, or open an issue")
}

/^[ ]*#[ ]*include[ ]+["<]/ {
    name = $0
    sub(/^[^"<]*["<]/, "", name)
    sub(/[">].*/, "", name)
    check_include(name)
}

{
    code = code_of($0)
    if (saw_slashes)
        complain("comment", "a // comment")
    # tests and benchmarks read nothing but what they wrote themselves
    for (i = 1; i <= banned_count && FILENAME !~ /^(test|bench)\//; i++)
        if (calls(code, banned[i]) && !((FILENAME " banned " banned[i]) in allowed))
            complain("banned", banned[i] "()")
}

END {
    check_size()
    exit bad
}
