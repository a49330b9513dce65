"""A backend of matplotlib, whose figures become displays of the cell.

A figure is displayed once, in its last state: by `show`, when a saved one is closed, or at the end
of the cell. Then it is closed, so no cell shows a figure of an earlier one.
"""
import io

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase, _Backend
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

TYPES = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
}
is_rendering = False


def rendered(figure):
    """The figure in the session's formats, and its size."""
    global is_rendering
    is_rendering = True
    try:
        data = {}
        for kind in formats:
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=figure.dpi)
            content = file.getvalue()
            data[TYPES[kind]] = content.decode() if kind == "svg" else content
    finally:
        is_rendering = False
    dpi = float(figure.dpi)
    width, height = (round(float(inches) * dpi) for inches in figure.get_size_inches())
    data["text/plain"] = "<Figure of %d x %d pixels>" % (width, height)
    return data, {"width": width, "height": height, "dpi": dpi}


class FigureCanvas(FigureCanvasAgg):
    is_saved = False

    def print_figure(self, *arguments, **options):
        result = super().print_figure(*arguments, **options)
        if not is_rendering:
            self.is_saved = True
        return result


class FigureManager(FigureManagerBase):
    is_shown = False

    def show(self):
        self.is_shown = True
        send_figure(*rendered(self.canvas.figure))
        Gcf.destroy(self.num)

    def destroy(self):
        if not self.is_shown and self.canvas.is_saved:
            self.is_shown = True
            send_figure(*rendered(self.canvas.figure))


@_Backend.export
class SandboxBackend(_Backend):
    FigureCanvas = FigureCanvas
    FigureManager = FigureManager

    @staticmethod
    def show(*arguments, **options):
        for manager in list(Gcf.get_all_fig_managers()):
            if isinstance(manager, FigureManager):
                manager.show()
            elif isinstance(manager.canvas, FigureCanvasAgg):
                # The code chose matplotlib's own backend.
                send_figure(*rendered(manager.canvas.figure))
                Gcf.destroy(manager.num)


FigureCanvas.manager_class = FigureManager


def discard():
    """Closes all figures without showing them."""
    for manager in Gcf.get_all_fig_managers():
        manager.is_shown = True
    Gcf.destroy_all()


def take(value):
    """A figure that the code returns or displays: it is not displayed again."""
    if not isinstance(value, Figure):
        return None
    data = rendered(value)
    manager = getattr(value.canvas, "manager", None)
    if manager is not None:
        manager.is_shown = True
        Gcf.destroy(manager.num)
    return data
