"""The driver of Python sessions, part 4: runs cells."""
import ast
import builtins
import faulthandler
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import linecache
import types
import __future__

FIGURES_SOURCE, OPTIONS = sys.argv[1], json.loads(sys.argv[2])
FIGURES = "sandbox_session_figures"
FUTURE = 0
for feature in __future__.all_feature_names:
    FUTURE |= getattr(__future__, feature).compiler_flag
COROUTINE = 0x80
MAX_TEXT = 64 * 1024
MAX_FRAMES = 100
MAX_NAMES = 500
MAX_DISPLAYS = 1000

CHANNEL = Channel()
STREAMS = Streams(CHANNEL)
REQUESTS = queue.SimpleQueue()
DRIVER = sys.modules["__main__"]
# Those of the driver itself.
THREADS = [threading.main_thread()]
# Forks that have told the end of their cells.
ENDING = []
# Some versions warn of threads, but only code whose module is the main one. A copy that the driver
# makes has none but those of the driver, and it needs none of them.
fork = eval("lambda: os.fork()", {"os": os})
USER = types.ModuleType("__main__")


class State:
    cell = None
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    loop = None
    names = None
    displays = display_room = 0


class FigureFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Provides the backend for figures, and chooses it when pyplot is imported.

    An environment variable would choose it for child processes too, which do not have it.
    """

    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib.pyplot":
            matplotlib = sys.modules["matplotlib"]
            chosen = dict.get(matplotlib.rcParams, "backend")
            # A platform's file may name one that needs a screen, as Debian's does.
            is_of_file = (
                chosen == dict.get(getattr(matplotlib, "rcParamsOrig", {}), "backend")
                and "MPLBACKEND" not in os.environ
            )
            if is_of_file or not isinstance(chosen, str) or chosen.lower() == "agg":
                matplotlib.rcParams["backend"] = "module://" + FIGURES
        if name == "plotly.io._renderers" and "PLOTLY_RENDERER" not in os.environ:
            return with_plotly(importlib.machinery.PathFinder.find_spec(name, path))
        return importlib.util.spec_from_loader(name, self) if name == FIGURES else None

    def exec_module(self, module):
        module.formats = OPTIONS["plots"]
        module.send_figure = lambda data, plot: send_display(data, "display", plot)
        exec(compile(FIGURES_SOURCE, "<sandbox figures>", "exec"), module.__dict__)


def with_plotly(spec):
    """Chooses what shows figures of plotly, as it is imported: otherwise a browser would."""
    if spec is None:
        return None
    execute_module = spec.loader.exec_module

    def exec_module(module):
        execute_module(module)
        render = lambda self, figure, **options: send_display(plotly_bundle(figure), "display")
        renderer = type("SandboxRenderer", (module.ExternalRenderer,), {"render": render})
        module.renderers["sandbox"] = renderer()
        module.renderers.default = "sandbox"

    spec.loader.exec_module = exec_module
    return spec


def plotly_bundle(figure):
    io = importlib.import_module("plotly.io")
    return {
        "text/html": io.to_html(figure, full_html=False, include_plotlyjs="cdn"),
        "application/vnd.plotly.v1+json": json.loads(io.to_json(figure)),
        "text/plain": "<Figure of plotly>",
    }


def is_plotly(value):
    module = sys.modules.get("plotly.basedatatypes")
    return module is not None and isinstance(value, module.BaseFigure)


def figures():
    """The backend for figures, if the code uses matplotlib."""
    if not OPTIONS["plots"] or "matplotlib.pyplot" not in sys.modules:
        return None
    return importlib.import_module(FIGURES)


def send_display(data, kind, plot=None):
    if os.getpid() != PID or State.cell is None:
        return
    State.displays += 1
    if State.displays > MAX_DISPLAYS:
        return
    contents, omitted, size = encoded(data, min(OPTIONS["display_limit"], State.display_room))
    State.display_room -= size
    message = {"type": "display", "cell": State.cell, "kind": kind, "data": contents}
    message["omitted"], message["plot"] = omitted, plot
    sys.stdout.flush()
    with CHANNEL:
        # Output that came first stays first.
        for stream in STREAMS.streams:
            stream.take(CHANNEL, STREAMS.is_cell)
        CHANNEL.send_message(message)


def show(value, kind):
    figure = figures() and figures().take(value)
    if figure:
        send_display(figure[0], kind, figure[1])
    elif OPTIONS["plots"] and is_plotly(value):
        send_display(plotly_bundle(value), kind)
    else:
        send_display(bundle(value), kind)


def display(*values):
    """Shows values beside the output of the cell."""
    for value in values:
        show(value, "display")


def waiting_trace(coroutine):
    """The traceback of a coroutine that waits."""
    frames, trace = [], None
    while getattr(coroutine, "cr_frame", None) is not None:
        frames.append(coroutine.cr_frame)
        coroutine = coroutine.cr_await
    for frame in reversed(frames):
        trace = types.TracebackType(trace, frame, frame.f_lasti, frame.f_lineno)
    return trace


def run(code):
    if not code.co_flags & COROUTINE:
        return eval(code, USER.__dict__)
    import asyncio

    if State.loop is None or State.loop.is_closed():
        State.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(State.loop)
    coroutine = eval(code, USER.__dict__)
    task = State.loop.create_task(coroutine)
    try:
        return State.loop.run_until_complete(task)
    except BaseException as error:
        if task.done():
            raise
        # The loop was interrupted; where the code waited is what its user looks for.
        trace = waiting_trace(coroutine)
        task.cancel()
        State.loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        raise error.with_traceback(trace) from None


def compiled(tree, name, mode):
    code = compile(tree, name, mode, State.flags, True)
    State.flags |= code.co_flags & FUTURE
    return code


def execute(source, name):
    """Runs a cell. Its last expression is shown."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    tree = compile(source, name, "exec", State.flags | ast.PyCF_ONLY_AST, True)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body.pop().value
    steps = [compiled(tree, name, "exec")] if tree.body else []
    if last is not None:
        steps.append(compiled(ast.Expression(last), name, "eval"))
    value = None
    for step in steps:
        value = run(step)
    if last is not None and value is not None:
        builtins._ = value
        show(value, "result")


