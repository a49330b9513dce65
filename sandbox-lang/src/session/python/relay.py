"""Gives its standard streams to a copy of an interpreter, and ends as the copy does.

Runs as `python3 -I -S -c`, so nothing of the sandbox's folders is imported.
"""
import array
import os
import signal
import socket
import sys

# Exit code if the copy ended without a word, as it does with the session that it comes from.
NO_STATUS = 122

copy = socket.socket(socket.AF_UNIX)
copy.connect(sys.argv[1])
streams = array.array("i", [0, 1, 2])
copy.sendmsg([b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
# Standard error remains, for what goes wrong here.
nowhere = os.open(os.devnull, os.O_RDWR)
for number in (0, 1):
    os.dup2(nowhere, number)
status = copy.recv(16)
if not status:
    os._exit(NO_STATUS)
if os.WIFSIGNALED(int(status)):
    number = os.WTERMSIG(int(status))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
os._exit(os.WEXITSTATUS(int(status)))
