//! Values that other packages keep with a sandbox.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One value for each type.
#[derive(Debug, Default)]
pub(crate) struct Extensions(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Extensions {
    /// The value of this type. The first call creates it.
    pub(crate) fn get<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        let value = Arc::clone(value).downcast::<T>();
        value.expect("the value is stored under its own type")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_a_type_is_created_once() {
        let extensions = Extensions::default();
        *extensions.get::<Mutex<u8>>().lock().unwrap() = 7;
        *extensions.get::<Mutex<u16>>().lock().unwrap() = 8;
        assert_eq!(*extensions.get::<Mutex<u8>>().lock().unwrap(), 7);
    }
}
