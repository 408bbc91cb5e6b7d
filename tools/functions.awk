# SPDX-License-Identifier: MIT
# Prints "FILE LINE NAME LENGTH" for every function, counted from the line with its name to
# its closing brace. Relies on our layout, which tools/check-format keeps: the name opens a
# line, and the braces of a function stand alone in the first column.

FNR == 1 { name = ""; inside = 0 }
!inside && /^[A-Za-z_][A-Za-z0-9_]*\(/ {
    name = substr($0, 1, index($0, "(") - 1)
    start = FNR
}
!inside && /^\{/ && name != "" { inside = 1 }
!inside && /^[#}]|;$/ { name = "" }
inside && /^\}/ {
    print FILENAME, start, name, FNR - start + 1
    inside = 0
    name = ""
}
