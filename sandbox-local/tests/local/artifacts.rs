//! Exports from sandboxes with hostile code.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use sandbox_core::{ArtifactLimits, ByteSize, Export, SandboxHandle, SkipReason, Workspace};
use sandbox_testing::users::open_folder;
use sandbox_testing::wait::wait_until;

use crate::harness::{Test, test};

use crate::support::{client, create, namespaces, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async files_are_exported_unchanged_with_their_type),
    test!(async non_files_are_skipped_with_a_reason),
    test!(async unreadable_folder_does_not_stop_the_export),
    test!(async unusual_names_are_exported_or_skipped),
    test!(async deep_tree_is_exported_or_reported_as_too_deep),
    test!(async name_collision_is_reported_and_the_export_continues),
    test!(async changing_files_are_limited),
    test!(async output_folder_links_made_by_code_are_refused),
    test!(async many_skipped_entries_are_truncated),
];

/// A sandbox with these export paths below its own folder, and the path of that folder inside.
async fn exporting(paths: &[&str]) -> (SandboxHandle, Option<tempfile::TempDir>, String) {
    let mut policy = policy();
    if namespaces() {
        policy.artifact_export_paths = paths.iter().map(|path| format!("/output{path}")).collect();
        return (create(policy).await, None, "/output".into());
    }
    // Without its own root, a sandbox exports only from folders of the host.
    let folder = open_folder();
    let inside = folder.path().to_string_lossy().into_owned();
    policy.filesystem_write_roots = Some(vec![folder.path().into()]);
    policy.artifact_export_paths = paths.iter().map(|path| format!("{inside}{path}")).collect();
    (create(policy).await, Some(folder), inside)
}

async fn made(sandbox: &SandboxHandle, folder: &str, script: &str) {
    let script = format!("cd {folder}; {script}");
    let result = sandbox.exec(&sh(&script)).await.expect("it runs");
    assert!(result.success(), "{}", result.stderr_text());
}

async fn exported(sandbox: &SandboxHandle, out: &Path) -> Export {
    let export = sandbox.export(out);
    tokio::time::timeout(Duration::from_secs(60), export)
        .await
        .expect("an answer")
        .expect("an export")
}

fn names(export: &Export, out: &Path) -> Vec<String> {
    let out = out.canonicalize().expect("there");
    let below = |path: &Path| {
        path.strip_prefix(&out)
            .expect("below")
            .display()
            .to_string()
    };
    export.artifacts.iter().map(|a| below(&a.path)).collect()
}

fn reason<'a>(export: &'a Export, end: &str) -> &'a SkipReason {
    let skipped = export.skipped.iter().find(|s| s.source.ends_with(end));
    &skipped
        .unwrap_or_else(|| panic!("{end}: {export:?}"))
        .reason
}

async fn files_are_exported_unchanged_with_their_type() {
    let (sandbox, _folder, inside) = exporting(&["/**"]).await;
    let out = open_folder();
    made(
        &sandbox,
        &inside,
        "printf 'a,b\\n' > t.csv; : > empty; mkdir -p d/e; printf '\\211PNG\\r\\n\\032\\n\\0\\0\\0\\rIHDR' > d/e/p.txt; chmod 600 t.csv",
    )
    .await;
    let export = exported(&sandbox, out.path()).await;
    assert_eq!(names(&export, out.path()), ["d/e/p.txt", "empty", "t.csv"]);
    assert_eq!(export.skipped, []);
    let [png, empty, csv] = export.artifacts.as_slice() else {
        panic!("{export:?}");
    };
    assert_eq!(png.content_type.as_deref(), Some("image/png"));
    assert_eq!(csv.content_type.as_deref(), Some("text/csv"));
    assert_eq!((empty.size_bytes, csv.size_bytes), (0, 4));
    let empty_hash = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(empty.blake3, empty_hash);
    assert_eq!(std::fs::read(&csv.path).expect("there"), b"a,b\n");
    let owner = rustix::process::geteuid().as_raw();
    assert_eq!(std::fs::metadata(&csv.path).expect("there").uid(), owner);

    // A second export: removed files are missing, and nothing is overwritten.
    made(&sandbox, &inside, "rm -r d empty; echo new > t.csv").await;
    let export = exported(&sandbox, out.path()).await;
    assert_eq!(names(&export, out.path()), ["t-1.csv"]);
}

