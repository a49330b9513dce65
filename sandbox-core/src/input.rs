//! The input of a running execution: standard input, and orders.

use std::fmt;

use tokio::sync::mpsc;

use crate::spi::Source;

/// The maximum number of orders that wait for a backend.
const MAX_PENDING_ORDERS: usize = 16;

/// What the caller asks of a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Send this signal, 1 to 64, to the main process.
    Signal(u8),
    /// Kill the whole process tree.
    Kill,
}

/// The orders of one execution, oldest first.
#[derive(Debug, Default)]
pub struct Orders(Option<mpsc::Receiver<Order>>);

impl Orders {
    /// Creates a queue of orders and its sender.
    pub(crate) fn channel() -> (mpsc::Sender<Order>, Self) {
        let (sender, receiver) = mpsc::channel(MAX_PENDING_ORDERS);
        (sender, Self(Some(receiver)))
    }

    /// Waits for the next order. Never returns after the last sender is dropped. Dropping the
    /// future loses nothing.
    pub async fn next(&mut self) -> Order {
        if let Some(orders) = &mut self.0 {
            if let Some(order) = orders.recv().await {
                return order;
            }
            self.0 = None;
        }
        std::future::pending().await
    }
}

/// The input of a running execution.
#[derive(Default)]
#[non_exhaustive]
pub struct Input {
    /// Standard input; `None` if it is empty.
    pub stdin: Option<Source>,
    /// Orders.
    pub orders: Orders,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("stdin", &self.stdin.is_some())
            .field("orders", &self.orders)
            .finish()
    }
}

impl Input {
    pub(crate) fn new(stdin: Option<Source>, orders: Orders) -> Self {
        Self { stdin, orders }
    }
}

impl From<Option<Source>> for Input {
    /// Standard input without orders.
    fn from(stdin: Option<Source>) -> Self {
        Self::new(stdin, Orders::default())
    }
}
