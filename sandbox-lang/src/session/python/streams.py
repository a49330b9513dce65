"""The driver of Python sessions, part 1: its channel to the host, and the streams of the code.

Runs as `python3 -c`. The working folder must not provide modules to the driver itself.
"""
import sys

USER_PATH = sys.path[:]
sys.path[:] = [folder for folder in sys.path if folder]

import _queue as queue
import fcntl
import json
import os
import select
import signal
import struct
import threading
import time

HEADER = struct.Struct(">cI")
PIECE = 64 * 1024
# How much output of other processes waits between cells.
HELD = 64 * 1024
# Exit code if the channel is gone: the code closed its descriptors.
NO_CHANNEL = 121
PID = os.getpid()
MAIN_THREAD = threading.get_ident()


class Interrupts:
    """Raises KeyboardInterrupt at most once in a cell, and never inside of the driver."""

    def __init__(self):
        self.open = self.masked = self.pending = False
        # The process that runs the cell instead of this one.
        self.fork = None
        # Whether this process is such a one.
        self.is_fork = False
        # How many cells were received, and how many have begun.
        self.received = self.cell = 0
        # The cells that the host last interrupted, and that the exception was last raised in.
        self.wanted = self.raised = 0
        # Whether the next signal is one of the host, and not of the code.
        self.is_sent = False

    def want(self):
        """Interrupts the last cell that was received, whether it has begun or not."""
        self.wanted = self.received
        self.is_sent = True
        # A signal right before a system call blocks does not end it. A handler of the code is
        # called once, though.
        for _ in range(80):
            signal.pthread_kill(MAIN_THREAD, signal.SIGINT)
            time.sleep(0.02)
            if not self.is_sent or signal.getsignal(signal.SIGINT) != self.handle:
                return

    def enter(self):
        """From here on, an interrupt raises the exception; also one that came before."""
        self.open = True
        if self.wanted == self.cell:
            self.interrupt()

    def handle(self, number, frame):
        is_sent, self.is_sent = self.is_sent, False
        # Its cell may have ended.
        if not is_sent or self.wanted == self.cell:
            self.interrupt()

    def interrupt(self):
        if self.masked:
            self.pending = True
        elif self.fork:
            try:
                os.kill(self.fork, signal.SIGINT)
            except OSError:
                pass  # It has ended.
        elif self.open and self.raised != self.cell:
            self.raised = self.cell
            raise KeyboardInterrupt
        elif self.is_fork:
            self.wanted = self.cell

    def mask(self):
        if threading.get_ident() == MAIN_THREAD:
            self.masked = True

    def unmask(self):
        if threading.get_ident() == MAIN_THREAD:
            self.masked = False
            if self.pending:
                self.pending = False
                self.interrupt()


INTERRUPTS = Interrupts()


def high_pipe():
    """The ends of a pipe, which programs do not inherit."""
    ends = os.pipe()
    copies = [high(end) for end in ends]
    for end in ends:
        os.close(end)
    return copies


def high(descriptor):
    """A copy with a high number that programs do not inherit."""
    for least in (200, 20):
        try:
            return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:
            pass
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def encoded_message(message):
    # Without surrogates, which the host cannot read.
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")


class Channel:
    """Frames to and from the host: a kind, a length, a payload."""

    def __init__(self):
        self.source, self.sink, self.log = high(0), high(1), high(2)
        self.lock = threading.Lock()

    def __enter__(self):
        INTERRUPTS.mask()
        self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()
        INTERRUPTS.unmask()

    def send(self, kind, payload):
        """Sends a frame. The caller holds the channel."""
        self.write(HEADER.pack(kind, len(payload)) + payload)

    def write(self, data):
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self.sink, rest):]
        except OSError:
            os._exit(NO_CHANNEL)

    def send_message(self, message):
        self.send(b"m", encoded_message(message))

    def read(self, length):
        data = b""
        while len(data) < length:
            piece = os.read(self.source, length - len(data))
            if not piece:
                return None
            data += piece
        return data

    def receive(self):
        """The next frame; None at the end."""
        try:
            header = self.read(HEADER.size)
            if header is None:
                return None
            kind, length = HEADER.unpack(header)
            payload = self.read(length)
            return None if payload is None else (kind, payload)
        except OSError:
            os._exit(NO_CHANNEL)


