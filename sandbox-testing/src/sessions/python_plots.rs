//! Plots of Python, with a stand-in for matplotlib that has the interface of its backends.

use sandbox_core::SandboxHandle;
use sandbox_lang::{CellRequest, MimeData, PlotFormat, SessionRequest};

use super::{SHORT, completes, run, start};

const MODULES: [(&str, &str); 6] = [
    ("__init__.py", include_str!("matplotlib/__init__.py")),
    (
        "_pylab_helpers.py",
        include_str!("matplotlib/_pylab_helpers.py"),
    ),
    (
        "backend_bases.py",
        include_str!("matplotlib/backend_bases.py"),
    ),
    (
        "backends/backend_agg.py",
        include_str!("matplotlib/backend_agg.py"),
    ),
    ("figure.py", include_str!("matplotlib/figure.py")),
    ("pyplot.py", include_str!("matplotlib/pyplot.py")),
];

/// A request for Python with the stand-in.
async fn request(sandbox: &SandboxHandle) -> SessionRequest {
    let folder = format!("{}/plots", sandbox.temporary_folder());
    for (name, content) in MODULES {
        let path = format!("{folder}/matplotlib/{name}");
        sandbox.write(&path, content).await.expect("written");
    }
    SessionRequest::new("python").env("PYTHONPATH", folder)
}

/// Each figure is displayed once, in the cell that made it, with its size.
pub async fn figures_are_displayed_once(sandbox: &SandboxHandle) {
    let session = start(sandbox, request(sandbox).await).await;
    let cell = completes(&session, "import matplotlib.pyplot as plt\nplt.plot('one')").await;
    let [figure] = cell.displays.as_slice() else {
        panic!("{cell:?}");
    };
    assert_eq!(figure.bytes("image/png"), Some(&b"png one"[..]));
    let plot = figure.plot.expect("a size");
    assert_eq!((plot.width, plot.height, plot.dpi), (640, 480, 100.0));
    // No stale figure, also after an error and an interrupt.
    assert_eq!(completes(&session, "1").await.displays, []);
    let cell = run(&session, "plt.plot('failed'); 1 / 0").await;
    assert_eq!((cell.displays.len(), cell.success()), (1, false));
    let endless = CellRequest::new("plt.plot('endless')\nwhile True: pass").timeout(SHORT);
    assert_eq!(run(&session, endless).await.displays, []);
    assert_eq!(completes(&session, "1").await.displays, []);
    // A figure that is the value, one that is shown, and one that is saved and closed.
    let cell = completes(&session, "plt.plot('value'); plt.gcf()").await;
    assert_eq!(cell.displays, []);
    let value = cell.result.expect("a value");
    assert_eq!(value.bytes("image/png"), Some(&b"png value"[..]));
    assert!(value.plot.is_some());
    let cell = completes(&session, "plt.plot('shown'); plt.show(); display('after')").await;
    assert_eq!(cell.displays[0].bytes("image/png"), Some(&b"png shown"[..]));
    assert_eq!(cell.displays.len(), 2);
    let code = "import io\nplt.plot('saved'); plt.savefig(io.BytesIO()); plt.close()";
    let cell = completes(&session, code).await;
    assert_eq!(cell.displays[0].bytes("image/png"), Some(&b"png saved"[..]));
    assert_eq!(
        completes(&session, "plt.plot('closed'); plt.close()")
            .await
            .displays,
        []
    );
    let code = "import os\nos.environ.get('MPLBACKEND')";
    assert_eq!(completes(&session, code).await.result, None);
}

/// What plotly's modules have that a session uses.
const PLOTLY: [(&str, &str); 4] = [
    ("__init__.py", ""),
    (
        "basedatatypes.py",
        "class BaseFigure:\n    def __init__(self, name): self.name = name\n    \
         def show(self):\n        import plotly.io\n        plotly.io.show(self)\n",
    ),
    (
        "io/__init__.py",
        "from plotly.io._renderers import renderers, show\nimport json\n\
         def to_html(figure, full_html, include_plotlyjs): return '<div>%s' % figure.name\n\
         def to_json(figure): return json.dumps({'data': [figure.name]})\n",
    ),
    (
        "io/_renderers.py",
        "class ExternalRenderer:\n    pass\n\
         class Renderers(dict):\n    default = 'browser'\n\
         renderers = Renderers()\n\
         def show(figure): renderers[renderers.default].render(figure)\n",
    ),
];

/// A figure of plotly is displayed when it is shown, and when it is a value.
pub async fn figures_of_plotly_are_displayed(sandbox: &SandboxHandle) {
    let folder = format!("{}/plotly", sandbox.temporary_folder());
    for (name, content) in PLOTLY {
        let path = format!("{folder}/plotly/{name}");
        sandbox.write(&path, content).await.expect("written");
    }
    let request = SessionRequest::new("python").env("PYTHONPATH", folder);
    let session = start(sandbox, request).await;
    let code = "import plotly.io\nfrom plotly.basedatatypes import BaseFigure\n\
                BaseFigure('shown').show()\nBaseFigure('value')";
    let cell = completes(&session, code).await;
    let json = |name| MimeData::Json(serde_json::json!({ "data": [name] }));
    let [shown] = cell.displays.as_slice() else {
        panic!("{cell:?}");
    };
    assert_eq!(shown.text("text/html"), Some("<div>shown"));
    assert_eq!(shown.data["application/vnd.plotly.v1+json"], json("shown"));
    let value = cell.result.expect("a value");
    assert_eq!(value.text("text/html"), Some("<div>value"));
    assert_eq!(value.data["application/vnd.plotly.v1+json"], json("value"));
}

/// Figures have the formats of the session, or are left to the code.
pub async fn figures_have_the_chosen_formats(sandbox: &SandboxHandle) {
    let request = request(sandbox).await;
    let formats = [PlotFormat::Svg, PlotFormat::Pdf];
    let session = start(sandbox, request.clone().plot_formats(formats)).await;
    let code = "import matplotlib.pyplot as plt\nplt.plot('one')";
    let cell = completes(&session, code).await;
    let types = cell.displays[0].data.keys().map(String::as_str);
    let expected = ["application/pdf", "image/svg+xml", "text/plain"];
    assert_eq!(types.collect::<Vec<_>>(), expected);
    let session = start(sandbox, request.plots(false)).await;
    assert_eq!(completes(&session, code).await.displays, []);
}
