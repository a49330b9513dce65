//! Go.

use sandbox_lang::scan::Category;

use super::expect::{clean, does, restricted};

#[test]
fn packages_and_functions_are_found() {
    let file =
        |import: &str, text: &str| format!("package main\n{import}\nfunc main() {{ {text} }}\n");
    restricted(
        "go",
        "os/exec",
        &[
            &file("import \"os/exec\"", ""),
            &file("import (\n\t\"fmt\"\n\te `os/exec`\n)", ""),
            &file("import . \"os/exec\"", ""),
            &file("import _ \"os/e\\x78ec\"", ""),
        ],
    );
    does(
        "go",
        Category::FileWrite,
        &[
            &file("import \"os\"", "os.RemoveAll(\"/\")"),
            &file("import o \"os\"", "o.RemoveAll(\"/\")"),
            &file("import . \"os\"", "RemoveAll(\"/\")"),
            &file("import \"os\"", "f := os.Remove; f(\"/\")"),
        ],
    );
    does(
        "go",
        Category::Native,
        &[&file("import \"C\"", ""), &file("import \"unsafe\"", "")],
    );
    clean(
        "go",
        "os",
        &[
            &file("import \"fmt\"", "fmt.Println(\"import os/exec\")"),
            &file("// import \"os\"", ""),
        ],
    );
}
