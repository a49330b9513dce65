"""The driver of Python sessions, part 3: copies of the interpreter."""


def other_threads():
    """The names of some threads that a copy of this process would not have."""
    own = threading.enumerate()
    return [thread.name for thread in own if thread not in THREADS][:10]


def forked_cell(request):
    """Runs a cell in a copy of this process. Returns what the host is told.

    Only this process speaks with the host. The copy tells it through a pipe, and writes its output
    into the same pipes as other child processes.
    """
    (source, sink), (crash, log) = high_pipe(), high_pipe()
    # No other thread holds the channel meanwhile.
    with CHANNEL:
        # Python forgets signals that reach a child before its `fork` has returned.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            INTERRUPTS.fork = fork()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if not INTERRUPTS.fork:
            run_as_fork(request, sink, log)
    os.close(sink)
    os.close(log)
    done = None
    with open(source, "rb") as messages:
        for line in messages:
            if line[:1] == b"d":
                done = json.loads(line[1:])
                break
            with CHANNEL:
                for stream in STREAMS.streams:
                    stream.take(CHANNEL, STREAMS.is_cell)
                CHANNEL.send(b"m", line[1:-1])
    child = INTERRUPTS.fork
    if done is None:
        # It has closed the pipe, and may go on. Until it is reaped, its number is its own.
        try:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            pass  # The code ignores SIGCHLD.
    INTERRUPTS.fork = None
    if done is not None:
        # It exits now, which takes a while if it has much memory.
        ENDING.append(child)
    else:
        status = os.waitpid(child, 0)[1]
        done = {"type": "done", "cell": State.cell, "error": None, "displays_omitted": 0}
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        os.set_blocking(crash, False)
        try:
            details = os.read(crash, MAX_TEXT).decode("utf-8", "replace")
        except BlockingIOError:
            details = ""
        done["died"] = {"code": code, "signal": number, "details": details}
    os.close(crash)
    # Its variables are gone, and those of this process are what they were.
    done["variables"] = State.cell = None
    return done


def reap():
    for child in list(ENDING):
        try:
            if os.waitpid(child, os.WNOHANG)[0]:
                ENDING.remove(child)
        except ChildProcessError:
            ENDING.remove(child)  # The code has waited for it.


def run_as_fork(request, sink, log):
    global PID
    PID = os.getpid()
    # A child of this process closes them, as it does with the channel of the first one.
    CHANNEL.source, CHANNEL.sink, CHANNEL.log = sink, sink, log
    CHANNEL.send = lambda kind, payload: CHANNEL.write(kind + payload + b"\n")
    STREAMS.streams, State.loop = (), None
    INTERRUPTS.is_fork, INTERRUPTS.is_sent = True, False
    faulthandler.enable(log, all_threads=False)
    INTERRUPTS.unmask()
    done = finished_cell(request)
    CHANNEL.send(b"d", encoded_message(done))
    os._exit(0)


def forget_channel():
    """A forked child must not speak for the session."""
    CHANNEL.lock = threading.Lock()
    for descriptor in (CHANNEL.source, CHANNEL.sink, CHANNEL.log):
        try:
            os.close(descriptor)
        except OSError:
            pass  # The code closed it.
    CHANNEL.source = CHANNEL.sink = CHANNEL.log = -1


def branch():
    """Makes a copy of this process, which becomes the interpreter of another session.

    The copy stays a process of this execution, and ends with it. Its channel comes from a program
    that the host starts, and that lives as long as the copy.
    """
    import socket
    import tempfile

    threads = other_threads()
    if threads:
        not_branched("threads", ", ".join(threads))
        return
    try:
        listener = socket.socket(socket.AF_UNIX)
    except OSError as error:
        not_branched("sockets", error)
        return
    flush()
    try:
        folder = tempfile.mkdtemp(prefix="sandbox-branch-")
        path = folder + "/socket"
        listener.bind(path)
        listener.listen(1)
        # No other thread holds the channel meanwhile.
        with CHANNEL:
            child = fork()
            if child:
                os.waitpid(child, 0)
                CHANNEL.send_message({"type": "branched", "path": path})
                return
            CHANNEL.lock.acquire()  # That of the child is new.
        try:
            # Neither a descendant nor in the same session: this copy lives on if the processes of a
            # cell are killed.
            os.setsid()
            if fork():
                os._exit(0)
            descriptors = keep(listener, folder, path)
            become_interpreter(descriptors)
        except BaseException:
            os._exit(1)
    finally:
        listener.close()


def not_branched(cause, reason):
    with CHANNEL:
        CHANNEL.send_message({"type": "not_branched", "cause": cause, "reason": str(reason)})


def keep(listener, folder, path):
    """Waits for a channel, and starts the copy that uses it, in which this returns.

    This process remains. It tells how the copy ended, and ends it if its channel goes away.
    """
    global PID
    import array
    import socket

    listener.settimeout(60)
    try:
        connection = listener.accept()[0]
        connection.settimeout(60)
        descriptors = array.array("i")
        room = socket.CMSG_SPACE(3 * descriptors.itemsize)
        descriptors.frombytes(connection.recvmsg(1, room)[1][0][2])
    finally:
        listener.close()
        os.unlink(path)
        os.rmdir(folder)
    connection.settimeout(None)
    child = fork()
    if not child:
        connection.close()
        os.setsid()
        return descriptors
    for descriptor in descriptors:
        os.close(descriptor)
    # Whose processes are killed.
    PID = child

    def watch():
        connection.recv(1)
        kill_processes()
        os.kill(child, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    connection.send(b"%d" % os.waitpid(child, 0)[1])
    os._exit(0)


def become_interpreter(descriptors):
    """Makes this copy a driver of its own, with a channel through these descriptors."""
    global PID, CHANNEL, STREAMS, REQUESTS, INTERRUPTS
    PID = os.getpid()
    for stream in STREAMS.streams:
        os.close(stream.reader)
        os.close(stream.writer)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        if descriptor != number:
            os.close(descriptor)
    CHANNEL, REQUESTS, INTERRUPTS = Channel(), queue.SimpleQueue(), Interrupts()
    STREAMS = Streams(CHANNEL)
    State.loop = None
    # The children of the first process are not those of this one.
    ENDING.clear()
    del THREADS[1:]
    prepare()
    serve()
