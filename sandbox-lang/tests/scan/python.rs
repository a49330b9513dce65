//! Python: every way around a scan that is known is caught, and harmless text is not.

use sandbox_lang::scan::{Category, Preset, ScanPolicy, ScanReport, Severity, rules};

fn scan(policy: &ScanPolicy, code: &str) -> ScanReport {
    policy.scan("python", code).expect("a language to scan")
}

/// The rules and places of a report.
fn found(report: &ScanReport) -> Vec<(usize, usize, &str)> {
    let all = report.violations.iter();
    all.map(|one| (one.line, one.column, one.rule.as_str()))
        .collect()
}

fn without_os(code: &str) -> ScanReport {
    scan(&ScanPolicy::new().restrict("os"), code)
}

#[track_caller]
fn catches(code: &str, rule: &str) {
    let report = without_os(code);
    assert!(!report.is_safe(), "{code}");
    let is_there = report.violations.iter().any(|one| one.rule == rule);
    assert!(is_there, "{code}: {:?}", report.violations);
}

#[track_caller]
fn catches_os(code: &str) {
    catches(code, rules::RESTRICTED_MODULE);
}

#[test]
fn import_after_a_hash_in_a_string_is_caught() {
    catches_os("x='#';import os");
    assert_eq!(
        found(&without_os("x='#';import os")),
        [(1, 14, "restricted-module")]
    );
}

#[test]
fn second_import_of_a_statement_is_caught() {
    catches_os("import sys,os");
    catches_os("import sys, os");
}

#[test]
fn import_before_a_semicolon_is_caught() {
    catches_os("import os;os.getcwd()");
}

#[test]
fn dunder_import_is_caught() {
    catches_os("__import__('os')");
    catches_os("__import__(name='os')");
    catches_os("i = __import__\ni('os')");
    catches_os("__builtins__.__import__('os')");
    catches_os("import builtins\ngetattr(builtins, '__imp' + 'ort__')('os')");
    catches_os("__builtins__['__import__']('os')");
    catches_os("globals()['__builtins__']['__import__']('os')");
    catches_os("globals().get('__builtins__').__import__('os')");
    catches_os("vars()['__builtins__'].__dict__['__import__']('os')");
}

#[test]
fn importlib_is_caught() {
    catches_os("import importlib\nimportlib.import_module('os')");
    catches_os("import importlib as i\ni.import_module('os.path')");
    catches_os("from importlib import import_module as load\nload('os')");
    catches_os("from importlib import *\nimport_module('os')");
    catches_os("__import__('importlib').import_module('os')");
}

#[test]
fn import_over_a_continued_line_is_caught() {
    catches_os("import \\\nos");
    assert_eq!(
        found(&without_os("import \\\nos")),
        [(2, 1, "restricted-module")]
    );
}

#[test]
fn import_between_strings_with_triple_quotes_is_caught() {
    catches_os("a=\"'''\";import os;b=\"'''\"");
}

#[test]
fn other_forms_of_import_are_caught() {
    catches_os("import os.path as p");
    catches_os("from os import path");
    catches_os("from os import *");
    catches_os("def f():\n  if True: import os");
    catches_os("from os . path import (join,\n  split)");
    catches_os("import sys\nsys.modules['os'].getcwd()");
    catches_os("from sys import modules as m\nm['o' 's']");
    catches_os("import sys\nsys.modules.get('os')");
    catches_os("import 𝘰𝘴");
    catches_os("__import__('o\\x73')");
    catches_os("__import__('o' + \"s\")");

    catches_os("f'{__import__(\"os\")}'");
}

#[test]
fn import_in_code_that_runs_as_text_is_caught() {
    catches_os("exec('import os')");
    catches_os("e = eval\ne(\"__import__('os')\")");
    catches_os("exec(\"exec('import os')\")");
    catches_os("exec(compile('import os', 'x', 'exec'))");
}

#[test]
fn import_with_a_computed_name_is_caught_as_unknown() {
    catches("__import__(input())", rules::UNKNOWN_MODULE);
    catches("__import__(*['os'])", rules::UNKNOWN_MODULE);
    catches("__import__('so'[::-1])", rules::UNKNOWN_MODULE);
    catches(
        "import importlib as i\nn = 'os'\ni.import_module(n)",
        rules::UNKNOWN_MODULE,
    );
}

#[test]
fn text_that_mentions_an_import_is_clean() {
    for code in [
        "print('please import os now')",
        "def f():\n    \"\"\"Call this, then import os.\"\"\"\n",
        "'''\nimport os\n'''\n",
        "# import os\n",
        "x = 'import os'  # import os",
        "osmosis = 1\nprint(osmosis)",
        "import osmosis",
        "from a import os",
        "class os: pass",
        "f(os=1)",
    ] {
        let report = without_os(code);
        assert!(found(&report).is_empty(), "{code}: {report:?}");
        assert!(report.is_safe());
    }
}

#[test]
fn all_violations_are_reported_with_their_places() {
    let report = without_os("import os\nx = 1\nif x:\n    import os.path, sys\n");
    assert_eq!(
        found(&report),
        [(1, 8, "restricted-module"), (4, 12, "restricted-module")]
    );
    let one = &report.violations[1];
    assert_eq!((one.end_line, one.end_column), (4, 19));
    assert_eq!(
        one.to_string(),
        "4:12: high: loads the restricted module `os` [restricted-module]"
    );
}