async fn non_files_are_skipped_with_a_reason() {
    let (sandbox, _folder, inside) = exporting(&["/**", "/missing", "/*.nothing"]).await;
    let out = open_folder();
    made(
        &sandbox,
        &inside,
        "ln -s /etc/passwd link; ln -s . loop; ln -s /no/where dangling; mkfifo fifo; echo x > file; ln file hard; \
         python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")' || :; mkdir full; ln -s /usr full/usr",
    )
    .await;
    let export = exported(&sandbox, out.path()).await;
    assert_eq!(names(&export, out.path()), ["file", "hard"]);
    for link in ["/link", "/loop", "/dangling", "/full/usr"] {
        assert_eq!(reason(&export, link), &SkipReason::Symlink);
    }
    assert_eq!(reason(&export, "/fifo"), &SkipReason::SpecialFile);
    assert_eq!(reason(&export, "/missing"), &SkipReason::Missing);
    assert_eq!(reason(&export, "/*.nothing"), &SkipReason::Missing);
}

async fn unreadable_folder_does_not_stop_the_export() {
    let (sandbox, _folder, inside) = exporting(&["/**"]).await;
    let out = open_folder();
    made(
        &sandbox,
        &inside,
        "mkdir a closed z; echo x > a/a; echo x > closed/c; echo x > z/z; echo x > unreadable; chmod 000 closed unreadable",
    )
    .await;
    let export = exported(&sandbox, out.path()).await;
    assert_eq!(names(&export, out.path()), ["a/a", "z/z"], "{export:?}");
    for closed in ["/closed", "/unreadable"] {
        let reason = reason(&export, closed);
        assert!(
            matches!(reason, SkipReason::Unreadable { .. }),
            "{reason:?}"
        );
    }
    // Otherwise the test could not remove its folder.
    made(&sandbox, &inside, "chmod 700 closed").await;
}

async fn unusual_names_are_exported_or_skipped() {
    let (sandbox, _folder, inside) = exporting(&["/**"]).await;
    let out = open_folder();
    made(
        &sandbox,
        &inside,
        "touch \"$(printf '\\033[31mred')\" \"$(printf 'bad\\377utf8')\" ' ' '...'",
    )
    .await;
    let export = exported(&sandbox, out.path()).await;
    assert_eq!(export.artifacts.len(), 3, "{:?}", export.skipped);
    assert_eq!(export.skipped.len(), 1, "{:?}", export.skipped);
    assert_eq!(export.skipped[0].reason, SkipReason::BadName);
    for artifact in &export.artifacts {
        assert!(artifact.path.exists(), "{artifact:?}");
    }
}

async fn deep_tree_is_exported_or_reported_as_too_deep() {
    let (sandbox, _folder, inside) = exporting(&["/**"]).await;
    let out = open_folder();
    made(
        &sandbox,
        &inside,
        "echo top > top; i=0; while [ $i -lt 40 ]; do mkdir d; cd d; i=$((i+1)); done; echo deep > file; \
         while [ $i -lt 200 ]; do mkdir d; cd d; i=$((i+1)); done; echo deeper > too-deep",
    )
    .await;
    let export = exported(&sandbox, out.path()).await;
    let names = names(&export, out.path());
    assert!(
        names.contains(&"top".to_owned()) && names.iter().any(|n| n.ends_with("d/file")),
        "{names:?}"
    );
    let deep = names.iter().any(|name| name.ends_with("too-deep"));
    let is_skipped = export
        .skipped
        .iter()
        .any(|s| s.reason == SkipReason::TooDeep);
    assert!(deep != is_skipped, "{export:?}");
}

async fn name_collision_is_reported_and_the_export_continues() {
    let (sandbox, _folder, inside) = exporting(&["/**"]).await;
    let out = open_folder();
    let elsewhere = open_folder();
    std::fs::write(out.path().join("taken"), "mine").expect("written");
    symlink(elsewhere.path(), out.path().join("link")).expect("a link");
    symlink(elsewhere.path().join("x"), out.path().join("file")).expect("a link");
    made(
        &sandbox,
        &inside,
        "mkdir taken link; echo x > taken/x; echo x > link/x; echo x > file; echo x > zuletzt",
    )
    .await;
    let export = exported(&sandbox, out.path()).await;
    assert_eq!(
        names(&export, out.path()),
        ["file-1", "zuletzt"],
        "{export:?}"
    );
    for taken in ["taken/x", "link/x"] {
        assert_eq!(reason(&export, taken), &SkipReason::NameTaken);
    }
    assert_eq!(
        std::fs::read(out.path().join("taken")).expect("there"),
        b"mine"
    );
    assert_eq!(
        std::fs::read_dir(elsewhere.path()).expect("there").count(),
        0
    );
}

