//! The results of one operation on several sandboxes or images.

use serde::Serialize;

use crate::command_error::{CommandError, ErrorObject, Outcome};
use crate::exit::Exit;
use crate::output::{Format, print, print_json};

/// The results of one operation on several sandboxes or images.
#[derive(Debug)]
pub struct BatchReport {
    /// The name of the list in JSON.
    list_name: &'static str,
    items: Vec<BatchItem>,
    /// Errors of tiers that did not answer.
    errors: Vec<ErrorObject>,
}

impl Default for BatchReport {
    fn default() -> Self {
        Self::new("sandboxes")
    }
}

#[derive(Debug, Serialize)]
struct BatchItem {
    name: String,
    /// Why the operation failed.
    error: Option<ErrorObject>,
}

impl BatchReport {
    /// An empty report.
    pub fn new(list_name: &'static str) -> Self {
        Self {
            list_name,
            items: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Adds a result, and prints it immediately in text format.
    pub fn add(
        &mut self,
        format: Format,
        name: &str,
        result: Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let error = result.err();
        if format == Format::Text {
            match &error {
                None => print(&format!("{name}\n"))?,
                Some(failure) => {
                    failure.report(Format::Text);
                }
            }
        }
        self.items.push(BatchItem {
            name: name.to_owned(),
            error: error.map(CommandError::into_object),
        });
        Ok(())
    }

    /// Adds the error of a tier that did not answer, and prints it immediately in text format.
    pub fn add_tier_error(&mut self, format: Format, failure: CommandError) {
        if format == Format::Text {
            failure.report(Format::Text);
        }
        self.errors.push(failure.into_object());
    }

    /// Prints the JSON document, and returns the exit code.
    pub fn finish(&self, format: Format) -> Outcome {
        if format == Format::Json {
            let mut document = serde_json::Map::new();
            let value = |value: Result<_, serde_json::Error>| {
                value.map_err(|error| CommandError::io("write JSON", &error.into()))
            };
            document.insert(
                self.list_name.to_owned(),
                value(serde_json::to_value(&self.items))?,
            );
            if !self.errors.is_empty() {
                let errors = value(serde_json::to_value(&self.errors))?;
                document.insert("errors".to_owned(), errors);
            }
            print_json(&document)?;
        }
        let failed = self.items.iter().any(|item| item.error.is_some());
        Ok(if failed { Exit::FAILED } else { Exit::SUCCESS })
    }
}
