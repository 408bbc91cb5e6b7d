# SPDX-License-Identifier: MIT
# Reads the JUnit file that ctest writes: lists every skipped test with the last line it
# printed, which is its reason, and ends with "N passed, N failed, N skipped". To skip
# without a reason, or not to run at all, is to fail. Exits 1 if any did.

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
    if (status == "run") {
        passed++
    } else if (chose && reason != "") {
        skipped++
        print "skipped: " test ": " plain(reason)
    } else {
        failed++
        print "failed: " test (chose ? ": skipped without a reason" : "")
    }
}
END {
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed > 0
}
