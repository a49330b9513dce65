//! Bodies of requests that the host reads as a whole: those with secrets in them, and those whose
//! hash is signed.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The longest of them. The largest requests of AWS whose hash is in no header are batches of
/// DynamoDB, of at most 16 MiB.
pub(super) const MAX_WHOLE_BODY: usize = 16 << 20;

/// What those of one sandbox may have at once, in [`UNIT`]s: 64 MiB. Other requests wait.
const MAX_UNITS: usize = (64 << 20) / UNIT;

const UNIT: usize = 1024;

/// The memory of a sandbox for such bodies.
pub(super) struct Bodies(Semaphore);

/// Why a body was not read.
#[derive(Debug)]
pub(super) enum BodyError {
    /// It is longer than [`MAX_WHOLE_BODY`].
    TooLong,
    /// The code's side failed.
    Failed(String),
}

impl Default for Bodies {
    fn default() -> Self {
        Self(Semaphore::new(MAX_UNITS))
    }
}

impl Bodies {
    /// Whether a body is not known to be longer than [`MAX_WHOLE_BODY`].
    pub(super) fn may_read(body: &impl Body) -> bool {
        let longest = body.size_hint().upper();
        longest.is_none_or(|longest| longest <= MAX_WHOLE_BODY as u64)
    }

    /// Reads a body. Its memory is accounted for as long as the permit lives.
    pub(super) async fn read<B>(
        &self,
        mut body: B,
    ) -> Result<(Bytes, SemaphorePermit<'_>), BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: ToString,
    {
        let failed = |error: &dyn ToString| BodyError::Failed(error.to_string());
        if !Self::may_read(&body) {
            return Err(BodyError::TooLong);
        }
        // A chunked body has no upper bound.
        let longest = body.size_hint().upper();
        let longest = longest.map_or(MAX_WHOLE_BODY, |longest| longest as usize);
        // At most MAX_WHOLE_BODY / UNIT.
        let units = longest.div_ceil(UNIT).max(1) as u32;
        let permit = self.0.acquire_many(units).await;
        let permit = permit.map_err(|error| failed(&error))?;
        // Small chunks are copied together: each would keep a buffer of the connection.
        let mut whole = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| failed(&error))?;
            if let Ok(data) = frame.into_data() {
                if whole.len() + data.len() > MAX_WHOLE_BODY {
                    return Err(BodyError::TooLong);
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok((whole.into(), permit))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn bodies_wait_for_the_memory_of_others() {
        let bodies = Bodies(Semaphore::new(3));
        let body = |length| Full::from(vec![b'x'; length]);
        let (first, permit) = bodies.read(body(2 * UNIT)).await.unwrap();
        assert_eq!(first.len(), 2 * UNIT);
        let mut second = pin!(bodies.read(body(UNIT + 1)));
        tokio::select! {
            biased;
            _ = &mut second => panic!("it has memory of the first"),
            () = tokio::task::yield_now() => {}
        }
        drop(permit);
        assert_eq!(second.await.unwrap().0.len(), UNIT + 1);
    }

    #[tokio::test]
    async fn longest_body_is_read_and_a_longer_one_is_not() {
        let bodies = Bodies::default();
        let body = |length| Full::from(vec![b'x'; length]);
        let (longest, _permit) = bodies.read(body(MAX_WHOLE_BODY)).await.unwrap();
        assert_eq!(longest.len(), MAX_WHOLE_BODY);
        let longer = bodies.read(body(MAX_WHOLE_BODY + 1)).await;
        assert!(matches!(longer, Err(BodyError::TooLong)), "{longer:?}");
    }
}
