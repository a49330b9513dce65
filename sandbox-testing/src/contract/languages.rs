//! Every language, in an image that has all of them.

use std::time::Duration;

use sandbox_core::{ByteSize, CapabilityPolicy, Cpus};

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
