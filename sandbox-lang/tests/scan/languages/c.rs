//! C and C++.

use sandbox_lang::scan::{Category, ScanPolicy, rules};

use super::expect::{clean, does, restricted, scan, unknown};

#[test]
fn headers_and_functions_are_found() {
    restricted(
        "c",
        "sys/socket.h",
        &[
            "#include <sys/socket.h>\n",
            "# include \"sys/socket.h\"\n",
            "#ifdef X\n#include <sys/socket.h>\n#endif\n",
        ],
    );
    restricted("cpp", "filesystem", &["#include <filesystem>\n"]);
    unknown("c", &["#include HEADER\n"]);
    let inside = |text: &str| format!("int main(void) {{ {text} return 0; }}\n");
    let process = [
        inside("system(\"ls\");"),
        inside("(system)(\"ls\");"),
        inside("int (*f)(const char *) = system; f(\"ls\");"),
        inside("f = &execve;"),
        format!("#define RUN system\n{}", inside("RUN(\"ls\");")),
        inside("if (!fork()) {}"),
    ];
    let process: Vec<&str> = process.iter().map(String::as_str).collect();
    does("c", Category::Process, &process);
    does("cpp", Category::Process, &process);
    does(
        "cpp",
        Category::Process,
        &[
            &inside("std::system(\"ls\");"),
            &inside("::system(\"ls\");"),
            &inside("using std::system; system(\"x\");"),
        ],
    );
    does(
        "cpp",
        Category::FileWrite,
        &[
            &inside("std::filesystem::remove(\"x\");"),
            &inside("std::ofstream o(\"x\");"),
            &format!(
                "namespace f = std::filesystem;\n{}",
                inside("f::remove(\"x\");")
            ),
        ],
    );
    does("c", Category::Native, &[&inside("__asm__(\"nop\");")]);
    does("c", Category::DynamicCode, &["#define J(a, b) a##b\n"]);
    let report = scan(&ScanPolicy::new(), "c", &inside("sys\\\ntem(\"ls\");"));
    assert!(!report.is_safe());
    assert!(
        report
            .violations
            .iter()
            .any(|one| one.rule == rules::UNREADABLE)
    );
    clean(
        "c",
        "unistd.h",
        &[
            "// system(\"ls\")\n",
            &inside("puts(\"#include <unistd.h> system\");"),
            &inside("x.system = 1;"),
        ],
    );
}
