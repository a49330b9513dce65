//! What is in a container: its files near the root, and its processes.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::call::own_pid;
use crate::call_result::CallResult;

/// How deep below the root [`files`] looks.
const DEPTH: usize = 3;

/// Folders of the kernel. Shared memory is a file system of the container.
const KERNELS: [&str; 2] = ["/proc", "/sys"];

/// The paths of all files near the root.
pub fn files() -> CallResult {
    let mut all = Vec::new();
    let mut folders = Vec::from([String::from("/")]);
    for _ in 0..DEPTH {
        let mut deeper = Vec::new();
        for folder in folders {
            // What cannot be listed shows nothing.
            let Ok(path) = CString::new(folder.as_str()) else {
                continue;
            };
            let _ = crate::directory::entries(&path, |entry, is_folder| {
                let path = format!("{}/{entry}", folder.trim_end_matches('/'));
                if is_folder && !KERNELS.contains(&path.as_str()) {
                    deeper.push(path.clone());
                }
                all.push(path);
            });
        }
        folders = deeper;
    }
    all.sort_unstable();
    Ok(all.join(" "))
}

/// The names of all processes but this one, and when the container's first has started.
pub fn processes() -> CallResult {
    const START: usize = 19;
    let own = own_pid() as i32;
    let mut all = Vec::new();
    for pid in crate::processes::visible()? {
        let Ok(path) = CString::new(format!("/proc/{pid}/stat")) else {
            continue;
        };
        // It may have ended meanwhile.
        let Ok(content) = crate::files::content(&path) else {
            continue;
        };
        let line = String::from_utf8_lossy(&content);
        let Some((before, after)) = line.rsplit_once(')') else {
            continue;
        };
        let name = before.split_once('(').map_or("", |(_, name)| name);
        let start = after.split_whitespace().nth(START).unwrap_or("");
        match pid {
            1 => all.push(format!("{name}@{start}")),
            _ if pid != own => all.push(String::from(name)),
            _ => {}
        }
    }
    all.sort_unstable();
    Ok(all.join(" "))
}
