//! Results of cells, as results of tools.

use sandbox::{Captured, CellOutcome, CellResult, Display, Lost, MimeData, SessionState};
use serde_json::{Map, Value, json};

use crate::mcp::content;
use crate::mcp::execution::{ToolReport, brief, millis};
use crate::mcp::store::ClientStore;

const PLAIN: &str = "text/plain";

/// How many displays of a cell a result has.
const MAX_DISPLAYS: usize = 32;

/// The longest name of a type that a result has, in bytes.
const MAX_TYPE: usize = 100;

impl ToolReport {
    /// What became of a cell.
    pub fn cell(&mut self, store: &ClientStore, cell: &CellResult) {
        if let Some(lost) = &cell.lost_before {
            self.line(&format!("before this cell, {}", loss(lost)));
        }
        let stdout = self.stream(store, "stdout", &cell.stdout);
        let stderr = self.titled(store, "stderr", &cell.stderr);
        let displays = self.displays(store, cell);
        match &cell.outcome {
            CellOutcome::Died { details, .. } => {
                let details = self.titled(store, "details", &whole(details));
                self.set("details", details);
            }
            _ => {
                if let Some(error) = cell.error() {
                    let traceback = self.titled(store, "traceback", &whole(&error.traceback));
                    let (name, message) = (brief(&error.name), brief(&error.message));
                    let error = json!({ "name": name, "message": message, "traceback": traceback });
                    self.set("raised", error);
                }
            }
        }
        self.line(&brief(&cell.outcome.to_string()));
        let (state, lost) = match &cell.session {
            SessionState::Restarted(lost) => {
                self.line(&format!("session restarted: {}", loss(lost)));
                ("restarted", Some(lost))
            }
            _ => {
                self.line("session kept");
                ("kept", None)
            }
        };
        for (name, value) in [
            ("cell", json!(cell.cell)),
            ("outcome", outcome(&cell.outcome)),
            ("stdout", stdout),
            ("stderr", stderr),
            ("displays", displays),
            ("session", json!(state)),
            ("lost", json!(lost.map(lost_fields))),
            (
                "lost_before",
                json!(cell.lost_before.as_ref().map(lost_fields)),
            ),
            ("duration_ms", json!(millis(cell.duration))),
        ] {
            self.set(name, value);
        }
    }

    /// Adds the value of the cell and what it displayed. Images follow the text while there is
    /// room; what else the values look like is kept. Returns the structured form of displays.
    fn displays(&mut self, store: &ClientStore, cell: &CellResult) -> Value {
        let texts = |displays: &[Display]| {
            let texts = displays.iter().filter_map(|display| display.text(PLAIN));
            texts.map(|text| format!("{text}\n")).collect::<String>()
        };
        self.titled(store, "displays", &whole(&texts(&cell.displays)));
        let mut room = content::MAX_IMAGES.as_u64();
        let shown = cell.displays.iter().take(MAX_DISPLAYS);
        let shown = shown.map(|display| self.representations(store, display, &mut room));
        let shown = shown.collect::<Vec<_>>();
        let left_out = cell.displays_omitted + (cell.displays.len() - shown.len()) as u64;
        if left_out > 0 {
            self.line(&format!("{left_out} more displays are left out"));
        }
        self.set("displays_omitted", json!(left_out));
        if let Some(value) = &cell.result {
            let plain = value.text(PLAIN).unwrap_or_default();
            let text = self.titled(store, "value", &whole(plain));
            let mut fields = self.representations(store, value, &mut room);
            fields["text"] = text;
            self.set("value", fields);
        } else {
            self.set("value", Value::Null);
        }
        json!(shown)
    }

    fn representations(&mut self, store: &ClientStore, display: &Display, room: &mut u64) -> Value {
        let mut resources = Map::new();
        for (mime, data) in &display.data {
            // The names come from the code.
            if mime == PLAIN || !is_media_type(mime) {
                continue;
            }
            let json;
            let bytes = match data {
                MimeData::Text(text) => text.as_bytes(),
                MimeData::Bytes(bytes) => bytes,
                MimeData::Json(value) => {
                    json = value.to_string();
                    json.as_bytes()
                }
                // A form that this version does not know.
                _ => continue,
            };
            if bytes.len() as u64 <= *room
                && let Some(image) = content::image(bytes)
            {
                *room -= bytes.len() as u64;
                self.attach(image);
                resources.insert(mime.clone(), Value::Null);
            } else {
                let item = store.kept().add_output("display", mime, bytes);
                self.attach(content::link(&item));
                resources.insert(mime.clone(), json!(item.uri));
            }
        }
        let omitted = display.omitted.iter();
        let omitted = omitted.filter(|(mime, _)| is_media_type(mime));
        let omitted = omitted.map(|(mime, size)| (mime.clone(), json!(size)));
        json!({ "resources": resources, "omitted": omitted.collect::<Map<_, _>>() })
    }

    /// As `stream`, with a title if there is something.
    fn titled(&mut self, store: &ClientStore, name: &str, captured: &Captured) -> Value {
        if !captured.bytes.is_empty() {
            self.line(&format!("{name}:"));
        }
        self.stream(store, name, captured)
    }
}

fn whole(text: &str) -> Captured {
    Captured {
        bytes: text.into(),
        total: text.len() as u64,
    }
}

fn is_media_type(name: &str) -> bool {
    let is_part = |part: &str| {
        let mut bytes = part.bytes();
        !part.is_empty()
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || b".+-_".contains(&byte))
    };
    let parts = name.split_once('/');
    name.len() <= MAX_TYPE && parts.is_some_and(|(one, other)| is_part(one) && is_part(other))
}

/// What the outcome has besides its error, which is a field of its own.
fn outcome(outcome: &CellOutcome) -> Value {
    match outcome {
        CellOutcome::Completed => json!({ "kind": "completed" }),
        CellOutcome::Raised(_) => json!({ "kind": "raised" }),
        CellOutcome::Failed { status } => json!({ "kind": "failed", "status": status }),
        CellOutcome::TimedOut { .. } => json!({ "kind": "timed_out" }),
        CellOutcome::Died { outcome, .. } => json!({ "kind": "died", "outcome": outcome }),
        CellOutcome::Broken { reason } => json!({ "kind": "broken", "reason": brief(reason) }),
        other => json!({ "kind": brief(&other.to_string()) }),
    }
}

fn loss(lost: &Lost) -> String {
    let mut text = match lost.variables {
        0 => "no variables were lost".to_owned(),
        1 => "1 variable was lost".to_owned(),
        number => format!("{number} variables were lost"),
    };
    if !lost.names.is_empty() {
        text += &format!(" ({})", brief(&lost.names.join(", ")));
    }
    format!("{text}, files were not: {}", brief(&lost.reason))
}

fn lost_fields(lost: &Lost) -> Value {
    let names = lost.names.iter().map(|name| brief(name));
    json!({
        "reason": brief(&lost.reason),
        "variables": lost.variables,
        "names": names.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_are_checked() {
        for good in ["image/svg+xml", "application/vnd.plotly.v1+json"] {
            assert!(is_media_type(good), "{good}");
        }
        let long = format!("a/{}", "b".repeat(MAX_TYPE));
        for bad in [
            "",
            "text",
            "a/b/c",
            "/",
            "text/",
            "te xt/html",
            "text/h\n",
            &long,
        ] {
            assert!(!is_media_type(bad), "{bad}");
        }
    }
}
