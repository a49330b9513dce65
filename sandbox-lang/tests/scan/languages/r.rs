//! R.

use sandbox_lang::scan::Category;

use super::expect::{clean, does, restricted, unknown};

#[test]
fn packages_and_functions_are_found() {
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
