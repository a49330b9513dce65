//! The lines that people write first compile.
#![cfg(feature = "local")]

use std::time::Duration;

use sandbox::policy::PolicyFile;
use sandbox::{ByteSize, CapabilityPolicy, ExecRequest, SandboxClient, SandboxSpec, Stdin};

#[tokio::test]
async fn lines_that_people_write_first_compile_and_work() -> sandbox::Result<()> {
    let policy = CapabilityPolicy::new()
        .subprocess_execution(true)
        .stdout_max_bytes(ByteSize::mib(1))
        .timeout(Duration::from_secs(30));
    let client = SandboxClient::open("local", policy)?;
    // A name of one letter is a name.
    let nb = client.create(&SandboxSpec::new("x")).await?;

    nb.mkdir("/tmp/data/deep").await?;
    nb.write("/tmp/data/in.txt", "b\na\n").await?;
    assert_eq!(nb.read("/tmp/data/in.txt").await?, b"b\na\n");
    let names = nb.list_dir("/tmp/data").await?;
    let names = names.iter().map(|entry| entry.path.to_str().unwrap());
    let expected = ["/tmp/data/deep", "/tmp/data/in.txt"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    let stat = nb.stat("/tmp/data/in.txt").await?;
    assert!(stat.is_file() && stat.size == 4 && stat.modified.is_some());
    assert!(nb.stat("/tmp/data/deep").await?.is_dir());
    assert!(nb.exists("/tmp/data").await?);
    nb.remove("/tmp/data").await?;
    assert!(!nb.exists("/tmp/data").await?);
    assert!(nb.stat("/tmp/data").await.is_err());
    assert!(nb.list_dir("/tmp/data").await.is_err());
    assert!(nb.list_dir("/etc/passwd").await.is_err());
    assert!(nb.list_dir("relative").await.is_err());

    let request = ExecRequest::new("sort");
    let sorted = nb.exec_with(&request, Stdin::from_bytes("b\na\n"), |_, _| {});
    let result = sorted.await?;
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["stdout"]["text"], "a\nb\n");
    assert_eq!(json["outcome"]["code"], 0);
    assert!(json["duration_ms"].as_f64().unwrap() > 0.0);
    assert!(json["stdout"].get("base64").is_none());
    let bytes = nb.shell("printf 'a\\377'").await?;
    let json = serde_json::to_value(&bytes.stdout).unwrap();
    assert_eq!(json["base64"], "Yf8=");
    nb.kill().await?;

    let unnamed = client.create(&SandboxSpec::unique()).await?;
    unnamed.kill().await
}

#[test]
fn policy_file_is_loaded_and_named_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, "version = 1\nmemory = \"64m\"\n").unwrap();
    let policy = PolicyFile::load(&path).unwrap().resolve().unwrap();
    assert_eq!(policy.memory, Some(ByteSize::mib(64)));
    std::fs::write(&path, "version = 1\nmemory = \"64 megs\"\n").unwrap();
    let error = PolicyFile::load(&path).unwrap_err();
    let context = error.context();
    assert!(context.starts_with(path.to_str().unwrap()), "{context}");
    assert!(
        context.contains("64 megs") && context.contains("\n    |"),
        "{context}"
    );
    let missing = PolicyFile::load(folder.path().join("none")).unwrap_err();
    assert!(missing.context().contains("none"), "{missing}");
}
