//! Results of tools: text for a model, and the same as structured content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use sandbox::spi::escape;
use sandbox::{ByteSize, Error};
use serde_json::{Value, json};

use crate::mcp::kept::KeptItem;

/// The size of all images in a result. Some clients take messages of at most 1 MiB by default, and
/// base64 adds a third.
pub const MAX_IMAGES: ByteSize = ByteSize::kib(512);

/// The images that clients show.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A result with a text, its structured form, and further content.
pub fn result(text: String, structured: Value, more: Vec<ContentBlock>) -> CallToolResult {
    let mut content = vec![ContentBlock::text(text)];
    content.extend(more);
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(structured);
    result
}

/// An error of the library as the error of a tool.
pub fn error(error: &Error) -> CallToolResult {
    let mut text = error.to_string();
    for denial in error.denials() {
        text += &format!("\n{denial}");
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json!({
        "error": {
            "kind": error.kind().as_str(),
            "message": error.to_string(),
            "fix": error.fix(),
            "denials": error.denials(),
            "unmet": error.unmet(),
        }
    }));
    result
}

/// These bytes as an image, if they are one that clients show.
pub fn image(bytes: &[u8]) -> Option<ContentBlock> {
    let media_type = infer::get(bytes)?.mime_type();
    IMAGES
        .contains(&media_type)
        .then(|| ContentBlock::image(STANDARD.encode(bytes), media_type))
}

/// A link to what is kept.
pub fn link(item: &KeptItem) -> ContentBlock {
    ContentBlock::resource_link(resource(item))
}

/// What is kept, as a resource.
pub fn resource(item: &KeptItem) -> Resource {
    let resource = Resource::new(&item.uri, escape(&item.name)).with_size(item.size);
    match &item.media_type {
        Some(media_type) => resource.with_mime_type(media_type),
        None => resource,
    }
}