def attempt(function, *arguments):
    """Calls a function that an interrupt may end. Returns its exception."""
    try:
        try:
            INTERRUPTS.enter()
            function(*arguments)
        finally:
            INTERRUPTS.open = False
    except BaseException as error:
        return error
    return None


def text_of(value):
    try:
        return str(value)[:MAX_TEXT]
    except Exception as error:
        return "<no text: %s>" % type(error).__name__


def without_driver(trace):
    """The traceback without the driver's own frames."""
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    last = trace
    while last is not None:
        while last.tb_next is not None and last.tb_next.tb_frame.f_globals is globals():
            last.tb_next = last.tb_next.tb_next
        last = last.tb_next
    return trace


def described(error):
    trace = error.__traceback__ = without_driver(error.__traceback__)
    try:
        lines = "".join(traceback.format_exception(type(error), error, trace))
    except Exception:
        lines = type(error).__name__ + "\n"
    if len(lines) > MAX_TEXT:
        lines = lines[: MAX_TEXT // 2] + "\n...\n" + lines[-MAX_TEXT // 2 :]
    frames = []
    if isinstance(error, SyntaxError) and error.filename:
        frames.append({"file": str(error.filename), "line": error.lineno, "function": None})
    for frame in traceback.extract_tb(trace, -MAX_FRAMES):
        frames.append({"file": frame.filename, "line": frame.lineno, "function": frame.name})
    name = type(error).__name__
    return {"name": name, "message": text_of(error), "traceback": lines, "frames": frames}


def open_stdin(data):
    """Makes the data standard input, also of child processes."""
    try:
        descriptor = os.memfd_create("stdin")
    except OSError:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    if descriptor:
        os.dup2(descriptor, 0)
        os.close(descriptor)
    os.set_inheritable(0, True)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8", "replace")


def open_output():
    """Makes new standard streams: the code may have closed or replaced the last ones."""
    STREAMS.attach()
    for name, number in (("stdout", 1), ("stderr", 2)):
        own = getattr(State, name, None)
        if own is None or own.closed:
            file = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
            own = io.TextIOWrapper(file, "utf-8", "backslashreplace", line_buffering=True)
            setattr(State, name, own)
        setattr(sys, name, own)
        setattr(sys, "__%s__" % name, own)


def flush():
    for stream in (sys.stdout, sys.stderr, State.stdout, State.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # The code replaced or closed it.


def names():
    """The variables, if they have changed."""
    own = [name[:100] for name in list(USER.__dict__) if not name.startswith("_")]
    total, own = len(own), sorted(own)[:MAX_NAMES]
    if (total, own) == State.names:
        return None
    State.names = (total, own)
    return {"total": total, "names": own}


def end_figures(is_interrupted):
    """Shows the figures that are open, unless there is no time for it, and closes them."""
    backend = figures()
    if backend:
        try:
            if not is_interrupted:
                backend.SandboxBackend.show()
        finally:
            backend.discard()


def run_cell(request):
    reap()
    State.cell = request["cell"]
    State.displays, State.display_room = 0, OPTIONS["displays_limit"]
    signal.signal(signal.SIGINT, INTERRUPTS.handle)
    INTERRUPTS.pending = False
    INTERRUPTS.cell += 1
    open_stdin(base64.b64decode(request["stdin"]))
    open_output()
    if not request["fork"]:
        STREAMS.begin(request["limits"])
        STREAMS.end(finished_cell(request))
        return
    threads = other_threads()
    if threads:
        State.cell = None
        message = {"type": "refused", "cell": request["cell"], "threads": threads}
        with CHANNEL:
            CHANNEL.send_message(message)
        return
    STREAMS.begin(request["limits"])
    STREAMS.end(forked_cell(request))


def finished_cell(request):
    """Runs a cell to its end. Returns what the host is told."""
    error = attempt(execute, request["code"], request["name"])
    if os.getpid() != PID:
        leave_child(error)
    error = attempt(end_figures, isinstance(error, KeyboardInterrupt)) or error
    flush()
    done = {"type": "done", "cell": State.cell, "error": error and described(error)}
    # The traceback holds the variables of the cell's functions.
    error = None
    done["variables"] = names()
    done["displays_omitted"] = max(0, State.displays - MAX_DISPLAYS)
    State.cell = None
    return done


def leave_child(error):
    """Ends a process that the code forked and that ran to the end of the cell."""
    if error is not None:
        traceback.print_exception(type(error), error, error.__traceback__)
    flush()
    os._exit(1 if error else 0)


def control():
    while True:
        frame = CHANNEL.receive()
        if frame is not None and frame[0] == b"k":
            kill_processes()
        elif frame is not None and frame[0] == b"i":
            INTERRUPTS.want()
        else:
            if frame is not None and frame[0] == b"r":
                INTERRUPTS.received += 1
            REQUESTS.put(frame)
            if frame is None:
                return


def main():
    # A handler, unlike SIG_IGN, is not inherited by programs: see `kill_processes`.
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    if OPTIONS["plots"]:
        sys.meta_path.insert(0, FigureFinder())
    sys.path[:], sys.argv[:] = USER_PATH, [""]
    sys.modules["__main__"] = USER
    USER.__builtins__ = builtins
    builtins.display = display
    os.register_at_fork(after_in_child=forget_channel)
    prepare()
    try:
        for module in OPTIONS["preload"]:
            importlib.import_module(module)
    except BaseException:
        os.write(CHANNEL.log, traceback.format_exc().encode("utf-8", "replace"))
        os._exit(1)
    # The collector then writes to nothing of that, so forks share it.
    gc.freeze()
    serve()
    while True:
        frame = REQUESTS.get()
        if frame is None:
            return
        if frame[0] == b"r":
            run_cell(json.loads(frame[1]))
            continue
        try:
            branch()
        except OSError as error:
            not_branched("other", error)


def prepare():
    """Prepares this process to run code."""
    faulthandler.enable(CHANNEL.log, all_threads=False)
    signal.signal(signal.SIGINT, INTERRUPTS.handle)
    open_stdin(b"")
    open_output()


def serve():
    """Tells the host that cells can come."""
    for function in (STREAMS.pump, control):
        thread = threading.Thread(target=function, daemon=True)
        thread.start()
        THREADS.append(thread)
    with CHANNEL:
        CHANNEL.send_message({"type": "ready", "version": "%d.%d.%d" % sys.version_info[:3]})


main()
