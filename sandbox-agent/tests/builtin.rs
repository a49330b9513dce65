//! Builtins of a running agent: file transfer, listing and removal.

mod common;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    time::{Duration, Instant},
};

use common::{ExecResult, FirstClient, builtin, settings};
use sandbox_agent::protocol::{
    Builtin, Channel, ExecRequest, ExitKind, FailStep, FrameKind, MessageReader, WINDOW,
};

fn bytes(path: &Path) -> Vec<u8> {
    path.to_str().unwrap().into()
}

/// Sends `data` as standard input, as fast as credit allows.
#[track_caller]
fn put(client: &mut FirstClient, path: &Path, mode: u32, data: &[u8]) -> ExecResult {
    let request = ExecRequest {
        stdin: true,
        ..builtin(Builtin::Put {
            path: bytes(path),
            mode,
        })
    };
    let stream = client.exec(&request);
    let (mut sent, mut credit, mut ended) = (0, WINDOW as usize, false);
    client.follow(stream, |client, message| {
        if message.kind == FrameKind::Credit {
            let (channel, bytes) = Channel::read_credit(&message.bytes).unwrap();
            assert_eq!(channel, Channel::Stdin);
            credit += bytes as usize;
        }
        while credit > 0 && sent < data.len() {
            let count = credit.min(65_000).min(data.len() - sent);
            client.send(stream, FrameKind::Stdin, &data[sent..sent + count]);
            sent += count;
            credit -= count;
        }
        if sent == data.len() && !ended {
            ended = true;
            client.send(stream, FrameKind::StdinEnd, &[]);
        }
    })
}

#[track_caller]
fn get(client: &mut FirstClient, path: &Path) -> ExecResult {
    client.run(&builtin(Builtin::Get { path: bytes(path) }))
}

#[track_caller]
fn fails(outcome: &ExecResult, errno: i32, detail: &Path) {
    let failure = outcome.failure();
    assert_eq!(
        (failure.step, failure.errno),
        (FailStep::File, errno),
        "{failure:?}"
    );
    assert_eq!(failure.detail, detail.to_str().unwrap());
}

