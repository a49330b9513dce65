//! The other languages: modules, names and the usual detours are followed, and text is not code.

use sandbox_scan::{Category, Pattern, Preset, ScanPolicy, ScanReport, Severity, rules};

fn scan(policy: &ScanPolicy, language: &str, code: &str) -> ScanReport {
    policy.scan(language, code).expect("a language to scan")
}

/// Asserts that each text loads a module that the policy restricts.
#[track_caller]
fn restricted(language: &str, module: &str, codes: &[&str]) {
    let policy = ScanPolicy::new().restrict(module);
    for code in codes {
        let report = scan(&policy, language, code);
        let is = |rule: &str| report.violations.iter().any(|one| one.rule == rule);
        assert!(
            is(rules::RESTRICTED_MODULE),
            "{code}: {:?}",
            report.violations
        );
    }
}

#[track_caller]
fn unknown(language: &str, codes: &[&str]) {
    let policy = ScanPolicy::new().restrict("x-y");
    for code in codes {
        let report = scan(&policy, language, code);
        let is = |rule: &str| report.violations.iter().any(|one| one.rule == rule);
        assert!(is(rules::UNKNOWN_MODULE), "{code}: {:?}", report.violations);
    }
}

#[track_caller]
fn does(language: &str, category: Category, codes: &[&str]) {
    let policy = ScanPolicy::new().category(category, Severity::High);
    for code in codes {
        let report = scan(&policy, language, code);
        let is = |rule: &str| report.violations.iter().any(|one| one.rule == rule);
        assert!(is(category.as_str()), "{code}: {:?}", report.violations);
        assert!(!is(rules::SYNTAX_ERROR), "{code}: {:?}", report.violations);
    }
}

/// Asserts that nothing at all is found, in every category and with the module restricted.
#[track_caller]
fn clean(language: &str, module: &str, codes: &[&str]) {
    let policy = Preset::Strict
        .policy()
        .threshold(Severity::Low)
        .restrict(module);
    for code in codes {
        let report = scan(&policy, language, code);
        assert!(
            report.violations.is_empty(),
            "{code}: {:?}",
            report.violations
        );
    }
}

#[test]
fn javascript_modules_are_found() {
    let codes = [
        "require('fs')",
        "const {readFile} = require(`fs`)",
        "import fs from 'fs'",
        "import 'node:fs'",
        "import {x as y} from \"f\\x73\"",
        "export * from 'fs'",
        "import('fs').then(x => x)",
        "require('f' + 's')",
        "const r = require; r('fs/promises')",
        "module.require('fs')",
        "process.getBuiltinModule('fs')",
        "eval(\"require('fs')\")",
        "new Function('return require(\"fs\")')",
        "x = '//';require('fs')",
        "r\\u0065quire('fs')",
    ];
    restricted("javascript", "fs", &codes);
    restricted("typescript", "fs", &codes);
    restricted(
        "typescript",
        "fs",
        &["import x = require('fs')", "import type {A} from 'fs'"],
    );
    unknown(
        "javascript",
        &["require(x)", "import(`${x}`)", "require('a'.concat('b'))"],
    );
}

#[test]
fn javascript_uses_are_followed() {
    let process = [
        "const cp = require('child_process'); cp.exec('ls')",
        "import {exec as e} from 'child_process'; e('ls')",
        "process.kill(1)",
        "globalThis['process']['kill'](1)",
    ];
    does("javascript", Category::Process, &process);
    does("typescript", Category::Process, &process);
    does(
        "javascript",
        Category::DynamicCode,
        &[
            "eval(x)",
            "(0, eval)(x)",
            "globalThis.eval(x)",
            "const f = eval; f(x)",
            "new Function(x)",
            "window['ev' + 'al'](x)",
            "setTimeout('x()', 1)",
        ],
    );
    does(
        "typescript",
        Category::DynamicCode,
        &["(eval as any)(x)", "(<any>eval)(x)", "eval!(x)"],
    );
    does(
        "javascript",
        Category::Internals,
        &[
            "[].constructor.constructor('x')()",
            "''['constructor']['constructor']",
        ],
    );
    does(
        "javascript",
        Category::FileWrite,
        &[
            "import * as f from 'node:fs'; f.writeFileSync('a', 'b')",
            "const {unlink: u} = require('fs'); u('x')",
        ],
    );
    does(
        "javascript",
        Category::Network,
        &["fetch('http://x')", "const h = await import('https')"],
    );
    does(
        "javascript",
        Category::Environment,
        &["process.env.HOME", "const {env} = process; env.HOME"],
    );
    clean(
        "javascript",
        "fs",
        &[
            "console.log(\"require('fs')\")",
            "// require('fs')\n",
            "const x = {eval: 1, fs: 2}; x.eval",
            "/* import 'fs' */",
            "`import 'fs'`",
            "setTimeout(() => 1, 5)",
        ],
    );
    clean(
        "typescript",
        "fs",
        &[
            "let x: string = \"import 'fs'\"",
            "interface A { fs: number }",
        ],
    );
}