#[test]
fn columns_count_characters() {
    assert_eq!(found(&without_os("é = 'ü𝘰'; import os"))[0].1, 18);
}

#[test]
fn empty_allow_list_allows_nothing() {
    let none = ScanPolicy::new().allow(Vec::<String>::new());
    assert!(!scan(&none, "import math").is_safe());
    assert!(scan(&none, "print(1)").is_safe());
    assert!(scan(&ScanPolicy::new(), "import math").is_safe());
    let some = none.allow(["math", "os.path"]);
    assert!(scan(&some, "import math\nfrom os import path\nimport os.path").is_safe());
    assert!(!scan(&some, "from os import getcwd").is_safe());
    assert!(!scan(&some.clone().restrict("math"), "import math").is_safe());
    assert!(!scan(&some, "__import__(x)").is_safe());
}

#[test]
fn threshold_decides_what_is_unsafe() {
    let policy = Preset::Production.policy();
    let code = "print(open('x').read())";
    let report = scan(&policy, code);
    assert!(report.is_safe());
    assert_eq!(report.violations[0].severity, Severity::Low);
    assert!(!scan(&policy.threshold(Severity::Low), code).is_safe());
}

#[test]
fn syntax_errors_have_a_place() {
    let report = scan(&ScanPolicy::new(), "x = 1\ny = (1,\n");
    assert!(!report.is_safe());
    assert_eq!(report.violations[0].rule, rules::SYNTAX_ERROR);
    assert_eq!(report.violations[0].line, 2);
    assert!(scan(&ScanPolicy::new(), "").is_safe());
}

#[test]
fn builtin_rules_follow_names() {
    let policy = ScanPolicy::new().category(Category::Process, Severity::High);
    for code in [
        "import os\nos.system('ls')",
        "import os as o\no.system('ls')",
        "from os import system as s\ns('ls')",
        "from os import *\nsystem('ls')",
        "import os\nf = os.system\nf('ls')",
        "import os\nx = os\nx.system('ls')",
        "import os, sys\na, b = sys, os\nb.popen('ls')",
        "import os\ngetattr(os, 'sys' + 'tem')('ls')",
        "import os\nos.__dict__['system']('ls')",
        "import os\nvars(os)['system']('ls')",
        "__import__('os').system('ls')",
        "import os\n(os).system('ls')",
        "import os\n(y := os).system('ls')",
        "import os\ndef f(o=os): o.system('ls')",
        "import subprocess",
        "import os\nprint(map(os.system, ['ls']))",
        "import os\n@os.system\ndef f(): pass",
        "import sys\nsys.modules['os'].system('ls')",
        "import os\nos.__getattribute__('system')('ls')",
    ] {
        let report = scan(&policy, code);
        assert!(!report.is_safe(), "{code}");
        assert_eq!(report.violations[0].rule, "process", "{code}");
    }
    for code in [
        "import os\nos.getcwd()",
        "def system(x): pass\nsystem(1)",
        "x.system('ls')",
        "os_system = 1",
        "print('os.system')",
    ] {
        assert!(found(&scan(&policy, code)).is_empty(), "{code}");
    }
}

#[test]
fn escapes_through_internals_are_caught() {
    let policy = ScanPolicy::new().category(Category::Internals, Severity::High);
    for code in [
        "().__class__.__bases__[0].__subclasses__()",
        "getattr((), '__class__').__base__",
        "f.__globals__['x']",
        "import os\ngetattr(os, input())",
    ] {
        assert!(!scan(&policy, code).is_safe(), "{code}");
    }
    assert!(scan(&policy, "getattr(self, name)").is_safe());
}

#[test]
fn code_in_another_encoding_is_caught() {
    for code in ["# coding: utf-7\n", "#!/x\n# -*- coding=rot13 -*-\n"] {
        let report = scan(&ScanPolicy::new(), code);
        assert_eq!(report.violations[0].rule, rules::UNREADABLE, "{code}");
    }
    for code in [
        "# coding: utf-8\n",
        "# encoding notes\n",
        "\n\n# coding: rot13\n",
    ] {
        assert!(scan(&ScanPolicy::new(), code).is_safe(), "{code}");
    }
}

#[test]
fn hidden_characters_are_caught() {
    let policy = Preset::Minimal.policy();
    let report = scan(&policy, "x = 1 # \u{202e} y\n");
    assert_eq!(found(&report), [(1, 9, "hidden-text")]);
    assert!(scan(&policy, "\u{feff}x = 'é'\n").is_safe());
}

#[test]
fn files_that_are_opened_to_write_are_told_from_read_ones() {
    let policy = ScanPolicy::new().category(Category::FileWrite, Severity::High);
    for code in [
        "open('x', 'w')",
        "open('x', mode='a')",
        "open('x', m)",
        "import io\nio.open('x', 'r+')",
    ] {
        assert!(!scan(&policy, code).is_safe(), "{code}");
    }
    for code in ["open('x')", "open('x', 'rb')", "open('x', encoding='w')"] {
        assert!(scan(&policy, code).is_safe(), "{code}");
    }
}
