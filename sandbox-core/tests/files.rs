//! Files of a sandbox, through its handle.

mod common;

use std::pin::Pin;
use std::task::{Context, Poll};

use sandbox_core::{
    ArtifactLimits, ByteSize, CapabilityPolicy, ErrorKind, Export, SandboxHandle, SandboxSpec,
};
use tokio::io::AsyncWrite;

use common::faulty::{Fault, Faulty};

/// The test backend stores the permission bits in front of the content.
const WRITTEN: &str = "644 content";

async fn sandbox() -> SandboxHandle {
    let client = Faulty::default().client(CapabilityPolicy::new());
    client.create(&SandboxSpec::new("test")).await.unwrap()
}

#[test]
fn file_paths_are_neither_empty_nor_have_a_nul() {
    common::block_on(async {
        let sandbox = sandbox().await;
        for bad in ["", "/nul\0"] {
            let errors = [
                sandbox.write(bad, "").await.unwrap_err(),
                sandbox.read(bad).await.unwrap_err(),
                sandbox.copy_in("/etc", bad).await.unwrap_err(),
                sandbox.copy_out(bad, "/tmp").await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Path, "{bad:?}: {error}");
            }
        }
    });
}

#[test]
fn written_file_is_read_back_as_bytes_and_text() {
    common::block_on(async {
        let sandbox = sandbox().await;
        sandbox.write("/file", "content").await.unwrap();
        assert_eq!(sandbox.read("/file").await.unwrap(), WRITTEN.as_bytes());
        assert_eq!(sandbox.read_to_string("/file").await.unwrap(), WRITTEN);
        let missing = sandbox.read("/missing").await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Path);
    });
}

#[test]
fn read_to_string_refuses_bytes_that_are_not_utf_8() {
    common::block_on(async {
        let sandbox = sandbox().await;
        sandbox.write("/binary", [0xff_u8]).await.unwrap();
        let error = sandbox.read_to_string("/binary").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Path);
        assert!(error.to_string().contains("/binary: not UTF-8"), "{error}");
    });
}

#[test]
fn file_beyond_the_limit_is_an_error() {
    common::block_on(async {
        let sandbox = sandbox().await;
        sandbox.write("/file", [b'x'; 96]).await.unwrap();
        let read = async |limit| sandbox.read_limited("/file", ByteSize::bytes(limit)).await;
        for limit in [0, 1, 99] {
            let error = read(limit).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Path, "{limit}");
            assert!(error.fix().unwrap().contains("read_limited"), "{error}");
        }
        for limit in [100, u64::MAX] {
            assert_eq!(read(limit).await.unwrap().len(), 100, "{limit}");
        }
    });
}

#[test]
fn read_without_a_limit_refuses_more_than_64_mib() {
    common::block_on(async {
        let sandbox = sandbox().await;
        sandbox.write("/large", vec![0; 64 << 20]).await.unwrap();
        let error = sandbox.read("/large").await.unwrap_err();
        assert!(error.to_string().contains("67108864"), "{error}");
    });
}

#[test]
fn upload_and_download_stream_content_with_permission_bits() {
    common::block_on(async {
        let sandbox = sandbox().await;
        let upload = sandbox.upload("/run", 0o755, &b"content"[..]).await;
        upload.unwrap();
        let mut content = Vec::new();
        let length = sandbox.download("/run", &mut content).await.unwrap();
        assert_eq!((length, content.as_slice()), (11, &b"755 content"[..]));
    });
}

/// A writer without space after the first 40 bytes.
struct FullWriter(usize);

impl AsyncWrite for FullWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        if self.0 == 40 {
            return Poll::Ready(Err(std::io::ErrorKind::StorageFull.into()));
        }
        self.0 += bytes.len();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn download_reports_a_failed_writer() {
    common::block_on(async {
        let sandbox = sandbox().await;
        sandbox.write("/file", [b'x'; 96]).await.unwrap();
        let download = sandbox.download("/file", &mut FullWriter(0)).await;
        let error = download.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("/file"), "{error}");
    });
}

#[test]
fn policy_without_export_paths_exports_nothing() {
    common::block_on(async {
        let sandbox = sandbox().await;
        let export = sandbox.export("/nonexistent").await.unwrap();
        assert_eq!(export, Export::default());
    });
}

#[test]
fn export_copies_what_the_policy_names() {
    common::block_on(async {
        let policy = CapabilityPolicy::new()
            .artifact_export_path("/output/*")
            .artifact_export_path("/missing");
        let client = Faulty::new(Fault::Exports).client(policy);
        let sandbox = client.create(&SandboxSpec::new("test")).await.unwrap();
        let limits = ArtifactLimits::default();
        for export in [
            sandbox.export("/out").await.unwrap(),
            sandbox.export_with("/out", limits).await.unwrap(),
        ] {
            assert_eq!(export.artifacts[0].source, "/output/*");
            assert_eq!(export.skipped[0].source, "/missing");
        }
    });
}
