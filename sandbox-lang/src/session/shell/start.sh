# Starts a session of a shell or of R: $0 is its program, $1 the beginning of a folder's name, $2 what
# marks the end of a cell, $3 what the program runs first, and $4 the language. $5 and $6 are for R.
#
# Two helpers share its process group, and the code's programs get no descriptor of theirs. One takes
# requests of the host. The other tells the ends of cells, on both streams of output, and messages. Neither is a
# child of the shell: the `wait` of BusyBox waits for all children, also for those it did not start.
set -e
# What a killed shell of this session left. It may be ending, so the new folder has another name.
rm -rf "$1"-*
folder=$1-$$ mark=$2
(
    umask 077
    mkdir "$folder"
    mkfifo "$folder/sh" "$folder/end"
    printf %s "$3" >"$folder/init"
)
exec 5<&0 0</dev/null
set +e
language=$4 is_bash=""
if [ "$language" = r ]; then
    : >"$folder/input"
    exec 6<"$folder/input"
fi
if [ "$language" = sh ] && "$0" -c '[ "${BASH_VERSION-}" ]'; then is_bash=1; fi

# This shell ends once it has started both helpers.
(
{
    trap '' INT HUP
    exec 3<>"$folder/end" 5<&- 6<&-
    while IFS= read -r line <&3; do
        printf '\000%s %s\n' "$mark" "$line"
        # A piece of a message.
        case $line in +* | =*) continue ;; esac
        printf '\000%s %s\n' "$mark" "${line%% *}" >&2
    done
} &
teller=$!

# Waits until the shell has emptied a file, at most so many times 20 ms.
until_empty() {
    tries=0
    while [ -s "$folder/$1" ] && [ "$tries" -lt "$2" ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
}

# Kills what the code started: descendants of the shell, and processes of its session. If /proc is
# hidden, most of those in the same group, by a signal that the shell and both helpers survive.
kill_children() {
    if [ "$self" = none ]; then
        kill -s HUP 0
        return
    fi
    all=
    for entry in /proc/[0-9]*; do
        pid=${entry#/proc/} stat=
        while IFS= read -r part; do stat="$stat $part"; done 2>/dev/null <"$entry/stat" || continue
        # After the name, which can have any characters: state, parent, group, session.
        set -- ${stat##*) }
        eval "parent_$pid=\$2 session_$pid=\$4"
        all="$all $pid"
    done
    for pid in $all; do
        above=$pid seen=
        while [ "$above" != $$ ]; do
            case " $seen " in *" $above "*) above=; esac
            seen="$seen $above"
            eval "above=\${parent_$above:-}"
            [ "$above" ] || break
        done
        eval "session=\$session_$pid"
        case $pid in $$ | "$self" | "$teller") continue ;; esac
        if [ "$above" ] || [ "$session" = $$ ]; then kill -s KILL "$pid" 2>/dev/null || :; fi
    done
}

{
    trap '' INT HUP
    { read -r self rest </proc/self/stat; } 2>/dev/null || self=none
    exec 3>"$folder/sh"
    if [ "$language" = sh ]; then printf ". '%s/init'\n" "$folder" >&3; fi
    while read -r kind cell code input <&5; do
        case $kind in
            r)
                printf %b "$code" >"$folder/code"
                if [ "$language" = r ]; then
                    # R and this process share the position in the file. What the cell before did
                    # not read is skipped.
                    cat <&6 >/dev/null
                    printf %b "$input" >>"$folder/input"
                else
                    printf %b "$input" >"$folder/input"
                fi
                # The program empties this file.
                echo x >"$folder/waiting"
                if [ "$language" = r ]; then
                    echo "$cell" >&3
                    continue
                fi
                printf '__sandbox_cell=%s __sandbox_status="" ' "$cell" >&3
                printf "&& >|'%s/waiting' " "$folder" >&3
                printf "&& . '%s/code' <'%s/input'; " "$folder" "$folder" >&3
                printf '__sandbox_status=$? PS1=$__sandbox_prompt\n' >&3
                ;;
            i)
                # A shell that is interrupted before it runs the line may forget the line.
                until_empty waiting 100
                if [ "$language" = sh ] && [ ! "$is_bash" ]; then
                    # The shell's trap, which runs unless the shell waits, ends the cell.
                    echo x >"$folder/interrupting"
                    kill -URG $$
                    until_empty interrupting 10
                    if [ ! -s "$folder/interrupting" ]; then continue; fi
                fi
                kill -INT "-$$"
                ;;
            k) kill_children ;;
        esac
    done
    # The other helper keeps its own input open, and would go on where nothing ends it.
    kill "$teller" 2>/dev/null
    # The shell's end, which follows, may end this process as well.
    rm -rf "$folder"
    exec 3>&-
} &
)

if [ "$language" = r ]; then
    exec "$0" "$folder/init" "$folder" "$5" "$6" <&6 5<&- 6<&-
fi
# An interactive shell goes on after errors and interrupts. It must not read files of its own.
export __sandbox_start="$folder" PS1='' PS2=''
if [ "${ENV+set}" ]; then export __sandbox_env="$ENV"; fi
unset ENV
if [ "$is_bash" ]; then
    exec "$0" --norc --noprofile --noediting -i <"$folder/sh" 5<&-
fi
# BusyBox takes the end of a background process for the end of an interactive standard input. The
# name of a shell's file is its `$0`, and begins its messages.
exec "$0" -i "$folder/sh" 5<&-
