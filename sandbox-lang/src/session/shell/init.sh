# What the shell of a session runs first. Its prompt tells the end of a cell: the shell shows it
# after a cell that ended, that failed, and that was interrupted.
unset PS1 PS2 MAIL MAILPATH MAILCHECK HISTFILE
PS2='' __sandbox_folder=$__sandbox_start __sandbox_cell=0 __sandbox_status='' __sandbox_first=''
if [ "${__sandbox_env+set}" ]; then export ENV="$__sandbox_env"; fi
unset __sandbox_start __sandbox_env
if [ "${BASH_VERSION-}" ]; then
    set +o history +H
    __sandbox_names() {
        compgen -v
        compgen -A function -S '()'
    }
else
    # These shells leave what they are doing when SIGINT comes. BusyBox may then keep a lock of its C
    # library, and waits for it forever. A trap runs between two commands, where this is safe.
    trap '[ ! -s "$__sandbox_folder/interrupting" ] || kill -INT $$' URG
    # A line of a value may look like a variable, so `set` alone does not say what is one.
    __sandbox_names() {
        for __name in $(set | sed -n 's/^\([A-Za-z][A-Za-z0-9_]*\)=.*/\1/p'); do
            eval "[ \"\${$__name+set}\" ]" && echo "$__name"
        done
    }
fi
# The signal that ends the children if /proc is hidden must not end the shell.
{ read -r __sandbox_stat </proc/self/stat; } 2>/dev/null || trap : HUP
unset __sandbox_stat
__sandbox_new_names() {
    IFS=' 
'
    set +efux
    for __name in $(__sandbox_names); do
        case $__name in
            _* | BASH* | PS[124] | OLDPWD | PIPESTATUS | LINES | COLUMNS) ;;
            *)
                case " $__sandbox_first " in
                    *" $__name "*) ;;
                    *) printf '%s ' "$__name" ;;
                esac
                ;;
        esac
    done
}
# The cell, its status, the number of new variables, and those names that fit. At the start, the
# version instead of names.
__sandbox_end() {
    >|"$__sandbox_folder/interrupting"
    IFS=' 
'
    set +efux
    __count=0 __shown=
    for __name in $(__sandbox_new_names); do
        __count=$((__count + 1))
        if [ ${#__name} -le 100 ] && [ ${#__shown} -le 3000 ]; then __shown="$__shown $__name"; fi
    done
    if [ "$__sandbox_cell" = 0 ]; then __shown=" ${BASH_VERSION:+bash }${BASH_VERSION:-unknown}"; fi
    printf '%s %s %s%s\n' "$__sandbox_cell" "$1" "$__count" "$__shown" >"$__sandbox_folder/end"
}
__sandbox_first=$(__sandbox_new_names)
__sandbox_prompt='$({ __sandbox_end "${__sandbox_status:-$?}"; } 2>/dev/null)'
PS1=$__sandbox_prompt
