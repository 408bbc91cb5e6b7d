#!/bin/sh
# SPDX-License-Identifier: MIT
# summary.sh SUMMARY_AWK: results are counted for what they are, and a skip has a reason.
set -eu
awk=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/mixed.xml" <<'EOF'
<testsuite name="x" tests="6">
	<testcase name="good" classname="good" time="0.1" status="run">
		<system-out>skipped: not me
</system-out>
	</testcase>
	<testcase name="bad" classname="bad" time="0.1" status="fail">
		<failure message=""/>
		<system-out></system-out>
	</testcase>
	<testcase name="missing" classname="missing" time="0" status="notrun">
		<skipped message="Unable to find executable"/>
		<system-out>Unable to find executable: x</system-out>
	</testcase>
	<testcase name="skip&lt;1&gt;" classname="skip" time="0.1" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out>trying
skipped: no a &amp; b
</system-out>
	</testcase>
	<testcase name="mute" classname="mute" time="0.1" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out></system-out>
	</testcase>
</testsuite>
EOF
cat >"$work/expected" <<'EOF'
failed: bad
failed: missing
skipped: skip<1>: no a & b
failed: mute: skipped without a reason
1 passed, 3 failed, 1 skipped
EOF
if awk -f "$awk" "$work/mixed.xml" >"$work/found"; then
    echo "failures, and no failure in the exit status"
    exit 1
fi
diff "$work/expected" "$work/found"

# what fails at first and passes then is said, and what fails twice has failed
cat >"$work/again.xml" <<'EOF'
<testsuite name="x" tests="2">
	<testcase name="bad" classname="bad" time="0.1" status="run">
		<system-out></system-out>
	</testcase>
	<testcase name="missing" classname="missing" time="0" status="notrun">
		<skipped message="Unable to find executable"/>
		<system-out>Unable to find executable: x</system-out>
	</testcase>
</testsuite>
EOF
sed -e 's/^failed: bad/unsteady: bad/' -e 's/^1 passed, 3/2 passed, 2/' \
    "$work/expected" >"$work/expected-again"
if awk -f "$awk" "$work/mixed.xml" "$work/again.xml" >"$work/found"; then
    echo "failures twice, and no failure in the exit status"
    exit 1
fi
diff "$work/expected-again" "$work/found"

sed '/name="bad"/,$d' "$work/mixed.xml" >"$work/good.xml"
[ "$(awk -f "$awk" "$work/good.xml")" = "1 passed, 0 failed, 0 skipped" ]
