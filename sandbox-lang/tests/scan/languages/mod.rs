//! The other languages: modules, names and the usual detours are followed, and text is not code.

mod c;
mod every_language;
mod expect;
mod go;
mod java;
mod javascript;
mod r;
mod ruby;
mod rust;
mod shell;
