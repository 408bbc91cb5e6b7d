# SPDX-License-Identifier: MIT
# Reads the JUnit file that ctest writes, and one of a second run of what failed if there
# was one: lists every skipped test with the last line it printed, which is its reason, every
# test that passed at the second run only as "unsteady", and ends with "N passed, N failed,
# N skipped". To skip without a reason, or not to run at all, is to fail. Exits 1 if any did.

function attribute(name,    value)
{
    if (!match($0, " " name "=\"[^\"]*\""))
        return ""
    value = substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
    return value
}

function plain(text)
{
    gsub(/&lt;/, "<", text)
    gsub(/&gt;/, ">", text)
    gsub(/&quot;/, "\"", text)
    gsub(/&apos;/, "'", text)
    gsub(/&amp;/, "\\&", text)
    return text
}

/<testcase / {
    test = plain(attribute("name"))
    status = attribute("status")
    reason = ""
    output = 0
    chose = status == "disabled"
}
/<skipped message="SKIP_/ { chose = 1 }
/<system-out>/ {
    output = 1
    sub(/.*<system-out>/, "")
}
output && !/^[ ]*(<\/system-out>)?[ ]*$/ {
    reason = $0
    sub(/<\/system-out>.*/, "", reason)
    sub(/^skipped: */, "", reason)
}
/<\/system-out>/ { output = 0 }
/<\/testcase>/ {
    if (!(test in verdict))
        order[++tests] = test
    before = verdict[test]
    if (status == "run")
        verdict[test] = before ~ /^(failed|unsteady)/ ? "unsteady: " test : "passed"
    else if (chose && reason != "")
        verdict[test] = "skipped: " test ": " plain(reason)
    else
        verdict[test] = "failed: " test (chose ? ": skipped without a reason" : "")
}
END {
    for (i = 1; i <= tests; i++) {
        line = verdict[order[i]]
        if (line != "passed")
            print line
        sub(/:.*/, "", line)
        count[line]++
    }
    printf "%d passed, %d failed, %d skipped\n", count["passed"] + count["unsteady"],
        count["failed"], count["skipped"]
    exit count["failed"] > 0
}
