# SPDX-License-Identifier: MIT
# c_files: every C file of the tree below the current folder, one per line, sorted. Git
# knows what belongs to it; a tree without git (a release, a test's) is searched.

c_files() {
    {
        if [ -e .git ] && command -v git >/dev/null 2>&1; then
            git -c safe.directory='*' ls-files -co --exclude-standard -- '*.c' '*.h'
        else
            find . -name 'build*' -prune -o -type f -name '*.[ch]' -print | sed 's|^\./||'
        fi
    } | while IFS= read -r file; do
        # deleted but still tracked
        [ -f "$file" ] && printf '%s\n' "$file"
    done | LC_ALL=C sort
}
