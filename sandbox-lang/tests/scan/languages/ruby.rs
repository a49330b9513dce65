//! Ruby.

use sandbox_lang::scan::Category;

use super::expect::{clean, does, restricted, unknown};

#[test]
fn libraries_and_methods_are_found() {
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
