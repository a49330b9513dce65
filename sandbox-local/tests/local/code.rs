//! Code of each language that this host has.

use std::path::Path;
use std::time::Duration;

use sandbox_core::{ErrorKind, ExecRequest, ExecResult, OneShot, Outcome, SandboxHandle, Stdin};
use sandbox_lang::{
    CodeRequest, CodeResult, Compilation, Language, Languages, RunCode, RunCodeOnce, Step,
};
use sandbox_testing::programs::assert_language_runs;

use crate::harness::{Need, Test, test};
use crate::support::{client, create, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async python_runs, Need::Program("python3")),
    test!(async javascript_runs, Need::Program("node")),
    test!(async typescript_runs_or_is_refused, Need::Program("node")),
    test!(async typescript_runs_on_a_node_that_strips_types, Need::NodeForTypescript),
    test!(async java_runs, Need::Program("javac")),
    test!(async c_runs, Need::Program("gcc")),
    test!(async cpp_runs, Need::Program("g++")),
    test!(async go_runs, Need::Program("go")),
    test!(async rust_runs, Need::Rust),
    test!(async ruby_runs, Need::Program("ruby")),
    test!(async r_runs, Need::Program("Rscript")),
    test!(async shell_runs),
    test!(async bash_runs, Need::Program("bash")),
    test!(async code_is_alone_in_its_folder, Need::Program("python3")),
    test!(async files_are_in_the_working_folder_and_modules_beside_the_code, Need::Program("python3")),
    test!(async folder_of_interpreted_code_is_removed),
    test!(async same_source_is_compiled_once, Need::Program("gcc")),
    test!(async concurrent_runs_of_one_source_compile_it_once, Need::Program("gcc")),
    test!(async removed_program_is_compiled_again, Need::Program("gcc")),
    test!(async failed_compilation_is_no_failed_program, Need::Program("gcc")),
    test!(async endless_program_is_timed_out, Need::Program("gcc")),
    test!(async missing_toolchain_is_one_line_with_the_fix),
    test!(async registered_language_runs, Need::Program("awk")),
    test!(async libraries_must_be_installed_before),
    test!(async one_shot_runs_code_and_ends_the_sandbox),
];

/// Compilers are slow on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

async fn sandbox() -> SandboxHandle {
    create(policy().timeout(LIMIT)).await
}

async fn runs(language: &str) {
    let sandbox = sandbox().await;
    assert_language_runs(&sandbox, language, |request| request).await;
    sandbox.kill().await.expect("it ends");
}

async fn python_runs() {
    runs("python").await;
}

async fn javascript_runs() {
    runs("js").await;
}

async fn typescript_runs_on_a_node_that_strips_types() {
    let folder = crate::harness::node_for_typescript().expect("it is needed");
    let sandbox = create(policy().timeout(LIMIT).filesystem_read_root(&folder)).await;
    let path = format!("{}:/usr/bin:/bin", folder.display());
    assert_language_runs(&sandbox, "ts", |request| request.env("PATH", &path)).await;
    sandbox.kill().await.expect("it ends");
}

async fn typescript_runs_or_is_refused() {
    let sandbox = sandbox().await;
    let version = sandbox
        .exec(&ExecRequest::new("node").arg("--version"))
        .await;
    let version = version.expect("node runs").stdout_text();
    let numbers = version.trim().trim_start_matches('v').split('.');
    let numbers = numbers.map(|part| part.parse::<u32>().expect("a number"));
    if numbers.collect::<Vec<_>>() >= vec![22, 18, 0] {
        return assert_language_runs(&sandbox, "ts", |request| request).await;
    }
    // The same program runs JavaScript, whatever its version.
    assert_language_runs(&sandbox, "js", |request| request).await;
    let error = sandbox.run_code(CodeRequest::new("ts", "")).await;
    let error = error.expect_err("too old");
    assert_eq!(error.kind(), ErrorKind::LanguageNotSupported, "{error}");
    assert!(error.context().contains(version.trim()), "{error}");
    assert!(
        error.fix().is_some_and(|fix| fix.contains("22.18")),
        "{error}"
    );
}

async fn java_runs() {
    runs("java").await;
}

async fn c_runs() {
    runs("c").await;
}

async fn cpp_runs() {
    runs("c++").await;
}

async fn go_runs() {
    runs("golang").await;
}

async fn rust_runs() {
    let toolchain = crate::harness::rust_toolchain().expect("it is needed");
    let mut policy = policy().timeout(LIMIT);
    // What rustup installs is not in /usr.
    let outside = !toolchain.starts_with("/usr");
    if outside {
        policy = policy.filesystem_read_root(&toolchain);
    }
    let path = format!("{}/bin:/usr/bin:/bin", toolchain.display());
    let sandbox = create(policy).await;
    assert_language_runs(&sandbox, "rust", |request| match outside {
        true => request.env("PATH", &path),
        false => request,
    })
    .await;
    sandbox.kill().await.expect("it ends");
}

