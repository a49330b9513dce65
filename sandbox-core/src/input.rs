//! What goes into an execution while it runs: standard input, and orders.

use std::fmt;

use tokio::sync::mpsc;

use crate::spi::Source;

/// How many orders may wait for a backend that does not take them.
const WAITING: usize = 16;

/// Something that the caller wants of a program that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Send this signal, 1 to 64, to the main process alone.
    Signal(u8),
    /// Kill the whole tree.
    Kill,
}

/// The orders of one execution, in their order.
#[derive(Debug, Default)]
pub struct Orders(Option<mpsc::Receiver<Order>>);

impl Orders {
    /// Orders, and where they are given.
    pub(crate) fn channel() -> (mpsc::Sender<Order>, Self) {
        let (give, take) = mpsc::channel(WAITING);
        (give, Self(Some(take)))
    }

    /// Waits for the next order: for ever, where none can come any more. Nothing is lost when the future is dropped.
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

/// What goes into an execution while it runs.
#[derive(Default)]
#[non_exhaustive]
pub struct Input {
    /// Standard input; `None` is empty.
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
    /// Standard input, and no orders.
    fn from(stdin: Option<Source>) -> Self {
        Self::new(stdin, Orders::default())
    }
}