#[test]
fn put_and_get_transfer_files() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path();
    let mut client = FirstClient::start(&settings());
    let large: Vec<u8> = (0..64u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for (name, data) in [
        ("a/b/small", &b"content"[..]),
        ("empty", b""),
        ("large", &large),
    ] {
        let path = temp_dir.join(name);
        let outcome = put(&mut client, &path, 0o640, data);
        assert_eq!(outcome.kind(), ExitKind::Exited(0));
        assert!(outcome.pid.is_some());
        assert!(fs::read(&path).unwrap() == data);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        let outcome = get(&mut client, &path);
        assert_eq!(outcome.kind(), ExitKind::Exited(0));
        assert!(outcome.stdout == data);
    }
    // Replaces an existing file, and a link itself instead of its target.
    symlink("large", temp_dir.join("link")).unwrap();
    put(&mut client, &temp_dir.join("link"), 0o600, b"new").report();
    assert_eq!(fs::read(temp_dir.join("link")).unwrap(), b"new");
    assert_eq!(
        fs::metadata(temp_dir.join("large")).unwrap().len(),
        64 << 20
    );
    let names: Vec<_> = fs::read_dir(temp_dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn get_refuses_everything_but_regular_files() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path().canonicalize().unwrap();
    let mut client = FirstClient::start(&settings());
    fs::create_dir(temp_dir.join("folder")).unwrap();
    fs::write(temp_dir.join("folder/file"), "content").unwrap();
    symlink("folder", temp_dir.join("link")).unwrap();
    symlink("file", temp_dir.join("folder/link")).unwrap();
    let status = std::process::Command::new("mkfifo")
        .arg(temp_dir.join("fifo"))
        .status()
        .unwrap();
    assert!(status.success());
    let start = Instant::now();
    for (name, errno) in [
        ("fifo", libc::EINVAL),
        ("folder", libc::EINVAL),
        ("folder/link", libc::ELOOP),
        ("link/file", libc::ELOOP),
        ("none", libc::ENOENT),
        ("folder/file/x", libc::ENOTDIR),
    ] {
        fails(
            &get(&mut client, &temp_dir.join(name)),
            errno,
            &temp_dir.join(name),
        );
    }
    fails(
        &get(&mut client, Path::new("/dev/zero")),
        libc::EINVAL,
        Path::new("/dev/zero"),
    );
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn incomplete_put_leaves_no_file() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("file");
    let mut client = FirstClient::start(&settings());
    let request = ExecRequest {
        stdin: true,
        ..builtin(Builtin::Put {
            path: bytes(&path),
            mode: 0o600,
        })
    };
    let count = || fs::read_dir(temp_dir.path()).unwrap().count();
    let stream = client.exec(&request);
    client.send(stream, FrameKind::Stdin, b"half of");
    assert_eq!(client.wait(stream).kind, FrameKind::Started);
    let start = Instant::now();
    while count() == 0 {
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    client.send(stream, FrameKind::Kill, &[]);
    assert_eq!(client.finish(stream).kind(), ExitKind::Killed);
    assert_eq!(count(), 0);
    // The same after a timeout.
    let outcome = client.run(&ExecRequest {
        timeout_ms: 100,
        ..request.clone()
    });
    assert_eq!(outcome.kind(), ExitKind::TimedOut);
    assert_eq!(count(), 0);
    // The same when the sandbox is stopped.
    let mut stopped = FirstClient::start(&settings());
    let stream = stopped.exec(&request);
    stopped.send(stream, FrameKind::Stdin, b"half of");
    assert_eq!(stopped.wait(stream).kind, FrameKind::Started);
    stopped.send(0, FrameKind::Stop, &1000u32.to_le_bytes());
    assert_eq!(stopped.finish(stream).kind(), ExitKind::Killed);
    assert_eq!(stopped.agent_end().code(), Some(0));
    assert_eq!(count(), 0);
    // Paths that cannot be written.
    fs::create_dir(&path).unwrap();
    fails(&put(&mut client, &path, 0o600, b"x"), libc::EISDIR, &path);
    let below = temp_dir.path().join("f/x");
    fs::write(temp_dir.path().join("f"), "").unwrap();
    fails(
        &put(&mut client, &below, 0o600, b"x"),
        libc::ENOTDIR,
        &temp_dir.path().join("f"),
    );
    let folder = temp_dir.path().join("folder/");
    fails(
        &put(&mut client, &folder, 0o600, b"x"),
        libc::EISDIR,
        &folder,
    );
    assert_eq!(count(), 2);
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListRecord {
    path: String,
    kind: u8,
    mode: u32,
    size: u64,
    time: u64,
}

fn records(bytes: &[u8]) -> Vec<ListRecord> {
    let mut reader = MessageReader::new(bytes);
    let mut records = Vec::new();
    while reader.clone().end().is_err() {
        let (kind, mode) = (reader.u8().unwrap(), reader.u32().unwrap());
        let (size, _allocated) = (reader.u64().unwrap(), reader.u64().unwrap());
        let time = reader.u64().unwrap();
        let path = String::from_utf8_lossy(reader.bytes().unwrap()).into_owned();
        records.push(ListRecord {
            path,
            kind,
            mode,
            size,
            time,
        });
    }
    records.sort();
    records
}

#[test]
fn list_reports_every_entry() {
    let temp_dir = tempfile::tempdir().unwrap();
    let root = temp_dir.path().join("root");
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o1751)).unwrap();
    fs::write(root.join("a/b/file"), "12345").unwrap();
    symlink("/etc", root.join("a/link")).unwrap();
    let mut client = FirstClient::start(&settings());
    let mut list = |path: &Path, depth: u32| {
        let outcome = client.run(&builtin(Builtin::List {
            path: bytes(path),
            depth,
        }));
        outcome.report();
        records(&outcome.stdout)
            .into_iter()
            .map(|record| {
                assert!(record.time > 1_500_000_000_000_000_000, "{record:?}");
                let path = record
                    .path
                    .strip_prefix(path.to_str().unwrap())
                    .unwrap()
                    .to_string();
                (path, record.kind as char, record.mode, record.size)
            })
            .collect::<Vec<_>>()
    };
    let paths = |list: Vec<(String, char, u32, u64)>| {
        list.into_iter().map(|(path, ..)| path).collect::<Vec<_>>()
    };
    assert_eq!(paths(list(&root, 0)), [""]);
    assert_eq!(paths(list(&root, 1)), ["", "/a"]);
    assert_eq!(paths(list(&root, 2)), ["", "/a", "/a/b", "/a/link"]);
    let all = list(&root, u32::MAX);
    assert_eq!(
        all[1],
        (
            "/a".into(),
            'd',
            0o1751,
            fs::metadata(root.join("a")).unwrap().len()
        )
    );
    assert_eq!(all[4], ("/a/b/file".into(), 'f', 0o644, 5));
    assert_eq!((all[5].0.as_str(), all[5].1, all[5].3), ("/a/link", 'l', 4));
    assert_eq!(all.len(), 6);
    assert_eq!(list(&root.join("a/link"), 5).len(), 1);
    let missing = client.run(&builtin(Builtin::List {
        path: b"/no/such".to_vec(),
        depth: 0,
    }));
    fails(&missing, libc::ENOENT, Path::new("/no/such"));
    let slash = client.run(&builtin(Builtin::List {
        path: b"/".to_vec(),
        depth: 1,
    }));
    assert!(
        records(&slash.stdout)
            .iter()
            .any(|record| record.path == "/etc")
    );
}

#[test]
fn list_handles_trees_deeper_than_path_max() {
    let temp_dir = tempfile::tempdir().unwrap();
    let mut client = FirstClient::start(&settings());
    let script = "i=0; while [ $i -lt 400 ]; do d=a-folder-with-a-long-name; mkdir $d && cd -P $d; i=$((i+1)); done; touch bottom";
    let request = ExecRequest {
        workdir: bytes(temp_dir.path()),
        ..common::command(&["bash", "-c", script])
    };
    assert_eq!(client.run(&request).kind(), ExitKind::Exited(0));
    let list = Builtin::List {
        path: bytes(temp_dir.path()),
        depth: u32::MAX,
    };
    let outcome = client.run(&builtin(list));
    outcome.report();
    let records = records(&outcome.stdout);
    assert_eq!(records.len(), 402);
    assert!(records.last().unwrap().path.ends_with("/bottom"));
    let remove = builtin(Builtin::Remove {
        path: bytes(temp_dir.path()),
    });
    assert_eq!(client.run(&remove).kind(), ExitKind::Exited(0));
    assert!(!temp_dir.path().exists());
}

#[test]
fn folders_are_made_and_trees_removed() {
    let temp_dir = tempfile::tempdir().unwrap();
    let folder = temp_dir.path().join("a/b");
    let mut client = FirstClient::start(&settings());
    let make = |path: &Path| {
        builtin(Builtin::MakeDir {
            path: bytes(path),
            mode: 0o777,
        })
    };
    for _ in 0..2 {
        assert_eq!(client.run(&make(&folder)).kind(), ExitKind::Exited(0));
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0o777);
    }
    fs::write(folder.join("file"), "").unwrap();
    fails(
        &client.run(&make(&folder.join("file"))),
        libc::ENOTDIR,
        &folder.join("file"),
    );
    let remove = |path: &Path| builtin(Builtin::Remove { path: bytes(path) });
    client.run(&remove(&folder.join("file"))).report();
    fails(
        &client.run(&remove(&folder.join("file"))),
        libc::ENOENT,
        &folder.join("file"),
    );
    client.run(&remove(&temp_dir.path().join("a"))).report();
    assert!(!temp_dir.path().join("a").exists());
    fails(
        &client.run(&make(Path::new(""))),
        libc::ENOENT,
        Path::new(""),
    );
    let outcome = client.run(&builtin(Builtin::Remove {
        path: b"/tmp/\0".to_vec(),
    }));
    assert_eq!(outcome.failure().step, FailStep::Request);
}

#[test]
fn builtins_obey_resource_limits() {
    let temp_dir = tempfile::tempdir().unwrap();
    let mut settings = settings();
    let limit = sandbox_agent::protocol::ResourceLimit {
        resource: libc::RLIMIT_FSIZE,
        value: 100_000,
    };
    settings.confinement.limits.push(limit);
    let mut client = FirstClient::start(&settings);
    let path = temp_dir.path().join("file");
    fails(
        &put(&mut client, &path, 0o600, &[7; 150_000]),
        libc::EFBIG,
        &path,
    );
    assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 0);
    put(&mut client, &path, 0o600, &[7; 50_000]).report();
}
