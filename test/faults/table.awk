# SPDX-License-Identifier: MIT
# table.awk RESULTS PAGE: prints the page, with a table of the results between its
# markers. Read by scripts/torture.

# the value of a member that is a number or a text
function member(name,    at) {
    if (!match($0, "\"" name "\":(\"[^\"]*\"|[0-9]+)"))
        return ""
    at = substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
    gsub(/"/, "", at)
    return at
}

function add_violations(cell,    rest) {
    rest = $0
    while (match(rest, /"K[0-9]+":[0-9]+/)) {
        split(substr(rest, RSTART, RLENGTH), pair, ":")
        gsub(/"/, "", pair[1])
        broken[cell, pair[1]] += pair[2]
        rest = substr(rest, RSTART + RLENGTH)
    }
}

function thousands(number,    text) {
    text = number + 0 ""
    while (match(text, /[0-9][0-9][0-9][0-9]($|,)/))
        text = substr(text, 1, RSTART) "," substr(text, RSTART + 1)
    return text
}

function violations(cell,    k, text) {
    for (k = 1; k <= 14; k++)
        if (broken[cell, "K" k])
            text = text (text ? ", " : "") "K" k " " thousands(broken[cell, "K" k])
    if (failed[cell])
        text = text (text ? ", " : "") failed[cell] " failed"
    if (!text && expected[cell] == "broken")
        text = "not shown"
    return (text ? text : "0") (expected[cell] == "broken" ? " (negative control)" : \
        text && expected[cell] == "may" ? " (may be)" : "")
}

function print_table(    i, cell, sum, hurt) {
    for (i = 1; i <= count; i++) {
        sum += acquired[cells[i]]
        hurt += faults[cells[i]]
    }
    print thousands(sum) " acquisitions and " thousands(hurt) " faults in " runs " runs:\n"
    print "| stage | fault | acquisitions | faults | violations | the first run, or the first that broke a rule, again |"
    print "| --- | --- | --- | --- | --- | --- |"
    for (i = 1; i <= count; i++) {
        cell = cells[i]
        split(cell, of, " ")
        printf "| `%s` | `%s` | %s | %s | %s | `scripts/torture --engines %s --faults %s --seed %s --run %ss` |\n",
            of[1], of[2], thousands(acquired[cell]), thousands(faults[cell]),
            violations(cell), of[1], of[2], seed[cell], length_s[cell]
    }
}

FNR == NR {
    cell = member("stage") " " member("fault")
    if (!(cell in seed))
        cells[++count] = cell
    # the first run, or the first that broke something
    is_broken = /"violated":[{]"/
    if (!(cell in seed) || (is_broken && !was_broken[cell])) {
        was_broken[cell] = is_broken
        seed[cell] = member("last_seed") ? member("last_seed") : member("seed")
        length_s[cell] = member("seconds")
    }
    runs++
    acquired[cell] += member("acquired")
    faults[cell] += member("strikes") + member("kills") + member("pauses")
    expected[cell] = member("expected") ? member("expected") : expected[cell]
    failed[cell] += member("verdict") ~ /FAILED|NOTHING/
    add_violations(cell)
    next
}
/^<!-- torture: end -->/ { is_inside = 0; seen++ }
!is_inside { print }
/^<!-- torture: begin -->/ { is_inside = 1; seen++; print_table() }
END { if (seen != 2) { print "table.awk: the page has no markers" >"/dev/stderr"; exit 1 } }
