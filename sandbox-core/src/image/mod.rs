//! Images: their names, which of them a policy allows, and information about them.

mod info;
mod pattern;
mod reference;
mod request;

pub use info::{ImageEvent, ImageInfo, ImageProgress};
pub use pattern::ImagePattern;
pub use reference::ImageReference;
pub use request::{BuildRequest, ImageRetention, PullPolicy};
