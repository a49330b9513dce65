//! Sets of argument values as unions of products, as engine profiles express them.
//!
//! A rule of an engine holds if, for each argument that it names, the masked bits have one value.
//! Several rules for a system call are alternatives. There is no "none of these", and a rule names
//! each argument at most once. So a [`Region`] is a list of [`Product`]s. The complement of a value
//! becomes one product per bit: the values that first differ in this bit.

use super::{Condition, Rule};

/// Required bits of one argument. `value` has no bits outside of `mask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct MaskedBits {
    pub(super) mask: u64,
    pub(super) value: u64,
}

impl MaskedBits {
    fn and(self, other: Self) -> Option<Self> {
        let differ = self.mask & other.mask & (self.value ^ other.value) != 0;
        (!differ).then_some(Self {
            mask: self.mask | other.mask,
            value: self.value | other.value,
        })
    }

    /// Whether all values that match `other` match this.
    fn covers(self, other: Self) -> bool {
        self.mask & !other.mask == 0 && other.value & self.mask == self.value
    }
}

/// Requirements on all six arguments. An empty mask requires nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Product(pub(super) [MaskedBits; 6]);

impl Product {
    fn and(self, place: usize, bits: MaskedBits) -> Option<Self> {
        let mut product = self;
        product.0[place] = self.0[place].and(bits)?;
        Some(product)
    }

    fn covers(&self, other: &Self) -> bool {
        self.0
            .iter()
            .zip(other.0)
            .all(|(mine, its)| mine.covers(its))
    }
}

/// The union of the sets of all products.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Region(Vec<Product>);

impl Region {
    /// The arguments that the ordered rules of one system call allow.
    pub(super) fn allowed(rules: &[&Rule]) -> Self {
        let allows = |rule: &&Rule| rule.action() == super::Action::Allow;
        // A rule without conditions decides all calls that reach it. Before a refusal of all, what
        // comes after the last exception does not matter. Its complement would take milliseconds.
        let (rules, falls_through) =
            match rules.iter().position(|rule| rule.conditions().is_empty()) {
                Some(last) if !allows(&rules[last]) => {
                    let used = rules[..last].iter().rposition(allows);
                    (&rules[..used.map_or(0, |place| place + 1)], false)
                }
                Some(last) => (&rules[..=last], false),
                None => (rules, true),
            };
        let mut allowed = Vec::new();
        let mut rest = Self(vec![Product::default()]);
        for (place, rule) in rules.iter().enumerate() {
            if allows(rule) {
                let granted = rule.conditions().iter();
                allowed.extend(
                    granted
                        .fold(rest.clone(), |region, condition| {
                            region.and(&alternatives(condition, condition.is_member()))
                        })
                        .0,
                );
            }
            if falls_through || place + 1 < rules.len() {
                rest = rest.without(rule.conditions());
            }
        }
        if falls_through {
            allowed.extend(rest.0);
        }
        Self(allowed).simplified()
    }

    pub(super) fn products(&self) -> &[Product] {
        &self.0
    }

    /// Whether the region contains all arguments.
    pub(super) fn is_everything(&self) -> bool {
        self.0.contains(&Product::default())
    }

    /// The part of the region in which at least one condition does not hold.
    fn without(&self, conditions: &[Condition]) -> Self {
        let denied = conditions.iter().flat_map(|condition| {
            let place = condition.argument().index();
            let not = alternatives(condition, !condition.is_member());
            not.1.into_iter().map(move |bits| (place, bits))
        });
        let denied = denied.collect::<Vec<_>>();
        let products = self.0.iter().flat_map(|product| {
            denied
                .iter()
                .filter_map(|(place, bits)| product.and(*place, *bits))
        });
        Self(products.collect()).simplified()
    }

    fn and(&self, (place, alternatives): &(usize, Vec<MaskedBits>)) -> Self {
        let products = self.0.iter().flat_map(|product| {
            alternatives
                .iter()
                .filter_map(|bits| product.and(*place, *bits))
        });
        Self(products.collect()).simplified()
    }

    /// Removes products that another one covers.
    fn simplified(mut self) -> Self {
        self.0.sort_unstable();
        self.0.dedup();
        let all = self.0.clone();
        self.0.retain(|product| {
            !all.iter()
                .any(|other| other != product && other.covers(product))
        });
        self
    }
}

/// The argument of a condition, and its bits for which it holds (`member`) or not.
fn alternatives(condition: &Condition, member: bool) -> (usize, Vec<MaskedBits>) {
    let mask = condition.mask();
    // Values with bits outside of the mask never match.
    let mut values = condition.values().to_vec();
    values.retain(|value| value & !mask == 0);
    values.sort_unstable();
    values.dedup();
    let bits = if member {
        values
            .into_iter()
            .map(|value| MaskedBits { mask, value })
            .collect()
    } else {
        let mut others = Vec::new();
        complement(mask, MaskedBits::default(), &values, &mut others);
        others
    };
    (condition.argument().index(), bits)
}

/// Collects the bits that start with `prefix` and match none of `values`, all of which start with
/// it.
fn complement(mask: u64, prefix: MaskedBits, values: &[u64], found: &mut Vec<MaskedBits>) {
    if values.is_empty() {
        found.push(prefix);
        return;
    }
    // The highest undecided bit of the mask; without one, `prefix` equals a value.
    let open = mask & !prefix.mask;
    let Some(shift) = open.checked_ilog2() else {
        return;
    };
    let bit = 1 << shift;
    for value in [0, bit] {
        let prefix = MaskedBits {
            mask: prefix.mask | bit,
            value: prefix.value | value,
        };
        let inside = values.iter().copied().filter(|known| known & bit == value);
        complement(mask, prefix, &inside.collect::<Vec<_>>(), found);
    }
}
