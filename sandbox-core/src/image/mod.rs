//! Images: how they are named, which of them may be used, and what is told of them.

mod info;
mod pattern;
mod reference;
mod request;

pub use info::{ImageEvent, ImageInfo, ImageProgress};
pub use pattern::ImagePattern;
pub use reference::ImageReference;
pub use request::{BuildRequest, ImageRetention, PullPolicy};
