//! The images for a cluster's nodes, which take whole archives of images instead of a file system to import.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::cache::Cache;
use super::recipe::{Name, Recipe};
use crate::failure::{Failure, Result};
use crate::lock::Lock;
use crate::places;

/// An image for a cluster's nodes.
#[derive(Debug)]
pub struct Image {
    /// Short name.
    pub name: String,
    /// Changes with its files and its configuration.
    pub hash: String,
    /// The names that it goes by.
    pub references: Vec<&'static str>,
    /// Its files, as a tar archive.
    pub layer: PathBuf,
    /// Its configuration, as images hold it.
    pub environment: Value,
}

/// All test images.
///
/// # Errors
/// When the files of one cannot be made.
pub fn all() -> Result<Vec<Image>> {
    let folder = places::cache_folder("images")?;
    let _lock = Lock::acquire(&folder)?;
    let mut cache = Cache::new(folder, false, None);
    let image = |name: &Name| {
        let recipe = name.recipe();
        Ok(Image {
            name: short_name(&recipe).to_owned(),
            hash: recipe.hash(),
            references: std::iter::once(recipe.reference)
                .chain(recipe.alias)
                .collect(),
            layer: cache.archive(&recipe.contents)?,
            environment: configuration(&recipe)?,
        })
    };
    Name::value_variants().iter().map(image).collect()
}

/// The reference without what stands in front of it and behind it.
fn short_name(recipe: &Recipe) -> &'static str {
    let name = recipe.reference.rsplit('/').next().unwrap_or_default();
    name.split(':').next().unwrap_or_default()
}

/// Instructions of a Dockerfile as an image's configuration.
fn configuration(recipe: &Recipe) -> Result<Value> {
    let mut environment: Vec<&str> = Vec::new();
    let mut fields = Map::new();
    for line in &recipe.changes {
        let unknown = || Failure::new(format!("{}: {line:?} is unknown", recipe.reference));
        let (word, rest) = line.split_once(' ').ok_or_else(unknown)?;
        let list = || serde_json::from_str::<Value>(rest).map_err(|_| unknown());
        match word {
            "ENV" => environment.push(rest),
            "CMD" => drop(fields.insert("Cmd".into(), list()?)),
            "ENTRYPOINT" => drop(fields.insert("Entrypoint".into(), list()?)),
            "USER" => drop(fields.insert("User".into(), rest.into())),
            "WORKDIR" => drop(fields.insert("WorkingDir".into(), rest.into())),
            _ => return Err(unknown()),
        }
    }
    fields.insert("Env".into(), json!(environment));
    Ok(Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_become_a_configuration() {
        let user = configuration(&Name::BusyboxUser.recipe()).expect("configuration");
        assert_eq!(user["User"], "1000:1000");
        assert_eq!(user["WorkingDir"], "/home/guest");
        assert_eq!(user["Cmd"], json!(["image-command"]));
        assert_eq!(user["Env"].as_array().map(Vec::len), Some(2));
        let mut recipe = Name::Busybox.recipe();
        recipe.changes = vec!["VOLUME /x"];
        assert!(configuration(&recipe).is_err());
        assert_eq!(short_name(&recipe), "busybox");
    }
}
