# Starts a session of JavaScript: $0 is node, $1 and $2 the parts of its driver, $3 the options, and
# $4 a new folder.
#
# Node.js cannot make pipes or replace its descriptors. This gives it:
#   0 a file: standard input of the code    3, 4 the channel to the host
#   1, 2 FIFOs: output of the code          5, 6 their other ends    7 the file, for writing
set -e
umask 077
mkdir "$4"
mkfifo "$4/out" "$4/err"
: >"$4/in"
exec 3<&0 4>&1 5<>"$4/out" 6<>"$4/err" 7>"$4/in" 8>"$4/out" 9>"$4/err" 0<"$4/in"
rm -r "$4"
exec "$0" --expose-internals --no-warnings -e "$1" -- "$2" "$3" 1>&8 2>&9 8>&- 9>&-
