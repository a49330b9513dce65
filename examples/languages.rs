//! A small task in each language: each reads the same orders and answers a question about them.
//!
//! Languages that this machine does not have are named with what would help.
//!
//! ```console
//! $ cargo run --example languages
//! ```

use std::time::Duration;

use sandbox::{CapabilityPolicy, CodeRequest, ErrorKind, Result, RunCode, SandboxSpec, Stdin};

/// The orders: item, quantity, price.
const ORDERS: &str = "pen,10,1.50\nbook,2,12.00\nlamp,1,30.00\npen,5,1.50\n";

/// A language, and code that reads orders from its standard input.
const TASKS: [(&str, &str); 12] = [
    (
        "python",
        r#"import collections, csv, json, sys
total = collections.Counter()
for item, quantity, price in csv.reader(sys.stdin):
    total[item] += int(quantity) * float(price)
print("revenue:", json.dumps(total))
"#,
    ),
    (
        "javascript",
        r#"const lines = require('fs').readFileSync(0, 'utf8').trim().split('\n');
const value = ([, quantity, price]) => quantity * price;
const orders = lines.map(line => line.split(','));
console.log('largest order:', orders.sort((a, b) => value(b) - value(a))[0].join(' '));
"#,
    ),
    (
        "typescript",
        r#"import { readFileSync } from 'node:fs';
type Order = { item: string; quantity: number };
const parse = (line: string): Order => {
  const [item, quantity] = line.split(',');
  return { item, quantity: Number(quantity) };
};
const orders: Order[] = readFileSync(0, 'utf8').trim().split('\n').map(parse);
console.log('orders of one piece:', orders.filter(order => order.quantity === 1).length);
"#,
    ),
    (
        "java",
        r#"import java.util.Scanner;
import java.util.stream.Stream;

public class Pens {
    public static void main(String[] arguments) {
        Stream<String> lines = new Scanner(System.in).useDelimiter("\n").tokens();
        int pens = lines.map(line -> line.split(","))
            .filter(order -> order[0].equals("pen"))
            .mapToInt(order -> Integer.parseInt(order[1]))
            .sum();
        System.out.println("pens: " + pens);
    }
}
"#,
    ),
    (
        "c",
        r#"#include <stdio.h>

int main(void) {
    int lines = 0, bytes = 0, c;
    while ((c = getchar()) != EOF) {
        lines += c == '\n';
        bytes++;
    }
    printf("lines: %d, bytes: %d\n", lines, bytes);
}
"#,
    ),
    (
        "cpp",
        r#"#include <iostream>
#include <set>
#include <string>

int main() {
    std::set<std::string> items;
    for (std::string line; std::getline(std::cin, line);)
        items.insert(line.substr(0, line.find(',')));
    std::cout << "items:";
    for (const auto &item : items) std::cout << ' ' << item;
    std::cout << '\n';
}
"#,
    ),
    (
        "go",
        r#"package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
)

func main() {
	orders, err := csv.NewReader(os.Stdin).ReadAll()
	if err != nil {
		panic(err)
	}
	most := 0
	for _, order := range orders {
		if quantity, _ := strconv.Atoi(order[1]); quantity > most {
			most = quantity
		}
	}
	fmt.Println("largest quantity:", most)
}
"#,
    ),
    (
        "rust",
        r#"use std::io::BufRead;

fn main() {
    let prices: Vec<f64> = std::io::stdin()
        .lock()
        .lines()
        .map(|line| line.unwrap().rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    println!("average price: {:.2}", prices.iter().sum::<f64>() / prices.len() as f64);
}
"#,
    ),
    (
        "ruby",
        r##"orders = STDIN.map { |line| line.split(',') }
quantities = orders.group_by(&:first).transform_values { |all| all.sum { |order| order[1].to_i } }
puts "quantities: #{quantities.map { |item, count| "#{item} #{count}" }.join(', ')}"
"##,
    ),
    (
        "r",
        r#"orders <- read.csv(file("stdin"), header = FALSE, col.names = c("item", "quantity", "price"))
cat("median price:", median(orders$price), "\n")
"#,
    ),
    (
        "sh",
        "printf 'most frequent: '\ncut -d, -f1 | sort | uniq -c | sort -rn | head -n 1 | tr -s ' ' | cut -d' ' -f3\n",
    ),
    (
        "bash",
        r#"declare -A seen
while IFS=, read -r item _; do ((seen[$item]++)); done
echo "repeated: $(for item in "${!seen[@]}"; do ((seen[$item] > 1)) && echo "$item"; done)"
"#,
    ),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let policy = CapabilityPolicy::new().timeout(Duration::from_secs(120));
    let sandbox = sandbox::local(policy)?
        .create(&SandboxSpec::new("languages"))
        .await?;
    for (language, code) in TASKS {
        let request = CodeRequest::new(language, code).stdin(Stdin::from_bytes(ORDERS));
        match sandbox.run_code(request).await {
            Ok(result) => print!("{language}: {}", result.check()?.stdout_text()),
            Err(error)
                if [ErrorKind::ProgramNotFound, ErrorKind::LanguageNotSupported]
                    .contains(&error.kind()) =>
            {
                println!("{language}: not here ({})", error.fix().unwrap_or_default());
            }
            Err(error) => return Err(error),
        }
    }
    sandbox.kill().await
}
