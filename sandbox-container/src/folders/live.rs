//! Finds which host folders the code of running sandboxes can write to, by their containers'
//! labels.

use sandbox_core::Result;
use sandbox_host::safe_path::{Identity, Opened};

use crate::Tier;
use crate::engine::Engine;
use crate::labels;

/// A running sandbox, and the host folders that its code can write to.
#[derive(Debug)]
pub(super) struct Writer {
    pub name: String,
    written: Vec<Identity>,
}

impl Writer {
    /// Whether its code could replace a parent of this folder. Sharing the folder itself is
    /// allowed.
    pub(super) fn reaches(&self, opened: &Opened) -> bool {
        let above = opened.way().split_last().map(|(_, above)| above);
        above.is_some_and(|above| above.iter().any(|folder| self.written.contains(folder)))
    }
}

/// The sandboxes of an engine whose code can write to host folders.
///
/// # Errors
///
/// The engine cannot list its containers.
pub(super) async fn writers(tier: Tier, engine: &Engine) -> Result<Vec<Writer>> {
    let found = engine.list(tier, &[labels::WRITTEN.to_owned()]).await?;
    let found = found.into_iter().filter(|container| container.runs);
    let writers = found.filter_map(|container| {
        let name = container.labels.get(labels::NAME).cloned();
        Some(Writer {
            name: name.unwrap_or_default(),
            written: read(container.labels.get(labels::WRITTEN)?),
        })
    });
    Ok(writers.collect())
}

/// Encodes folders as a label value; `None` if there are none.
pub(crate) fn label(written: &[Identity]) -> Option<String> {
    let texts = written.iter();
    let texts = texts.map(|it| format!("{:x}:{:x}", it.device, it.inode));
    (!written.is_empty()).then(|| texts.collect::<Vec<_>>().join(" "))
}

/// Decodes a label value. Invalid entries are skipped: the agent compares folders anyway.
fn read(label: &str) -> Vec<Identity> {
    let number = |text| u64::from_str_radix(text, 16).ok();
    let folders = label.split(' ').filter_map(|text| {
        let (device, inode) = text.split_once(':')?;
        Some(Identity {
            device: number(device)?,
            inode: number(inode)?,
        })
    });
    folders.collect()
}

#[cfg(test)]
mod tests {
    use sandbox_host::safe_path::LinkRule;

    use super::*;

    #[test]
    fn a_label_holds_folders() {
        let folders = [(0xfe01, 2), (u64::MAX, 77)];
        let folders = folders.map(|(device, inode)| Identity { device, inode });
        let text = label(&folders).expect("a label");
        assert_eq!(read(&text), folders);
        assert_eq!(label(&[]), None);
        assert_eq!(read("no folder"), []);
    }

    #[test]
    fn what_lies_in_a_folder_is_reached_and_the_folder_itself_is_not() {
        let place = tempfile::tempdir().expect("a folder");
        let base = place.path().canonicalize().expect("a path");
        std::fs::create_dir_all(base.join("work/sub/deep")).expect("made");
        std::fs::create_dir(base.join("other")).expect("made");
        let open = |path: &str| LinkRule::default().open(&base.join(path)).expect(path);
        let writer = Writer {
            name: "other".into(),
            written: vec![open("work").identity()],
        };
        for (path, reached) in [
            ("work/sub", true),
            ("work/sub/deep", true),
            ("work", false),
            ("other", false),
        ] {
            assert_eq!(writer.reaches(&open(path)), reached, "{path}");
        }
    }
}
