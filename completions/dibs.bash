# SPDX-License-Identifier: MIT
# bash completion for dibs(1). What is offered comes from `dibs __complete`.
_dibs() {
    local current=${COMP_WORDS[COMP_CWORD]} line word
    local -a typed=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=()
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        if [[ $word == '<command>' ]]; then
            local found
            while IFS= read -r found; do
                COMPREPLY+=("$found")
            done < <(compgen -c -- "$current"; compgen -f -- "$current")
        else
            COMPREPLY+=("$word")
        fi
    done < <("${COMP_WORDS[0]}" __complete "${typed[@]}" 2>/dev/null)
}
complete -F _dibs dibs
