//! One run of a guest, without acceleration, so that it works where virtual machines cannot be nested.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::image::{Image, make_disk};
use crate::apt;
use crate::failure::{Context, Failure, Result};
use crate::programs;

const EMULATOR: &str = "qemu-system-x86_64";
/// Bytes of the disk that a guest writes its results to.
const RESULTS: u64 = 16 << 20;
/// What the kernel is told. A panic ends the machine; what slows an emulated processor down is left out.
const KERNEL: &str =
    "console=ttyS0 root=/dev/vda rw quiet panic=-1 mitigations=off systemd.show_status=0";

/// A machine that has ended by itself.
#[derive(Debug)]
pub struct Run {
    /// What it has written on its console.
    pub console: Vec<String>,
    /// An archive, if the guest has written one.
    pub results: PathBuf,
}

/// Runs a guest on `files`, whose program `run` its root executes, for at most `limit`. `line` is given the console as it comes.
///
/// # Errors
/// When the emulator is missing or fails, or the time is over.
pub fn run(
    image: &Image,
    files: &Path,
    scratch: &Path,
    limit: Duration,
    line: &mut dyn FnMut(&str),
) -> Result<Run> {
    let emulator = match programs::find(EMULATOR) {
        Some(emulator) => emulator,
        None => {
            apt::install(&["qemu-system-x86"])?;
            programs::find(EMULATOR)
                .ok_or_else(|| Failure::new(format!("{EMULATOR} is not there after all")))?
        }
    };
    let work = scratch.join("work");
    let megabytes = (size(files)? >> 20) * 5 / 4 + 32;
    make_disk(files, &work, &format!("{megabytes}M"))?;
    let results = scratch.join("results");
    File::create(&results)
        .and_then(|file| file.set_len(RESULTS))
        .context(|| format!("cannot create {}", results.display()))?;
    let mut command = Command::new(emulator);
    command
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args([
            "-machine",
            "q35",
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max",
        ])
        .args([
            "-smp", "2", "-m", "2048", "-display", "none", "-serial", "stdio",
        ])
        .arg("-kernel")
        .arg(&image.kernel)
        .arg("-initrd")
        .arg(&image.initrd)
        .args(["-append", KERNEL]);
    // What a guest writes to the first two is forgotten.
    for (name, path, snapshot) in [
        ("system", &image.disk, "on"),
        ("work", &work, "on"),
        ("results", &results, "off"),
    ] {
        let path = path.display().to_string().replace(',', ",,");
        let drive = format!("if=none,id={name},format=raw,snapshot={snapshot},file={path}");
        command.args(["-drive", &drive]);
        command.args(["-device", &format!("virtio-blk-pci,drive={name}")]);
    }
    let mut console = Vec::new();
    let mut limited = Command::new("timeout");
    limited.arg(limit.as_secs().to_string());
    limited.arg(command.get_program()).args(command.get_args());
    let mut child = limited
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context(|| "cannot start the guest".to_owned())?;
    for text in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).split(b'\n'))
    {
        let text = text.context(|| "cannot read the guest's console".to_owned())?;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_end_matches('\r');
        line(text);
        console.push(text.to_owned());
    }
    let status = child
        .wait()
        .context(|| "cannot wait for the guest".to_owned())?;
    if !status.success() {
        return Err(Failure::new(format!("the guest ended with {status}")));
    }
    Ok(Run { console, results })
}

fn size(folder: &Path) -> Result<u64> {
    let doing = || format!("cannot read {}", folder.display());
    let mut sum = 0;
    for entry in fs::read_dir(folder).context(doing)? {
        let entry = entry.context(doing)?;
        let data = entry.metadata().context(doing)?;
        sum += match data.is_dir() {
            true => size(&entry.path())?,
            // A block at least.
            false => data.len() + 4096,
        };
    }
    Ok(sum)
}