async fn ruby_runs() {
    runs("ruby").await;
}

async fn r_runs() {
    runs("r").await;
}

async fn shell_runs() {
    runs("sh").await;
}

async fn bash_runs() {
    runs("bash").await;
}

async fn run(sandbox: &SandboxHandle, request: CodeRequest) -> CodeResult {
    sandbox.run_code(request).await.expect("the sandbox works")
}

fn ran(result: &CodeResult) -> &ExecResult {
    result.ran().expect("it compiles")
}

async fn code_is_alone_in_its_folder() {
    let sandbox = sandbox().await;
    sandbox
        .write("random.py", "raise SystemExit('shadowed')")
        .await
        .expect("written");
    let temporary = format!("{}/string.py", sandbox.temporary_folder());
    sandbox
        .write(&temporary, "raise SystemExit('shadowed')")
        .await
        .expect("written");
    let code = "import os, random, string, code\nprint(os.listdir(os.path.dirname(__file__)))\n";
    let result = run(&sandbox, CodeRequest::new("py", code)).await;
    let result = result.check().expect("it succeeds");
    assert_eq!(result.stdout_text(), "['run-code.py']\n");
}

async fn files_are_in_the_working_folder_and_modules_beside_the_code() {
    let sandbox = sandbox().await;
    let code = "import helper.part\nprint(open('data/in.csv').read(), helper.part.NAME)\n";
    let request = CodeRequest::new("python", code)
        .file("data/in.csv", "1,2")
        .module("helper/part.py", "NAME = 'part'");
    let result = run(&sandbox, request).await;
    assert_eq!(
        result.check().expect("it succeeds").stdout_text(),
        "1,2 part\n"
    );
    let content = sandbox.read("data/in.csv").await.expect("a relative path");
    assert_eq!(content, b"1,2");
}

/// The folders of code in the sandbox.
async fn folders(sandbox: &SandboxHandle) -> usize {
    let script = format!(
        "ls {} | grep -c sandbox-code-; true",
        sandbox.temporary_folder()
    );
    let listed = sandbox.exec(&sh(&script)).await.expect("it lists");
    listed.stdout_text().trim().parse().expect("a count")
}

async fn folder_of_interpreted_code_is_removed() {
    let sandbox = sandbox().await;
    let result = run(
        &sandbox,
        CodeRequest::new("sh", "ls -d \"${0%/*}\"; exit 3"),
    )
    .await;
    assert_eq!(ran(&result).exit_code(), Some(3));
    assert!(
        ran(&result).stdout_text().contains("/sandbox-code-"),
        "{result:?}"
    );
    assert_eq!(folders(&sandbox).await, 0);
}

const ANSWER: &str = "#include <stdio.h>\nint main(void) { puts(\"42\"); }\n";

fn compilation(result: &CodeResult) -> &'static str {
    match result {
        CodeResult::Ran {
            result,
            compilation,
        } => {
            assert_eq!(result.stdout_text(), "42\n");
            match compilation {
                Compilation::Compiled(compiler) => {
                    assert!(compiler.success());
                    "compiled"
                }
                Compilation::Cached => "cached",
                _ => "interpreted",
            }
        }
        other => panic!("{other:?}"),
    }
}

async fn same_source_is_compiled_once() {
    let sandbox = sandbox().await;
    let mut seen = Vec::new();
    for request in [
        CodeRequest::new("c", ANSWER),
        CodeRequest::new("c", ANSWER).arg("another"),
        CodeRequest::new("c", ANSWER).compiler_args(["-O2"]),
        CodeRequest::new("c", ANSWER).module("x.h", ""),
        CodeRequest::new("c", format!("{ANSWER}\n")).keep_program(false),
        CodeRequest::new("c", format!("{ANSWER}\n")),
        CodeRequest::new("c", ANSWER),
    ] {
        seen.push(compilation(&run(&sandbox, request).await));
    }
    let expected = [
        "compiled", "cached", "compiled", "compiled", "compiled", "compiled", "cached",
    ];
    assert_eq!(seen, expected);
    assert_eq!(folders(&sandbox).await, 4);
}

async fn concurrent_runs_of_one_source_compile_it_once() {
    let sandbox = sandbox().await;
    let one = || run(&sandbox, CodeRequest::new("c", ANSWER));
    let (a, b, c) = tokio::join!(one(), one(), one());
    let mut seen = [&a, &b, &c].map(compilation);
    seen.sort_unstable();
    assert_eq!(seen, ["cached", "cached", "compiled"]);
}