async fn changing_files_are_limited() {
    let (sandbox, _folder, inside) = exporting(&["/*"]).await;
    let out = open_folder();
    // A file that grows, and one that alternates between a link, a FIFO and a folder.
    let script = format!(
        "cd {inside}; echo x > grows; touch ready; end=$(($(date +%s) + 8)); \
         while [ $(date +%s) -lt $end ] && [ -e ready ]; do head -c 400000 /dev/zero >> grows; rm -rf turns; ln -s /etc/passwd turns; \
         rm -f turns; mkfifo turns; rm -f turns; mkdir turns; rmdir turns; echo own > turns; done 2>/dev/null; true"
    );
    let script = sh(&script);
    let changing = sandbox.exec(&script);
    let exporting = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let limits = ArtifactLimits {
            file_size: ByteSize::bytes(1 << 20),
            ..ArtifactLimits::default()
        };
        for _ in 0..10 {
            let export = tokio::time::timeout(
                Duration::from_secs(10),
                sandbox.export_with(out.path(), limits),
            );
            let export = export.await.expect("an answer").expect("an export");
            for artifact in &export.artifacts {
                let content = std::fs::read(&artifact.path).expect("there");
                assert!(content.len() <= 1 << 20);
                assert_eq!(content.len() as u64, artifact.size_bytes);
                if artifact.source.ends_with("turns") {
                    assert!(content.is_empty() || content == b"own\n", "{content:?}");
                }
            }
        }
        // The changes end, also where they have filled the disk.
        made(&sandbox, &inside, "rm -f ready").await;
    };
    let (result, ()) = tokio::join!(changing, exporting);
    result.expect("it runs");
}

async fn output_folder_links_made_by_code_are_refused() {
    let workspace = tempfile::tempdir().expect("a folder");
    let victim = tempfile::tempdir().expect("a folder");
    let out = workspace.path().join("sub/artifacts");
    std::fs::create_dir_all(&out).expect("made");
    let mut policy = policy();
    let (exported_path, write) = match namespaces() {
        true => ("/output/*".to_owned(), "/output".to_owned()),
        false => {
            let real = workspace.path().canonicalize().expect("there");
            (
                format!("{}/o/*", real.display()),
                format!("{}/o", real.display()),
            )
        }
    };
    policy.artifact_export_paths = vec![exported_path];
    // The caller's own link is followed. A link that code can create is refused.
    policy.follow_links = Some(true);
    let sandbox = client(policy)
        .create(&spec().workspace(Workspace::read_write(workspace.path())))
        .await
        .expect("a sandbox");
    let attack = format!(
        "mkdir -p {write}; echo key > {write}/authorized_keys; mv sub/artifacts sub/away; ln -s {} sub/artifacts",
        victim.path().display()
    );
    let result = sandbox.exec(&sh(&attack)).await.expect("it runs");
    assert!(result.success(), "{}", result.stderr_text());
    let error = sandbox.export(&out).await;
    let error = error.expect_err("a link that the code has made");
    assert!(error.to_string().contains("link"), "{error}");
    assert_eq!(std::fs::read_dir(victim.path()).expect("there").count(), 0);

    // The same for a link in the middle of the path, and for a missing folder.
    sandbox
        .exec(&sh(&format!(
            "mv sub old; ln -s {} sub",
            victim.path().display()
        )))
        .await
        .expect("it runs");
    for out in [out, workspace.path().join("sub/new/folder")] {
        sandbox.export(&out).await.expect_err("a link");
    }
    assert_eq!(std::fs::read_dir(victim.path()).expect("there").count(), 0);

    // The caller's own link is followed, and a folder in the workspace is accepted.
    let link = victim.path().join("link");
    symlink(workspace.path(), &link).expect("a link");
    let export = exported(&sandbox, &link.join("fine")).await;
    assert_eq!(export.artifacts.len(), 1, "{export:?}");
    assert!(workspace.path().join("fine/authorized_keys").exists());
}

async fn many_skipped_entries_are_truncated() {
    let (sandbox, _folder, inside) = exporting(&["/**"]).await;
    let out = open_folder();
    made(
        &sandbox,
        &inside,
        "i=0; while [ $i -lt 3000 ]; do ln -s x link-with-quite-a-long-name-$i; i=$((i+1)); done; echo x > zz",
    )
    .await;
    let export = exported(&sandbox, out.path()).await;
    assert_eq!(names(&export, out.path()), ["zz"]);
    assert!(export.skipped.len() <= 1001, "{}", export.skipped.len());
    let more = export
        .skipped
        .iter()
        .map(|s| &s.reason)
        .find(|r| matches!(r, SkipReason::AndMore { .. }));
    assert_eq!(more, Some(&SkipReason::AndMore { count: 2000 }));
    wait_until("nothing else came out", Duration::from_secs(20), || {
        std::fs::read_dir(out.path()).is_ok_and(|entries| entries.count() == 1)
    });
}
