//! Finds which host folders the code of running sandboxes can write to, by their containers'
//! labels.

use sandbox_core::Result;
use sandbox_host::safe_path::{Identity, Opened};

use crate::Tier;
use crate::engine::Engine;
use crate::labels;

/// A running sandbox, and the host folders that its code can write to.
#[derive(Debug)]
pub(super) struct WritingSandbox {
    pub name: String,
    writable_folders: Vec<Identity>,
}

impl WritingSandbox {
    /// Whether its code could replace a parent of this folder. Sharing the folder itself is
    /// allowed.
    pub(super) fn can_replace_parent_of(&self, opened: &Opened) -> bool {
        let above = opened.way().split_last().map(|(_, above)| above);
        above.is_some_and(|above| {
            above
                .iter()
                .any(|folder| self.writable_folders.contains(folder))
        })
    }
}

/// The sandboxes of an engine whose code can write to host folders.
///
/// # Errors
///
/// The engine cannot list its containers.
pub(super) async fn writers(tier: Tier, engine: &Engine) -> Result<Vec<WritingSandbox>> {
    let containers = engine
        .list(tier, &[labels::WRITABLE_FOLDERS.to_owned()])
        .await?;
    let running = containers.into_iter().filter(|container| container.runs);
    let writers = running.filter_map(|container| {
        let name = container.labels.get(labels::NAME).cloned();
        Some(WritingSandbox {
            name: name.unwrap_or_default(),
            writable_folders: decode(container.labels.get(labels::WRITABLE_FOLDERS)?),
        })
    });
    Ok(writers.collect())
}

/// Encodes folders as a label value; `None` if there are none.
pub(crate) fn encode(writable_folders: &[Identity]) -> Option<String> {
    let texts = writable_folders.iter();
    let texts = texts.map(|it| format!("{:x}:{:x}", it.device, it.inode));
    (!writable_folders.is_empty()).then(|| texts.collect::<Vec<_>>().join(" "))
}

/// Decodes a label value. Invalid entries are skipped: the agent compares folders anyway.
fn decode(label: &str) -> Vec<Identity> {
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
    fn label_value_round_trips() {
        let folders = [(0xfe01, 2), (u64::MAX, 77)];
        let folders = folders.map(|(device, inode)| Identity { device, inode });
        let text = encode(&folders).expect("a label");
        assert_eq!(decode(&text), folders);
        assert_eq!(encode(&[]), None);
        assert_eq!(decode("no folder"), []);
    }

    #[test]
    fn only_parents_of_a_folder_count_as_replaceable() {
        let place = tempfile::tempdir().expect("a folder");
        let base = place.path().canonicalize().expect("a path");
        std::fs::create_dir_all(base.join("work/sub/deep")).expect("made");
        std::fs::create_dir(base.join("other")).expect("made");
        let open = |path: &str| LinkRule::default().open(&base.join(path)).expect(path);
        let writer = WritingSandbox {
            name: "other".into(),
            writable_folders: vec![open("work").identity()],
        };
        for (path, reached) in [
            ("work/sub", true),
            ("work/sub/deep", true),
            ("work", false),
            ("other", false),
        ] {
            assert_eq!(writer.can_replace_parent_of(&open(path)), reached, "{path}");
        }
    }
}
