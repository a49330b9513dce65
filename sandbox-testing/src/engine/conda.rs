//! Programs in a conda environment, with a program in place of micromamba.

use sandbox_core::spi::unique_name;
use sandbox_core::{BuildRequest, CapabilityPolicy, ErrorKind, ExecRequest, Stdin};

use super::build::{build, context, remove};
use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, TestResult, client_of, run};

pub const TESTS: &[EngineTest] = &[
    ("conda::programs_run_in_the_environment", runs),
    ("conda::a_later_client_runs_programs_there_too", detached),
    ("conda::what_cannot_work_is_refused", refused),
];

/// Takes only the arguments that micromamba would be given.
const MICROMAMBA: &str = "#!/bin/sh\n\
    [ \"$1 $2\" = 'run -n' ] || exit 99\n\
    export CONDA_DEFAULT_ENV=\"$3\"\n\
    shift 3\n\
    exec \"$@\"\n";

/// An image with [`MICROMAMBA`].
async fn image(engine: &'static TestEngine) -> sandbox_core::Result<String> {
    let dockerfile =
        format!("FROM {BUSYBOX}\nCOPY micromamba /bin/\nRUN chmod 755 /bin/micromamba\n");
    let folder = context(&[("Dockerfile", &dockerfile), ("micromamba", MICROMAMBA)]);
    let tag = format!("sandbox-test/{}:1", unique_name("conda"));
    build(engine, &BuildRequest::new(folder.path()).tag(&tag)).await?;
    Ok(tag)
}

fn runs(engine: &'static TestEngine) -> TestResult {
    run(async {
        let image = image(engine).await?;
        let backend = engine.backend(engine.config().conda("science"));
        let client = client_of(backend, CapabilityPolicy::new());
        let spec = engine.spec().image(&image);
        let sandbox = client.create(&spec.env("OWN", "kept")).await?;
        let script =
            "echo $CONDA_DEFAULT_ENV $MAMBA_ROOT_PREFIX $OWN; cat; echo \"[$1]\" >&2; exit 7";
        let request = ExecRequest::shell(script).args(["sh", "a  b"]);
        let mut execution = sandbox.start(&request, Stdin::from_bytes("in")).await?;
        let result = execution.wait().await?;
        assert_eq!(result.stdout_text(), "science /opt/conda kept\nin");
        assert_eq!(result.stderr_text(), "[a  b]\n");
        assert_eq!(result.exit_code(), Some(7));
        // File operations are the agent's own.
        sandbox.write("file", "content").await?;
        assert_eq!(sandbox.read("file").await?, b"content");
        sandbox.kill().await?;
        remove(engine, &image).await;
        Ok(())
    })
}

fn detached(engine: &'static TestEngine) -> TestResult {
    run(async {
        let image = image(engine).await?;
        let backend = engine.backend(engine.config().conda("base"));
        let client = client_of(backend, CapabilityPolicy::new());
        let spec = engine.spec().image(&image).detached(true);
        let name = spec.name.clone();
        drop(client.create(&spec).await?);
        let later = engine.client(CapabilityPolicy::new());
        let sandbox = later.get(&name).await?;
        let request = ExecRequest::shell("echo $CONDA_DEFAULT_ENV");
        let result = sandbox.exec(&request).await?;
        assert_eq!(result.check()?.stdout_text(), "base\n");
        sandbox.kill().await?;
        remove(engine, &image).await;
        Ok(())
    })
}

fn refused(engine: &'static TestEngine) -> TestResult {
    run(async {
        let client = |environment: &str, policy| {
            client_of(engine.backend(engine.config().conda(environment)), policy)
        };
        let client_with = |environment| client(environment, CapabilityPolicy::new());
        for environment in ["", "-x", "a b", "../x"] {
            let created = client_with(environment).create(&engine.spec()).await;
            let error = created.expect_err(environment);
            assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
        }
        let mut alone = CapabilityPolicy::new();
        alone.subprocess_execution = Some(false);
        let created = client("base", alone).create(&engine.spec()).await;
        let error = created.expect_err("micromamba starts programs");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.fix().is_some(), "{error}");
        // An image without micromamba.
        let sandbox = client_with("base").create(&engine.spec()).await?;
        let error = sandbox.exec(&ExecRequest::new("true")).await;
        let error = error.expect_err("it has none");
        assert_eq!(error.kind(), ErrorKind::ProgramNotFound, "{error}");
        assert!(error.context().contains("micromamba"), "{error}");
        sandbox.kill().await
    })
}
