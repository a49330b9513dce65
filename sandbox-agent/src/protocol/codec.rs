//! The encoding of fields: little-endian integers, and bytes after a 32-bit length.

use alloc::vec::Vec;

use super::{MAX_ITEMS, ProtocolError};

/// Appends fields to a message.
#[derive(Debug, Default)]
pub struct MessageWriter {
    bytes: Vec<u8>,
}

impl MessageWriter {
    /// An empty message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    /// Appends a boolean as 0 or 1.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.u8(u8::from(value))
    }

    /// Appends a 16-bit integer.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a 32-bit integer.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a signed 32-bit integer.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a 64-bit integer.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends whether a number follows, and the number.
    pub fn optional_u64(&mut self, value: Option<u64>) -> &mut Self {
        self.bool(value.is_some());
        if let Some(value) = value {
            self.u64(value);
        }
        self
    }

    /// Appends a length and the bytes.
    ///
    /// # Panics
    ///
    /// Never for fields below 4 GiB, which is far above [`super::MAX_MESSAGE`].
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        let length = u32::try_from(value.len()).expect("a field is far below 4 GiB");
        self.u32(length);
        self.bytes.extend_from_slice(value);
        self
    }

    /// Appends a list: its length, then each item with `write`.
    ///
    /// # Panics
    ///
    /// Never for lists below 2^32 items.
    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.u32(u32::try_from(items.len()).expect("a list is far below 2^32 items"));
        for item in items {
            write(self, item);
        }
        self
    }

    /// Returns the message.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads the fields of a message. It never reads past the end, and never allocates memory for bytes
/// that are not there.
#[derive(Debug, Clone)]
pub struct MessageReader<'a> {
    rest: &'a [u8],
}

impl<'a> MessageReader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], ProtocolError> {
        if count > self.rest.len() {
            return Err(ProtocolError::Truncated);
        }
        let (head, tail) = self.rest.split_at(count);
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        self.take(N)?
            .try_into()
            .map_err(|_| ProtocolError::Truncated)
    }

    /// Reads the protocol version.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Version`] for any but [`VERSION`](super::VERSION).
    pub fn version(&mut self) -> Result<(), ProtocolError> {
        match self.u16()? {
            super::VERSION => Ok(()),
            other => Err(ProtocolError::Version(other)),
        }
    }

    /// Reads one byte.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Truncated`] at the end, as for every other field.
    pub fn u8(&mut self) -> Result<u8, ProtocolError> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a boolean.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::BadValue`] for anything but 0 and 1.
    pub fn bool(&mut self) -> Result<bool, ProtocolError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ProtocolError::BadValue("truth value")),
        }
    }

    /// Reads an optional number.
    ///
    /// # Errors
    ///
    /// As [`MessageReader::bool`].
    pub fn optional_u64(&mut self) -> Result<Option<u64>, ProtocolError> {
        self.bool()?.then(|| self.u64()).transpose()
    }

    /// Reads a 16-bit integer.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Truncated`].
    pub fn u16(&mut self) -> Result<u16, ProtocolError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads a 32-bit integer.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Truncated`].
    pub fn u32(&mut self) -> Result<u32, ProtocolError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a signed 32-bit integer.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Truncated`].
    pub fn i32(&mut self) -> Result<i32, ProtocolError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// Reads a 64-bit integer.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Truncated`].
    pub fn u64(&mut self) -> Result<u64, ProtocolError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a length and the bytes.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Truncated`] if the length exceeds the message.
    pub fn bytes(&mut self) -> Result<&'a [u8], ProtocolError> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    /// Reads a list; `read` reads each item.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::TooLarge`] for more than [`MAX_ITEMS`] items, and whatever `read` finds.
    pub fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, ProtocolError>,
    ) -> Result<Vec<T>, ProtocolError> {
        let count = self.u32()? as usize;
        if count > MAX_ITEMS {
            return Err(ProtocolError::TooLarge("list"));
        }
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// Checks that the message ends here.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::TrailingBytes`] if it does not.
    pub fn end(self) -> Result<(), ProtocolError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ProtocolError::TrailingBytes)
        }
    }
}
