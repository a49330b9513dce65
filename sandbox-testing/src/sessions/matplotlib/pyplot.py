import importlib

from matplotlib import rcParams
from matplotlib._pylab_helpers import Gcf
from matplotlib.figure import Figure


def _backend():
    name = rcParams["backend"]
    name = name if isinstance(name, str) else "module://matplotlib.backends.backend_agg"
    return importlib.import_module(name[len("module://"):])


def gcf():
    return Gcf.figs[max(Gcf.figs)].canvas.figure


def plot(text):
    figure = Figure()
    figure.text = text
    backend = _backend()
    if hasattr(backend, "FigureManager"):
        num = max(Gcf.figs, default=0) + 1
        Gcf.figs[num] = backend.FigureManager(backend.FigureCanvas(figure), num)


def show():
    _backend().show()


def savefig(file):
    gcf().savefig(file)


def close():
    Gcf.destroy(max(Gcf.figs))
