"""A backend of matplotlib that saves figures as files, in the folder that SANDBOX_PLOTS names.

A figure is saved when it is shown, or at the end of the program if the program has neither shown
nor saved it.
"""
import atexit
import itertools
import os

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase, _Backend
from matplotlib.backends.backend_agg import FigureCanvasAgg


def save(figure):
    folder = os.environ["SANDBOX_PLOTS"]
    os.makedirs(folder, exist_ok=True)
    for number in itertools.count(1):
        try:
            # Other processes of the program may save some, too.
            file = open(os.path.join(folder, "plot-%03d.png" % number), "xb")
        except FileExistsError:
            continue
        with file:
            figure.savefig(file, format="png", dpi=figure.dpi)
        return


class FigureCanvas(FigureCanvasAgg):
    is_saved = False

    def print_figure(self, *arguments, **options):
        self.is_saved = True
        return super().print_figure(*arguments, **options)


class FigureManager(FigureManagerBase):
    def show(self):
        save(self.canvas.figure)
        Gcf.destroy(self.num)


@_Backend.export
class _BackendSandboxPlots(_Backend):
    FigureCanvas = FigureCanvas
    FigureManager = FigureManager

    @staticmethod
    def show(*_, **__):
        for manager in Gcf.get_all_fig_managers():
            manager.show()


FigureCanvas.manager_class = FigureManager


@atexit.register
def save_what_is_left():
    for manager in Gcf.get_all_fig_managers():
        if not manager.canvas.is_saved:
            manager.show()
