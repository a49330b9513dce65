//! The four requests that images need: look, import, tag, remove.

use std::fs::File;
use std::path::Path;

use serde_json::Value;

use super::recipe::{LABEL, Recipe};
use crate::failure::{Context, Failure, Result};
use crate::http::{Body, Client, Response, encode};

/// An engine that speaks Docker's API.
#[derive(Debug)]
pub struct Engine {
    name: &'static str,
    client: Client,
}

/// An image that the engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its content's digest.
    pub id: String,
    /// The hash of the recipe that it was built from, for an image of ours.
    pub recipe: Option<String>,
}

impl Engine {
    /// The engine behind `client`, which tasks call `name`.
    pub fn new(name: &'static str, client: Client) -> Self {
        Self { name, client }
    }

    /// What tasks call it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The image called `reference`, or `None` where the engine has none.
    ///
    /// # Errors
    /// When the engine fails or answers with something else than an image.
    pub fn inspect(&self, reference: &str) -> Result<Option<Image>> {
        let doing = || format!("cannot look for the image {reference}");
        // The slashes of a reference stay as they are: the engine matches them as a path.
        let answer = self
            .client
            .get(&format!("/images/{reference}/json"))
            .context(doing)?;
        if answer.status == 404 {
            return Ok(None);
        }
        let answer = successful(answer, doing)?;
        let description: Value = serde_json::from_slice(&answer.body).context(doing)?;
        let id = description["Id"]
            .as_str()
            .ok_or_else(|| Failure::new(format!("{}: the answer has no Id", doing())))?;
        let recipe = description["Config"]["Labels"][LABEL]
            .as_str()
            .map(str::to_owned);
        Ok(Some(Image {
            id: id.to_owned(),
            recipe,
        }))
    }

    /// Makes an image out of `archive` with the recipe's configuration and the label `hash`, and
    /// returns its identifier.
    ///
    /// # Errors
    /// When the archive cannot be read, or the engine refuses it.
    pub fn import(&self, archive: &Path, recipe: &Recipe, hash: &str) -> Result<String> {
        let doing = || {
            format!(
                "cannot import {} as {}",
                archive.display(),
                recipe.reference
            )
        };
        let mut file = File::open(archive).context(doing)?;
        let length = file.metadata().context(doing)?.len();
        let (repository, tag) = split(recipe.reference);
        let label = format!("LABEL {LABEL}={hash}");
        let changes = recipe.changes.iter().copied().chain([label.as_str()]);
        let changes: String = changes
            .map(|text| format!("&changes={}", encode(text)))
            .collect();
        let target = format!(
            "/images/create?fromSrc=-&repo={}&tag={}{changes}",
            encode(repository),
            encode(tag)
        );
        let body = Body::Tar {
            length,
            reader: &mut file,
        };
        let answer = successful(
            self.client.send("POST", &target, body).context(doing)?,
            doing,
        )?;
        imported(&answer.body).map_err(|reason| Failure::new(format!("{}: {reason}", doing())))
    }

    /// Gives the image `id` one more name.
    ///
    /// # Errors
    /// When the engine refuses it.
    pub fn tag(&self, id: &str, reference: &str) -> Result<()> {
        let doing = || format!("cannot tag {id} as {reference}");
        let (repository, tag) = split(reference);
        let target = format!(
            "/images/{id}/tag?repo={}&tag={}",
            encode(repository),
            encode(tag)
        );
        successful(
            self.client
                .send("POST", &target, Body::Empty)
                .context(doing)?,
            doing,
        )?;
        Ok(())
    }

    /// Removes the image `id`, unless it has another name or a container uses it; says whether it
    /// is gone.
    ///
    /// # Errors
    /// When the engine fails for another reason.
    pub fn remove_unused(&self, id: &str) -> Result<bool> {
        let doing = || format!("cannot remove the image {id}");
        let target = format!("/images/{id}");
        let answer = self
            .client
            .send("DELETE", &target, Body::Empty)
            .context(doing)?;
        match answer.status {
            404 => Ok(true),
            409 => Ok(false),
            _ => successful(answer, doing).map(|_| true),
        }
    }
}

fn successful(answer: Response, doing: impl FnOnce() -> String) -> Result<Response> {
    if answer.is_success() {
        Ok(answer)
    } else {
        Err(Failure::new(format!(
            "{}: {}",
            doing(),
            answer.error_message()
        )))
    }
}

fn split(reference: &str) -> (&str, &str) {
    reference.rsplit_once(':').unwrap_or((reference, "latest"))
}

/// The identifier out of an import's progress: JSON objects in a row, the last of which says what
/// came of it. The status is 200 whatever that is, because it was sent before the work was done.
fn imported(progress: &[u8]) -> std::result::Result<String, String> {
    let mut id = None;
    for event in serde_json::Deserializer::from_slice(progress).into_iter::<Value>() {
        let event = event.map_err(|error| format!("unreadable progress: {error}"))?;
        if let Some(error) = event["error"].as_str() {
            return Err(error.to_owned());
        }
        if let Some(status) = event["status"]
            .as_str()
            .filter(|text| text.starts_with("sha256:"))
        {
            id = Some(status.to_owned());
        }
    }
    id.ok_or_else(|| "the engine named no image at the end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_within_a_successful_answer_is_an_error() {
        let progress = b"{\"status\":\"Importing\"}\r\n{\"errorDetail\":{},\"error\":\"no space\"}";
        assert_eq!(imported(progress), Err("no space".to_owned()));
        assert_eq!(
            imported(b"{\"status\":\"x\"}{\"status\":\"sha256:ab\"}\n"),
            Ok("sha256:ab".to_owned())
        );
        assert!(imported(b"").is_err());
        assert!(imported(b"{\"status\":\"sha").is_err());
    }

    #[test]
    fn a_reference_has_a_repository_and_a_tag() {
        assert_eq!(split("python:3.11-slim"), ("python", "3.11-slim"));
        assert_eq!(split("a/b"), ("a/b", "latest"));
    }
}
