//! Plots of the libraries themselves, where the image has them.

use sandbox_core::SandboxHandle;
use sandbox_lang::{Display, MimeData, PlotFormat, SessionRequest};

use super::{completes, start};

fn assert_is_png(display: &Display) {
    let png = display.bytes("image/png");
    assert!(
        png.is_some_and(|png| png.starts_with(b"\x89PNG")),
        "{display:?}"
    );
}

/// Figures of matplotlib and seaborn, a table of pandas, and a figure of plotly.
pub async fn python_shows_figures_and_tables(sandbox: &SandboxHandle) {
    let session = start(sandbox, SessionRequest::new("python")).await;
    let code = "import matplotlib.pyplot as plt, pandas, seaborn\n\
                frame = pandas.DataFrame({'x': [1, 2, 3], 'y': [2, 4, 8]})\n\
                plt.figure(figsize=(2, 1), dpi=50)\nplt.plot(frame.x)\nplt.show()\n\
                seaborn.lineplot(data=frame, x='x', y='y')\nframe";
    let cell = completes(&session, code).await;
    let [small, lines] = cell.displays.as_slice() else {
        panic!("{cell:?}");
    };
    assert_is_png(small);
    assert_is_png(lines);
    let plot = small.plot.expect("a size");
    assert_eq!((plot.width, plot.height, plot.dpi), (100, 50, 50.0));
    let table = cell.result.expect("a value");
    let html = table.text("text/html").expect("a table");
    assert!(html.contains("<table"), "{html}");
    let code = "frame.style.highlight_max(color='yellow')";
    let styled = completes(&session, code).await.result.expect("a value");
    let html = styled.text("text/html").expect("a table");
    assert!(html.contains("background-color: yellow"), "{html}");
    let code = "import plotly.express as px\npx.line(frame, x='x', y='y')";
    let figure = completes(&session, code).await.result.expect("a value");
    let data = &figure.data["application/vnd.plotly.v1+json"];
    assert!(format!("{data:?}").contains("scatter"), "{data:?}");
    // The cell's own file is a file.
    let code = "import io\nfile = io.BytesIO()\nplt.plot([1, 2]); plt.savefig(file)\n\
                file.getvalue()[:4]";
    let saved = completes(&session, code).await.result.expect("a value");
    assert_eq!(saved.text("text/plain"), Some("b'\\x89PNG'"));
    let formats = [PlotFormat::Svg, PlotFormat::Pdf, PlotFormat::Jpeg];
    let request = SessionRequest::new("python").plot_formats(formats);
    let session = start(sandbox, request).await;
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])";
    let cell = completes(&session, code).await;
    let [figure] = cell.displays.as_slice() else {
        panic!("{cell:?}");
    };
    let svg = figure.text("image/svg+xml").expect("the format");
    assert!(svg.contains("<svg"), "{svg}");
    for (format, start) in [
        ("application/pdf", &b"%PDF"[..]),
        ("image/jpeg", &b"\xff\xd8"[..]),
    ] {
        let bytes = figure.bytes(format);
        assert!(bytes.is_some_and(|bytes| bytes.starts_with(start)));
    }
}

/// Plots of ggplot2 and lattice, and a figure of plotly.
pub async fn r_shows_figures(sandbox: &SandboxHandle) {
    let session = start(sandbox, SessionRequest::new("r")).await;
    for code in [
        "library(ggplot2)\nggplot(mtcars, aes(wt, mpg)) + geom_point()",
        "library(lattice)\nxyplot(mpg ~ wt, mtcars)",
    ] {
        let cell = completes(&session, code).await;
        let [figure] = cell.displays.as_slice() else {
            panic!("{cell:?}");
        };
        assert_is_png(figure);
    }
    // A plot that is only made, and not shown, is none.
    let code = "figure <- ggplot(mtcars, aes(wt, mpg))";
    assert_eq!(completes(&session, code).await.displays, []);
    let code = "suppressMessages(library(plotly))\n\
                plot_ly(x = 1:3, y = 3:1, type = 'scatter', mode = 'lines')";
    let cell = completes(&session, code).await;
    let mut shown = cell.displays.iter().chain(&cell.result);
    let data = shown.find_map(|shown| shown.data.get("application/vnd.plotly.v1+json"));
    let Some(MimeData::Json(data)) = data else {
        panic!("{cell:?}");
    };
    assert_eq!(data["data"][0]["type"], "scatter", "{data}");
}
