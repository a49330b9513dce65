//! The plots of llm-sandbox's examples, translated: figures of matplotlib, seaborn and plotly, in a
//! new container and in one that another program has created.
//!
//! ```console
//! $ cargo run --example plots --features docker -- IMAGE FOLDER [CONTAINER]
//! ```
//!
//! The image and the container need the three libraries.

use std::path::{Path, PathBuf};

use sandbox::spi::unique_name;
use sandbox::{
    Capability, CapabilityPolicy, CellRequest, CodeRequest, Display, DockerConfig, Error,
    ErrorKind, Result, RunCode, SandboxHandle, SandboxSpec, Sessions,
};

/// Nothing is added to this code, and nothing in it is for the sandbox.
const CODE: &str = "import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import plotly.express as px
import seaborn as sns

x = np.linspace(0, 10, 100)
plt.figure(figsize=(10, 6))
plt.plot(x, np.sin(x))
plt.title('Matplotlib: Sine Wave')
plt.show()

data = pd.DataFrame({'x': np.random.randn(100), 'y': np.random.randn(100)})
sns.scatterplot(data=data, x='x', y='y')
plt.title('Seaborn: Scatter Plot')
plt.show()

fig = px.line(data, x='x', y='y', title='Plotly: Line Plot')
fig.show()
";

/// What the program of [`program`] draws.
const SINE: &str = "import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 10, 100)
plt.plot(x, np.sin(x))
plt.show()
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let [image, folder, rest @ ..] = arguments.as_slice() else {
        let usage = "the arguments are IMAGE FOLDER [CONTAINER]";
        return Err(Error::new(
            ErrorKind::InvalidRequest,
            "run the example",
            usage,
        ));
    };
    let folder = Path::new(folder);
    let policy = CapabilityPolicy::new().artifact_export_path("/output/**");
    let config = || DockerConfig::default().default_image(image);
    let spec = SandboxSpec::new(unique_name("plots"));

    let sandbox = sandbox::docker(config(), policy.clone())?
        .create(&spec)
        .await?;
    let plots = session(&sandbox, &folder.join("session")).await?;
    println!("new container: captured {plots} plots");
    let plots = program(&sandbox, &folder.join("program")).await?;
    println!("program: captured {plots} plots");
    sandbox.kill().await?;

    if let [container, ..] = rest {
        // Its creator decided what its programs see of the container's own processes and variables.
        let policy = policy
            .allow_partial(Capability::EnvVarAccess)
            .allow_partial(Capability::Processes);
        let client = sandbox::docker(config(), policy)?;
        let sandbox = client.adopt(container, &spec).await?;
        let plots = session(&sandbox, &folder.join("existing")).await?;
        println!("existing container: captured {plots} plots");
    }
    Ok(())
}

/// llm-sandbox: `ArtifactSandboxSession(lang="python").run(code)`, then `result.plots`.
async fn session(sandbox: &SandboxHandle, folder: &Path) -> Result<usize> {
    std::fs::create_dir_all(folder).map_err(io_error)?;
    let session = sandbox.session("python".into()).await?;
    let cell = session.run(CellRequest::new(CODE)).await?;
    for (index, plot) in cell.check()?.displays.iter().enumerate() {
        let (path, content) = file_of(plot, &folder.join(format!("{:06}", index + 1)));
        std::fs::write(path, content).map_err(io_error)?;
    }
    session.close().await?;
    Ok(cell.displays.len())
}

/// The richest representation of a plot, and its file.
fn file_of<'a>(plot: &'a Display, path: &Path) -> (PathBuf, &'a [u8]) {
    match (plot.bytes("image/png"), plot.text("text/html")) {
        (Some(png), _) => (path.with_extension("png"), png),
        (None, Some(page)) => (path.with_extension("html"), page.as_bytes()),
        (None, None) => {
            let text = plot.text("text/plain").unwrap_or_default();
            (path.with_extension("txt"), text.as_bytes())
        }
    }
}

/// The same of a program, which has no session: its plots are files, and the policy exports them.
async fn program(sandbox: &SandboxHandle, folder: &Path) -> Result<usize> {
    let request = CodeRequest::new("python", SINE).plot_files("/output");
    sandbox.run_code(request).await?.check()?;
    let exported = sandbox.export(folder).await?;
    Ok(exported.artifacts.len())
}

fn io_error(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "run the example", error.to_string())
}
