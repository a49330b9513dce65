//! Every language, in an image that has all of them.

use std::time::Duration;

use sandbox_core::{ByteSize, CapabilityPolicy, Cpus};
use sandbox_lang::{CodeRequest, RunCode as _};

use super::{ContractTest, LANGUAGES, TestBackend, TestResult, run_within};
use crate::programs::assert_language_runs;

/// Compilers are slow on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

fn check(backend: &'static dyn TestBackend, language: &str) -> TestResult {
    run_within(2 * LIMIT, async {
        let client = backend.client(CapabilityPolicy::new().timeout(LIMIT));
        let spec = backend.spec().image(LANGUAGES);
        let spec = spec.memory(ByteSize::mib(512)).cpus(Cpus::milli(1000));
        let sandbox = client.create(&spec).await?;
        assert_language_runs(&sandbox, language, |request| request).await;
        sandbox.kill().await
    })
}

/// A figure that is shown, one that is neither shown nor saved, and one that the program saves.
const PYTHON: &str = "
import matplotlib.pyplot as plt
plt.plot([1, 4, 9]); plt.show()
plt.figure(); plt.plot([9, 4, 1]); plt.savefig('/output/own.png')
plt.figure(); plt.plot([1, 2, 3])
print(plt.get_backend())
";

/// Two pages, and one on a device of the program's own.
const R: &str = "
plot(1:3)
hist(c(1, 2, 2))
png('/output/own.png'); plot(1); invisible(dev.off())
";

/// The plots of a program become files that can be exported.
fn plots(backend: &'static dyn TestBackend, language: &str, code: &str) -> TestResult {
    run_within(2 * LIMIT, async {
        let policy = CapabilityPolicy::new().timeout(LIMIT);
        let client = backend.client(policy.artifact_export_path("/output/**"));
        let spec = backend.spec().image(LANGUAGES);
        let spec = spec.memory(ByteSize::mib(512)).cpus(Cpus::milli(1000));
        let sandbox = client.create(&spec).await?;
        let request = CodeRequest::new(language, code).plot_files("/output");
        sandbox.run_code(request).await?.check()?;
        // The code's own choice wins, and no helper is left.
        let request = CodeRequest::new(language, code).plot_files("/output/none");
        let request = request
            .env("MPLBACKEND", "agg")
            .env("R_PROFILE_USER", "/dev/null");
        sandbox.run_code(request).await?.check()?;
        let left = format!("ls {} | grep plots", sandbox.temporary_folder());
        assert_eq!(super::shell(&sandbox, &left).await?.stdout_text(), "");
        let folder = tempfile::tempdir().expect("a folder");
        let exported = sandbox.export(folder.path()).await?;
        let mut names = Vec::new();
        for artifact in &exported.artifacts {
            assert_eq!(artifact.content_type.as_deref(), Some("image/png"));
            names.push(artifact.source.as_str());
        }
        names.sort_unstable();
        let expected = [
            "/output/own.png",
            "/output/plot-001.png",
            "/output/plot-002.png",
        ];
        assert_eq!(names, expected);
        sandbox.kill().await
    })
}

macro_rules! tests {
    ($($language:literal,)*) => {
        &[$((
            concat!("languages::", $language, "_runs"),
            |backend| check(backend, $language),
        ),)*]
    };
}

pub const TESTS: &[ContractTest] = tests![
    "python", "js", "ts", "java", "c", "c++", "golang", "rust", "ruby", "r", "sh", "bash",
];

pub const PLOT_TESTS: &[ContractTest] = &[
    ("languages::plots_of_python_become_files", |backend| {
        plots(backend, "python", PYTHON)
    }),
    ("languages::plots_of_r_become_files", |backend| {
        plots(backend, "r", R)
    }),
];
