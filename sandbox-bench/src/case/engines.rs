//! What each engine is asked to do, and by whom.

use super::Engine::{Docker, Podman};
use super::Operation::Engine;
use super::Place::{ManyThreads, OneThread};
use super::Task::{Close, Crowd, Echo, Exec, OneShot, Open, Python};
use super::Way::{Api, Client, Command, Library, PythonClient};
use super::{Case, case};

/// One engine's cases. The Python library comes last among the rivals, before us.
macro_rules! engine {
    ($name:literal, $engine:ident) => {
        [
            case(
                concat!($name, "-run"),
                concat!($name, " run --rm (the client)"),
                Engine($engine, Client, OneShot),
                OneThread,
                10,
                None,
            ),
            case(
                concat!($name, "-command"),
                concat!($name, ", sandbox run -- true"),
                Engine($engine, Command, OneShot),
                OneThread,
                10,
                Some(concat!($name, "-run")),
            ),
            case(
                concat!($name, "-api-run"),
                concat!($name, " API: create, start, wait, remove"),
                Engine($engine, Api, OneShot),
                OneThread,
                10,
                None,
            ),
            case(
                concat!($name, "-one-shot"),
                concat!($name, ", one-shot, in process"),
                Engine($engine, Library, OneShot),
                OneThread,
                10,
                Some(concat!($name, "-api-run")),
            ),
            case(
                concat!($name, "-exec"),
                concat!($name, " exec true (the client)"),
                Engine($engine, Client, Exec),
                OneThread,
                5,
                None,
            ),
            case(
                concat!($name, "-api-exec"),
                concat!($name, " API: exec true"),
                Engine($engine, Api, Exec),
                OneThread,
                5,
                Some(concat!($name, "-exec")),
            ),
            case(
                concat!($name, "-warm-exec"),
                concat!($name, ", warm exec"),
                Engine($engine, Library, Exec),
                OneThread,
                1,
                Some(concat!($name, "-exec")),
            ),
            case(
                concat!($name, "-warm-exec-threads"),
                concat!($name, ", warm exec"),
                Engine($engine, Library, Exec),
                ManyThreads,
                1,
                Some(concat!($name, "-exec")),
            ),
            case(
                concat!($name, "-echo"),
                concat!($name, ", a byte to cat and back"),
                Engine($engine, Library, Echo),
                OneThread,
                4,
                None,
            ),
            case(
                concat!($name, "-exec-python"),
                concat!($name, " exec python3 print(1) (the client)"),
                Engine($engine, Client, Python),
                OneThread,
                10,
                Some("python-spawn"),
            ),
            case(
                concat!($name, "-client-python"),
                concat!($name, ", llm-sandbox, warm print(1)"),
                Engine($engine, PythonClient, Python),
                OneThread,
                10,
                Some(concat!($name, "-exec-python")),
            ),
            case(
                concat!($name, "-python"),
                concat!($name, ", warm print(1) in Python"),
                Engine($engine, Library, Python),
                OneThread,
                2,
                Some(concat!($name, "-exec-python")),
            ),
            case(
                concat!($name, "-api-open"),
                concat!($name, " API: create, start"),
                Engine($engine, Api, Open),
                OneThread,
                20,
                None,
            ),
            case(
                concat!($name, "-api-close"),
                concat!($name, " API: remove what runs"),
                Engine($engine, Api, Close),
                OneThread,
                20,
                None,
            ),
            case(
                concat!($name, "-client-open"),
                concat!($name, ", llm-sandbox, open"),
                Engine($engine, PythonClient, Open),
                OneThread,
                50,
                Some(concat!($name, "-api-open")),
            ),
            case(
                concat!($name, "-client-close"),
                concat!($name, ", llm-sandbox, close"),
                Engine($engine, PythonClient, Close),
                OneThread,
                50,
                Some(concat!($name, "-api-close")),
            ),
            case(
                concat!($name, "-open"),
                concat!($name, ", open"),
                Engine($engine, Library, Open),
                OneThread,
                20,
                Some(concat!($name, "-api-open")),
            ),
            case(
                concat!($name, "-close"),
                concat!($name, ", close"),
                Engine($engine, Library, Close),
                OneThread,
                20,
                Some(concat!($name, "-api-close")),
            ),
            case(
                concat!($name, "-run-20"),
                concat!($name, " run --rm (the client), one of 20 at once"),
                Engine($engine, Client, Crowd),
                ManyThreads,
                100,
                None,
            ),
            case(
                concat!($name, "-api-20"),
                concat!($name, " API, one of 20 at once"),
                Engine($engine, Api, Crowd),
                ManyThreads,
                100,
                Some(concat!($name, "-run-20")),
            ),
            case(
                concat!($name, "-client-20"),
                concat!($name, ", llm-sandbox, one of 20 at once"),
                Engine($engine, PythonClient, Crowd),
                ManyThreads,
                100,
                Some(concat!($name, "-api-20")),
            ),
            case(
                concat!($name, "-20"),
                concat!($name, ", one of 20 at once"),
                Engine($engine, Library, Crowd),
                ManyThreads,
                100,
                Some(concat!($name, "-api-20")),
            ),
        ]
    };
}

/// Docker's.
pub const DOCKER: [Case; 22] = engine!("docker", Docker);
/// Podman's.
pub const PODMAN: [Case; 22] = engine!("podman", Podman);
