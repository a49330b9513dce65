//! Network namespaces for sandboxes of root. Creating one takes a third of a millisecond, most of
//! the time of a clone with all namespaces. So a thread creates it, with its loopback interface up,
//! while the rest is prepared; the agent enters it last. For an ordinary user, the namespace must
//! belong to the sandbox's user namespace, so there the clone creates it.
#![expect(unsafe_code, reason = "changing the namespace of a thread")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use sandbox_agent::runtime::{Errno, RawFd};
use sandbox_host::WorkerThread;

use super::latch::Latch;

/// A network namespace that is being created.
#[derive(Debug, Clone)]
pub(crate) struct Network(Arc<NetworkSlot>);

#[derive(Debug)]
struct NetworkSlot {
    /// The process that began it.
    process: u32,
    latch: Latch,
    descriptor: AtomicI32,
    made: OnceLock<io::Result<OwnedFd>>,
}

impl Network {
    /// Starts to create one.
    pub(crate) fn begin() -> io::Result<Self> {
        static THREAD: WorkerThread<Sender<Network>> = WorkerThread::new("sandbox-network");
        let network = Self(Arc::new(NetworkSlot {
            process: std::process::id(),
            latch: Latch::default(),
            descriptor: AtomicI32::default(),
            made: OnceLock::new(),
        }));
        let thread = THREAD.handle(|| {
            let (sender, requests) = channel();
            let home = File::open(NAMESPACE)?;
            Ok((sender, move || work(&home, &requests)))
        })?;
        thread
            .send(network.clone())
            .map_err(|_| io::Error::other("the thread that creates networks has ended"))?;
        Ok(network)
    }

    /// Whether this process began it. A child of a fork has neither the thread, nor the namespace for
    /// itself.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.0.process == std::process::id()
    }

    /// Waits until it exists. Makes system calls only. The descriptor belongs to the process that
    /// called `begin`.
    pub(super) fn wait(&self) -> Result<RawFd, Errno> {
        self.0.latch.wait()?;
        Ok(self.0.descriptor.load(Ordering::Acquire))
    }

    /// Why it could not be created.
    pub(super) fn failure(&self) -> Option<String> {
        self.0.made.get()?.as_ref().err().map(ToString::to_string)
    }

    fn make(&self, home: &File) {
        let opener = self.0.latch.opener();
        let made = self.0.made.get_or_init(|| make(home));
        if let Ok(namespace) = made {
            self.0
                .descriptor
                .store(namespace.as_raw_fd(), Ordering::Release);
            opener.open();
        }
    }
}

/// The network namespace of the thread that opens it.
const NAMESPACE: &str = "/proc/thread-self/ns/net";

fn work(home: &File, requests: &Receiver<Network>) {
    while let Ok(network) = requests.recv() {
        network.make(home);
    }
}

fn make(home: &File) -> io::Result<OwnedFd> {
    let named =
        |what: &str, cause: io::Error| io::Error::new(cause.kind(), format!("{what}: {cause}"));
    // SAFETY: this thread opens no other sockets, and the flag changes only its network namespace.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|errno| named("make a network namespace", errno.into()))?;
    let made = File::open(NAMESPACE)
        .map_err(|cause| named(NAMESPACE, cause))
        .and_then(|namespace| {
            bring_up_loopback().map_err(|cause| named("loopback interface", cause))?;
            Ok(namespace.into())
        });
    // Leave it, so that the namespace ends with its sandbox. If this fails, the next call replaces
    // it.
    let back = move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Network));
    if let Err(errno) = back {
        tracing::warn!(%errno, "a network namespace outlives its sandbox");
    }
    made
}

fn bring_up_loopback() -> io::Result<()> {
    use sandbox_agent::runtime::io::ioctl;
    const SIOCSIFFLAGS: usize = 0x8914;
    const IFF_UP: u16 = 1;
    const IFF_LOOPBACK: u16 = 8;
    /// `struct ifreq` with flags.
    #[repr(C)]
    struct Flags {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut request = Flags {
        name: [0; 16],
        flags: IFF_UP | IFF_LOOPBACK,
        rest: [0; 22],
    };
    request.name[..2].copy_from_slice(b"lo");
    // SAFETY: the request is a record of the expected layout.
    let set = unsafe { ioctl(socket.as_raw_fd(), SIOCSIFFLAGS, &raw mut request as usize) };
    set.map(drop)
        .map_err(|errno| io::Error::from_raw_os_error(errno.0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn namespace_of_another_process_is_not_this_processs() {
        let own = Network::begin().expect("a thread");
        assert!(own.is_of_this_process());
        let other = Network(Arc::new(NetworkSlot {
            process: std::process::id() + 1,
            latch: Latch::default(),
            descriptor: AtomicI32::default(),
            made: OnceLock::new(),
        }));
        assert!(!other.is_of_this_process());
    }

    #[test]
    fn namespace_differs_from_the_hosts_or_reports_why_not() {
        let network = Network::begin().expect("a thread");
        let host = std::fs::metadata(NAMESPACE).expect("procfs").ino();
        match network.wait() {
            Ok(descriptor) => {
                let created = std::fs::metadata(format!("/proc/self/fd/{descriptor}"));
                assert_ne!(created.expect("open").ino(), host);
                assert_eq!(network.failure(), None);
            }
            // Only root can always create one.
            Err(_) => assert!(
                !rustix::process::geteuid().is_root()
                    && network
                        .failure()
                        .is_some_and(|why| why.contains("namespace"))
            ),
        }
        assert_eq!(std::fs::metadata(NAMESPACE).expect("procfs").ino(), host);
    }
}