async fn removed_program_is_compiled_again() {
    let sandbox = sandbox().await;
    run(&sandbox, CodeRequest::new("c", ANSWER)).await;
    let script = format!("rm -r {}/sandbox-code-*", sandbox.temporary_folder());
    sandbox.exec(&sh(&script)).await.expect("it runs");
    let error = sandbox.run_code(CodeRequest::new("c", ANSWER)).await;
    assert_eq!(error.expect_err("gone").kind(), ErrorKind::ProgramNotFound);
    let result = run(&sandbox, CodeRequest::new("c", ANSWER)).await;
    assert_eq!(compilation(&result), "compiled");
}

async fn failed_compilation_is_no_failed_program() {
    let sandbox = sandbox().await;
    let code = "int main(void) {\n  return missing;\n}\n";
    let result = run(&sandbox, CodeRequest::new("c", code)).await;
    let CodeResult::CompileFailed { compiler } = &result else {
        panic!("{result:?}");
    };
    assert_eq!(compiler.exit_code(), Some(1));
    assert!(
        compiler.stderr_text().contains("main.c:2:10: error"),
        "{compiler:?}"
    );
    assert!(!result.success() && result.ran().is_none());
    let error = result.check().expect_err("it failed");
    assert_eq!(error.kind(), ErrorKind::CompileFailed);
    assert!(error.context().contains("main.c:2:10"), "{error}");
    assert_eq!(folders(&sandbox).await, 0);
    let code = "int main(void) { return 7; }\n";
    let result = run(&sandbox, CodeRequest::new("c", code)).await;
    assert_eq!(ran(&result).exit_code(), Some(7));
    assert_eq!(
        result.check().expect_err("it failed").kind(),
        ErrorKind::ProgramFailed
    );
}

async fn endless_program_is_timed_out() {
    let sandbox = sandbox().await;
    let code = "int main(void) { for (;;); }\n";
    let request = CodeRequest::new("c", code).timeout(Duration::from_millis(300));
    let result = run(&sandbox, request).await;
    assert_eq!(ran(&result).outcome, Outcome::TimedOut);
}

async fn missing_toolchain_is_one_line_with_the_fix() {
    let sandbox = sandbox().await;
    let run = Step::new(["no-such-interpreter"]).args(["{file}"]);
    let language = Language::new("none", "none", run).fix("install it");
    let error = sandbox.run_code(CodeRequest::new(&language, "")).await;
    let error = error.expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::ProgramNotFound);
    assert_eq!(
        error.to_string(),
        "find toolchain failed: the sandbox does not have none: no no-such-interpreter (fix: install it)"
    );
    let error = sandbox.find_language(&language).await.expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::ProgramNotFound);
    let error = sandbox.run_code(CodeRequest::new("cobol", "")).await;
    assert_eq!(
        error.expect_err("unknown").kind(),
        ErrorKind::LanguageNotSupported
    );
    assert_eq!(folders(&sandbox).await, 0);
}

async fn registered_language_runs() {
    let awk = Language::new("awk", "awk", Step::new(["awk"]).args(["-f", "{file}"]));
    let mut languages = Languages::new();
    languages.register(awk).expect("valid");
    let awk = languages.of_path("sum.awk").expect("known");
    let sandbox = sandbox().await;
    let found = sandbox.find_language(awk).await.expect("there");
    assert!(Path::new(&found[0]).ends_with("awk"), "{found:?}");
    let request = CodeRequest::new(awk, "{ sum += $1 } END { print sum }")
        .stdin(Stdin::from_bytes("40\n2\n"));
    let result = run(&sandbox, request).await;
    assert_eq!(result.check().expect("it succeeds").stdout_text(), "42\n");
}

async fn libraries_must_be_installed_before() {
    let sandbox = sandbox().await;
    let kind = async |request: CodeRequest| {
        let refused = sandbox.run_code(request).await;
        refused.expect_err("refused").kind()
    };
    let request = CodeRequest::new("python", "").library("numpy");
    assert_eq!(kind(request).await, ErrorKind::Unsupported);
    let request = CodeRequest::new("c", "").library("zlib");
    assert_eq!(kind(request).await, ErrorKind::LibrariesNotSupported);
    let request = CodeRequest::new("sh", "").compiler_args(["-O2"]);
    assert_eq!(kind(request).await, ErrorKind::InvalidRequest);
}

async fn one_shot_runs_code_and_ends_the_sandbox() {
    let client = client(policy());
    let request = CodeRequest::new("sh", "echo $1; exit 4").arg("x");
    let ended = client
        .run_code(request, OneShot::new(spec()))
        .await
        .expect("it runs");
    let result = ended.code.ran().expect("it ran");
    assert_eq!(
        (result.stdout_text().as_str(), result.exit_code()),
        ("x\n", Some(4))
    );
    assert!(ended.failures.is_empty(), "{:?}", ended.failures);
    let request = CodeRequest::new("python", "").library("demo");
    let error = client.run_code(request, OneShot::default()).await;
    assert_eq!(
        error.expect_err("not allowed").kind(),
        ErrorKind::PolicyExceeded
    );
}
