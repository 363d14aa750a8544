//! What a reply cost: a table from the configuration, and arithmetic. Pure.

use std::collections::BTreeMap;

use super::Usage;

/// What a model's tokens cost, in millionths of the currency for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    pub input_micros: u64,
    pub output_micros: u64,
    /// For cached input; the same as other input unless set.
    pub cached_micros: Option<u64>,
}

/// Prices by the name of the model. A name that ends in `*` covers all names that begin with it; the longest wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    pub fn new(prices: impl IntoIterator<Item = (String, Price)>) -> Self {
        Self(prices.into_iter().collect())
    }

    pub fn of(&self, model: &str) -> Option<Price> {
        let patterns = self.0.iter().filter_map(|(name, price)| Some((name.strip_suffix('*')?, price)));
        let fitting = patterns.filter(|(start, _)| model.starts_with(start));
        self.0
            .get(model)
            .or_else(|| fitting.max_by_key(|(start, _)| start.len()).map(|(_, price)| price))
            .copied()
    }

    /// The same usage with its cost, where the model has a price.
    #[must_use]
    pub fn cost(&self, model: &str, usage: Usage) -> Usage {
        Usage { cost_micros: self.of(model).map(|price| cost_micros(price, usage)), ..usage }
    }
}

/// The cost of a usage, rounded up once, at the end: many small replies are not free.
pub fn cost_micros(price: Price, usage: Usage) -> u64 {
    let cached = usage.cached_tokens.min(usage.input_tokens);
    let parts = [
        (usage.input_tokens - cached, price.input_micros),
        (cached, price.cached_micros.unwrap_or(price.input_micros)),
        (usage.output_tokens, price.output_micros),
    ];
    let costs = parts.into_iter().map(|(tokens, micros)| u128::from(tokens) * u128::from(micros));
    let sum = costs.fold(0_u128, u128::saturating_add);
    u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price =
        Price { input_micros: 3_000_000, output_micros: 15_000_000, cached_micros: Some(300_000) };

    fn usage(input_tokens: u64, cached_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, cached_tokens, output_tokens, cost_micros: None }
    }

    #[test]
    fn a_cost_is_the_sum_of_its_parts_rounded_up() {
        let free = Price { input_micros: 0, output_micros: 0, cached_micros: None };
        let dear = Price { input_micros: u64::MAX, output_micros: u64::MAX, cached_micros: None };
        let cases = [
            (PRICE, usage(1_000_000, 0, 0), 3_000_000),
            (PRICE, usage(0, 0, 1_000_000), 15_000_000),
            (PRICE, usage(1_000, 1_000, 0), 300),
            (PRICE, usage(1_000, 400, 100), 600 * 3 + 120 + 1_500),
            (PRICE, usage(1, 1, 0), 1),
            (PRICE, usage(10, 99, 0), 3),
            (Price { cached_micros: None, ..PRICE }, usage(1_000, 1_000, 0), 3_000),
            (free, usage(9_999, 0, 9_999), 0),
            (dear, usage(u64::MAX, 0, u64::MAX), u64::MAX),
        ];
        for (price, used, expected) in cases {
            assert_eq!(cost_micros(price, used), expected, "{used:?}");
        }
    }

    #[test]
    fn a_price_is_found_by_name_or_by_the_longest_pattern() {
        let price = |input_micros| Price { input_micros, ..PRICE };
        let prices = Prices::new([
            ("big".to_owned(), price(1)),
            ("big-*".to_owned(), price(2)),
            ("big-mini*".to_owned(), price(3)),
        ]);
        let cases = [
            ("big", Some(1)),
            ("big-2026", Some(2)),
            ("big-mini", Some(3)),
            ("big-mini-2026", Some(3)),
            ("small", None),
            ("bigger", None),
        ];
        for (model, expected) in cases {
            assert_eq!(prices.of(model).map(|found| found.input_micros), expected, "{model}");
        }
        assert_eq!(prices.cost("small", usage(5, 0, 5)).cost_micros, None);
        assert_eq!(prices.cost("big", usage(1_000_000, 0, 0)).cost_micros, Some(1));
    }
}