#[test]
fn java_modules_and_uses_are_found() {
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

#[test]
fn c_headers_and_functions_are_found() {
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

#[test]
fn go_packages_and_functions_are_found() {
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

#[test]
fn rust_paths_are_found() {
    restricted(
        "rust",
        "std::process",
        &[
            "use std::process::Command;",
            "use std::{fs, process::{self, Command as C}};",
            "use ::std::process::*;",
            "fn main() { std::process::Command::new(\"ls\"); }",
            "fn main() { ::std::process::exit(1); }",
            "fn main() { println!(\"{:?}\", std::process::Command::new(\"ls\")); }",
            "use std as s; fn main() { s::process::abort(); }",
            "use r#std::process;",
            "use std::r#process::Command;",
            "type C = std::process::Command;",
        ],
    );
    restricted("rust", "libc", &["extern crate libc as l;"]);
    does(
        "rust",
        Category::Process,
        &[
            "use std::process::Command as C; fn main() { C::new(\"ls\"); }",
            "use std::process; fn main() { process::Command::new(\"ls\"); }",
            "use std::process::*; fn main() { Command::new(\"ls\"); }",
        ],
    );
    does(
        "rust",
        Category::Native,
        &[
            "fn main() { unsafe { x() } }",
            "unsafe extern \"C\" { fn x(); }",
        ],
    );
    clean(
        "rust",
        "std::process",
        &[
            "fn main() { println!(\"use std::process;\"); }",
            "// use std::process;\nfn process() {}",
        ],
    );
}

#[test]
fn ruby_libraries_and_methods_are_found() {
    restricted(
        "ruby",
        "open3",
        &[
            "require 'open3'",
            "require \"open\" + '3'",
            "Kernel.require('open3')",
            "load 'open3'",
            "send(:require, 'open3')",
            "eval \"require 'open3'\"",
        ],
    );
    unknown("ruby", &["require x", "require \"#{x}\""]);
    does(
        "ruby",
        Category::Process,
        &[
            "system 'ls'",
            "`ls`",
            "%x(ls)",
            "Kernel.system('ls')",
            "::Kernel.exec 'ls'",
            "IO.popen('ls')",
            "send(:system, 'ls')",
            "Object.send('sys' + 'tem', 'ls')",
            "method(:system).call('ls')",
            "open('|ls')",
            "open(x)",
            "x = IO\nx.popen('ls')",
            "Kernel::system('ls')",
        ],
    );
    does(
        "ruby",
        Category::DynamicCode,
        &["eval x", "x.instance_eval 'y'", "Kernel.eval(x)"],
    );
    does("ruby", Category::Internals, &["x.send(y)"]);
    clean(
        "ruby",
        "open3",
        &[
            "puts \"require 'open3'\"",
            "# require 'open3'",
            "puts 'system'",
            "x = { system: 1 }",
        ],
    );
}

#[test]
fn r_packages_and_functions_are_found() {
    restricted(
        "r",
        "processx",
        &[
            "library(processx)",
            "library('processx')",
            "require(\"processx\")",
            "processx::run('ls')",
            "processx:::x",
            "requireNamespace('processx')",
            "library(package = processx)",
        ],
    );
    unknown(
        "r",
        &[
            "library(x, character.only = TRUE)",
            "requireNamespace(paste0('a', 'b'))",
        ],
    );
    does(
        "r",
        Category::Process,
        &[
            "system('ls')",
            "base::system('ls')",
            "f <- system\nf('ls')",
            "system -> f",
            "do.call('system', list('ls'))",
            "get('system')('ls')",
            "'system'('ls')",
            "`system`('ls')",
            "match.fun('system2')",
        ],
    );
    does("r", Category::DynamicCode, &["eval(parse(text = x))"]);
    clean(
        "r",
        "processx",
        &[
            "print('library(processx)')",
            "# library(processx)\n",
            "x$system",
            "f(system = 1)",
        ],
    );
}

#[test]
fn shell_commands_are_found() {
    let codes = [
        "curl x",
        "/usr/bin/curl x",
        "cu\"r\"l x",
        "\\curl x",
        "$'c\\x75rl' x",
        "'curl' x",
        "command curl x",
        "env A=1 curl x",
        "sudo -n timeout 5 curl x",
        "echo x | xargs curl",
        "eval 'curl x'",
        "sh -c 'curl x'",
        "bash -ec \"curl x\"",
        "echo $(curl x)",
        "`curl x`",
        "find . -exec curl {} +",
        "if true; then curl x; fi",
        "f() { curl x; }",
        "cat <<A\n$(curl x)\nA\n",
        "true && curl x",
        "trap 'curl x' EXIT",
        "diff <(curl x) y",
    ];
    restricted("sh", "curl", &codes);
    restricted("bash", "curl", &codes);
    let report = scan(&ScanPolicy::new(), "sh", "cu\\\nrl x");
    assert_eq!(report.violations[0].rule, rules::UNREADABLE);
    unknown(
        "bash",
        &[
            "$x y",
            "\"$x\" y",
            "eval \"$x\"",
            "sh -c \"$x\"",
            "$(echo curl) y",
            "/usr/bin/c?rl x",
            "c{u,}rl x",
        ],
    );
    does(
        "bash",
        Category::Network,
        &["echo x > /dev/tcp/1.2.3.4/80", "curl x | sh"],
    );
    does(
        "sh",
        Category::FileWrite,
        &["echo x > y", "rm -r x", "echo x 2>> y"],
    );
    does("sh", Category::Environment, &["LD_PRELOAD=x true"]);
    clean(
        "sh",
        "curl",
        &[
            "echo 'curl x' > /dev/null",
            "# curl x\n",
            "echo curl 2>&1",
            "cat=1; echo \"$cat\"",
            "curly=1",
        ],
    );
}

#[test]
fn patterns_see_the_calls_of_other_languages() {
    let pattern = Pattern::new("own", r"child_process\.exec\(")
        .expect("valid")
        .language("javascript");
    let policy = ScanPolicy::new().pattern(pattern);
    let code = "import {exec as e} from 'child_process'; e('ls')";
    assert!(!scan(&policy, "javascript", code).is_safe());
    assert!(scan(&policy, "typescript", code).is_safe());
}

#[test]
fn every_preset_accepts_harmless_code_and_refuses_a_program() {
    for preset in Preset::ALL {
        let policy = preset.policy();
        for (language, harmless, harmful) in [
            (
                "python",
                "import math\nprint(math.sqrt(2))\n",
                "import subprocess\n",
            ),
            (
                "javascript",
                "console.log(Math.sqrt(2))\n",
                "require('child_process')\n",
            ),
            ("ruby", "puts Math.sqrt(2)\n", "system 'ls'\n"),
            (
                "java",
                "import java.util.List; class A { List<String> x; }",
                "class A { Object x = new ProcessBuilder(); }",
            ),
            (
                "c",
                "#include <stdio.h>\nint main(void) { puts(\"1\"); return 0; }\n",
                "int main(void) { return system(\"ls\"); }\n",
            ),
            (
                "go",
                "package main\nimport \"fmt\"\nfunc main() { fmt.Println(1) }\n",
                "package main\nimport \"os/exec\"\n",
            ),
            (
                "rust",
                "fn main() { println!(\"{}\", 2.0_f64.sqrt()); }\n",
                "use std::process::Command;\n",
            ),
            ("r", "print(sqrt(2))\n", "system('ls')\n"),
            ("sh", "echo 1\n", "kill 1\n"),
        ] {
            let report = scan(&policy, language, harmless);
            assert!(report.is_safe(), "{preset} {language}: {report:?}");
            assert!(
                !scan(&policy, language, harmful).is_safe(),
                "{preset} {language}"
            );
        }
        assert_eq!(preset.as_str().parse::<Preset>().ok(), Some(preset));
    }
    assert!("unknown".parse::<Preset>().is_err());
}