class Stream:
    """A pipe that is standard output or standard error of the code."""

    def __init__(self, number, kind):
        self.number, self.kind = number, kind
        self.reader, self.writer = high_pipe()
        try:
            fcntl.fcntl(self.writer, 1031, 1 << 20)  # F_SETPIPE_SZ: fewer switches between threads
        except OSError:
            pass
        os.set_blocking(self.reader, False)
        self.held, self.room, self.total = b"", 0, 0

    def attach(self):
        os.dup2(self.writer, self.number)

    def take(self, channel, is_cell):
        """Reads and forwards a piece; its length. The caller holds the channel."""
        try:
            piece = os.read(self.reader, PIECE)
        except BlockingIOError:
            return 0
        except OSError:
            os._exit(NO_CHANNEL)
        if is_cell:
            self.forward(channel, piece)
        else:
            self.total += len(piece)
            self.held += piece[: HELD - len(self.held)]
        return len(piece)

    def forward(self, channel, piece):
        self.total += len(piece)
        part = piece[: self.room]
        if part:
            self.room -= len(part)
            channel.send(self.kind, part)


class Streams:
    def __init__(self, channel):
        self.channel = channel
        self.streams = (Stream(1, b"o"), Stream(2, b"e"))
        self.is_cell = False

    def attach(self):
        for stream in self.streams:
            stream.attach()

    def begin(self, limits):
        """Starts a cell with what other processes wrote since the last one."""
        with self.channel:
            self.is_cell = True
            for stream, limit in zip(self.streams, limits):
                stream.room = limit
                missed = stream.total - len(stream.held)
                held, stream.held, stream.total = stream.held, b"", missed
                stream.forward(self.channel, held)

    def end(self, message):
        """Forwards what was written before the end of the cell, and then sends the end.

        A process that writes on does not delay it: the pipe is emptied once.
        """
        with self.channel:
            for stream in self.streams:
                left = 1 << 20
                while left > 0:
                    count = stream.take(self.channel, True)
                    if not count:
                        break
                    left -= count
            message["stdout"], message["stderr"] = [stream.total for stream in self.streams]
            for stream in self.streams:
                stream.total = 0
            self.is_cell = False
            self.channel.send_message(message)

    def pump(self):
        poll = select.poll()
        for stream in self.streams:
            poll.register(stream.reader, select.POLLIN)
        while True:
            ready = poll.poll()
            with self.channel:
                for stream in self.streams:
                    if any(reader == stream.reader for reader, _ in ready):
                        stream.take(self.channel, self.is_cell)


def own_processes():
    """Processes that the code started: descendants, and those in a session that this one leads."""
    known = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                known[int(name)] = (int(fields[1]), int(fields[3]))
            except (OSError, ValueError, IndexError):
                pass

    def ancestors(pid):
        seen = set()
        while pid in known and pid not in seen:
            seen.add(pid)
            pid = known[pid][0]
        return seen

    above = ancestors(PID)
    for pid, (_, its_session) in known.items():
        if pid not in above and (its_session == PID or PID in ancestors(pid)):
            yield pid


def kill_processes():
    # What forks meanwhile is found in the next round.
    for _ in range(3):
        try:
            found = list(own_processes())
        except OSError:
            # /proc is hidden: the fork, and most of those in the same group by a signal that this
            # process handles.
            if INTERRUPTS.fork:
                os.kill(INTERRUPTS.fork, signal.SIGKILL)
            os.kill(0, signal.SIGHUP)
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
