//! Writes a Python package, so that probes of packages need no registry.

use std::path::Path;

/// The name of the package and of its module.
pub const NAME: &str = "sandbox_conformance_package";

/// Writes the package's wheel into a folder. Its module has a `token`.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write(folder: &Path, token: &str) -> std::io::Result<()> {
    let info = format!("{NAME}-1.0.dist-info");
    let files = [
        (format!("{NAME}.py"), format!("token = '{token}'\n")),
        (
            format!("{info}/METADATA"),
            format!("Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n"),
        ),
        (
            format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nGenerator: probes\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
                .to_owned(),
        ),
        (format!("{info}/RECORD"), String::new()),
    ];
    std::fs::write(
        folder.join(format!("{NAME}-1.0-py3-none-any.whl")),
        archive(&files),
    )
}

/// The name of a package that only exists as a source, and of its module.
pub const SOURCE: &str = "sandbox_conformance_source";

/// Writes that package into a folder. To install it, code of it must run: its build backend, which
/// needs no other package.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_source(folder: &Path) -> std::io::Result<()> {
    let top = format!("{SOURCE}-1.0");
    let metadata = format!("Metadata-Version: 2.1\nName: {SOURCE}\nVersion: 1.0\n");
    let project =
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n";
    let backend = format!(
        "
import zipfile
def build_wheel(folder, *_):
    name, info = '{SOURCE}-1.0-py3-none-any.whl', '{SOURCE}-1.0.dist-info'
    with zipfile.ZipFile(f'{{folder}}/{{name}}', 'w') as wheel:
        wheel.writestr('{SOURCE}.py', 'token = 0')
        wheel.writestr(f'{{info}}/METADATA', {metadata:?})
        wheel.writestr(f'{{info}}/WHEEL', 'Wheel-Version: 1.0\\nTag: py3-none-any\\n')
        wheel.writestr(f'{{info}}/RECORD', '')
    return name
"
    );
    let files = [
        (format!("{top}/PKG-INFO"), metadata.clone()),
        (format!("{top}/pyproject.toml"), project.to_owned()),
        (format!("{top}/backend.py"), backend),
    ];
    std::fs::write(folder.join(format!("{top}.zip")), archive(&files))
}

/// A ZIP archive of uncompressed files.
fn archive(files: &[(String, String)]) -> Vec<u8> {
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for (name, content) in files {
        let offset = small(archive.len());
        let mut header = Vec::new();
        // Version 2.0, no flags, stored, no time, 1980-01-01.
        header.extend_from_slice(&[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0]);
        header.extend_from_slice(&checksum(content.as_bytes()).to_le_bytes());
        header.extend_from_slice(&small(content.len()).to_le_bytes());
        header.extend_from_slice(&small(content.len()).to_le_bytes());
        header.extend_from_slice(&(small(name.len()) as u16).to_le_bytes());
        header.extend_from_slice(&[0, 0]);
        archive.extend_from_slice(b"PK\x03\x04");
        archive.extend_from_slice(&header);
        archive.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(content.as_bytes());
        directory.extend_from_slice(b"PK\x01\x02");
        // Made by version 2.0.
        directory.extend_from_slice(&[20, 0]);
        directory.extend_from_slice(&header);
        // No comment, one disk, no attributes.
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let start = small(archive.len());
    let size = small(directory.len());
    let count = (files.len() as u16).to_le_bytes();
    archive.extend_from_slice(&directory);
    archive.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    archive.extend_from_slice(&count);
    archive.extend_from_slice(&count);
    archive.extend_from_slice(&size.to_le_bytes());
    archive.extend_from_slice(&start.to_le_bytes());
    archive.extend_from_slice(&[0, 0]);
    archive
}

/// Lengths here are at most some thousand bytes.
fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// CRC-32, as in ZIP.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |state: u32, byte: &u8| {
        (0..8).fold(state ^ u32::from(*byte), |state, _| {
            (state >> 1) ^ (0xedb8_8320 & (state & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_of_the_check_string_matches() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn python_reads_the_archive() {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), "the token").expect("written");
        let wheel = folder.path().join(format!("{NAME}-1.0-py3-none-any.whl"));
        let output = std::process::Command::new("python3")
            .args(["-m", "zipfile", "--test"])
            .arg(&wheel)
            .output()
            .expect("the host has a Python");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("Done"), "{text}");
    }
}
