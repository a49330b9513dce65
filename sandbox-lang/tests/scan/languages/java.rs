//! Java.

use sandbox_lang::scan::{Category, ScanPolicy, rules};

use super::expect::{clean, does, restricted, scan, unknown};

#[test]
fn modules_and_uses_are_found() {
    let inside = |text: &str| format!("class A {{ void f() throws Exception {{ {text} }} }}");
    restricted(
        "java",
        "java.io",
        &[
            "import java.io.File; class A {}",
            "import java.io.*; class A {}",
            "import java . io /* */ . File; class A {}",
        ],
    );
    restricted(
        "java",
        "java.io",
        &[
            &inside("new java.io.File(\"x\").delete();"),
            &inside("Class.forName(\"java.io.\" + \"File\");"),
        ],
    );
    unknown("java", &[&inside("Class.forName(x);")]);
    does(
        "java",
        Category::Process,
        &[
            &inside("Runtime.getRuntime().exec(\"ls\");"),
            &inside("java.lang.Runtime.getRuntime().exec(\"ls\");"),
            &inside("new ProcessBuilder(\"ls\").start();"),
            &format!(
                "import static java.lang.Runtime.getRuntime; {}",
                inside("getRuntime().exec(\"ls\");")
            ),
            &inside("Runtime r = Runtime.getRuntime();"),
            &inside("var f = Runtime::getRuntime;"),
        ],
    );
    does(
        "java",
        Category::Internals,
        &[
            "import java.lang.reflect.Method; class A {}",
            &inside("x.setAccessible(true);"),
        ],
    );
    does(
        "java",
        Category::FileWrite,
        &[&format!(
            "import java.io.*; {}",
            inside("new FileWriter(\"x\");")
        )],
    );
    let hidden = "class A { String s = \"\\u0022; Runtime.getRuntime(); //\"; }";
    let report = scan(&ScanPolicy::new(), "java", hidden);
    assert_eq!(report.violations[0].rule, rules::UNREADABLE);
    clean(
        "java",
        "java.io",
        &[
            &inside("String s = \"import java.io.File; \\\\u0022 \\u00e9\";"),
            "/* import java.io.File; */ class A {}",
        ],
    );
}
