//! Java.

use super::{FileName, Language, Step};

/// Less memory and fewer threads, for a program as short as the compiler.
const SHORT: [&str; 3] = [
    "-J-XX:+UseSerialGC",
    "-J-XX:TieredStopAtLevel=1",
    "-J-XX:-UsePerfData",
];

pub(super) fn language() -> Language {
    let compile = Step::new(["javac"])
        .args(SHORT)
        .args(["-encoding", "UTF-8", "-d", "{folder}/classes"])
        .args(["{options}", "{sources}"]);
    let run = Step::new(["java"]).args(["-XX:-UsePerfData", "-cp", "{folder}/classes", "{class}"]);
    Language::new("java", "java", run)
        .file_name(FileName::JavaClass)
        .compile(compile)
        .image("eclipse-temurin:21-jdk")
        .package("default-jdk-headless")
}
