//! JavaScript and TypeScript.

use sandbox_lang::scan::Category;

use super::expect::{clean, does, restricted, unknown};

#[test]
fn modules_are_found() {
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
fn uses_are_followed() {
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
