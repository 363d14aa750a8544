//! Query strings, read strictly: a name that a route does not know, a name that is given twice and a
//! value that does not fit are refused by name. [`parameters`] describes what a route takes.

pub mod parameters;

use sederunt_core::Error;

pub(crate) use self::parameters::params;

/// The parameters of a route.
pub trait FromQuery: Sized {
    fn read(pairs: &mut QueryPairs) -> Result<Self, Error>;
}

/// A route without parameters.
impl FromQuery for () {
    fn read(_: &mut QueryPairs) -> Result<Self, Error> {
        Ok(())
    }
}

pub fn read<A: FromQuery>(query: Option<&str>) -> Result<A, Error> {
    let mut pairs = QueryPairs::parse(query.unwrap_or_default())?;
    // Every route lets a share link through to the middleware, which has read it already.
    pairs.text(&["share"])?;
    let asked = A::read(&mut pairs)?;
    pairs.finish()?;
    Ok(asked)
}

/// Parameters of a query string that have not been taken yet.
#[derive(Debug)]
pub struct QueryPairs(Vec<(String, String)>);

impl QueryPairs {
    pub fn parse(query: &str) -> Result<Self, Error> {
        query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((decode(name)?, decode(value)?))
            })
            .collect::<Result<_, Error>>()
            .map(Self)
    }

    /// Takes a parameter by any of its names; it may occur once.
    pub fn text(&mut self, names: &[&'static str]) -> Result<Option<String>, Error> {
        let mut found = None;
        for at in (0..self.0.len()).rev() {
            if names.contains(&self.0[at].0.as_str()) {
                let (_, value) = self.0.swap_remove(at);
                if found.replace(value).is_some() {
                    return Err(Error::invalid(names[0], "is given twice"));
                }
            }
        }
        Ok(found)
    }

    pub fn number(&mut self, names: &[&'static str]) -> Result<Option<u64>, Error> {
        self.parsed(names, "must be a whole number", parameters::parse_sequence)
    }

    pub fn flag(&mut self, names: &[&'static str]) -> Result<Option<bool>, Error> {
        self.parsed(names, "must be true or false", |text| text.parse().ok())
    }

    /// Takes a parameter that `parse` must accept.
    pub fn parsed<T>(
        &mut self,
        names: &[&'static str],
        rule: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        match self.text(names)? {
            None => Ok(None),
            Some(text) => parse(&text).map(Some).ok_or_else(|| Error::invalid(names[0], rule)),
        }
    }

    /// Takes everything under a prefix, such as `metadata.`.
    pub fn under(&mut self, prefix: &str) -> Result<Vec<(String, String)>, Error> {
        let mut taken: Vec<(String, String)> = Vec::new();
        let mut rest = Vec::with_capacity(self.0.len());
        for (name, value) in self.0.drain(..) {
            match name.strip_prefix(prefix) {
                Some("") => return Err(Error::invalid(name, "names no key")),
                Some(key) if taken.iter().any(|(other, _)| other == key) => {
                    return Err(Error::invalid(name, "is given twice"));
                }
                Some(key) => taken.push((key.to_owned(), value)),
                None => rest.push((name, value)),
            }
        }
        self.0 = rest;
        Ok(taken)
    }

    /// Takes everything, in its order.
    pub fn into_all(self) -> Vec<(String, String)> {
        self.0
    }

    pub fn finish(self) -> Result<(), Error> {
        match self.0.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(Error::invalid(name, "is not a parameter of this route")),
        }
    }
}

/// Undoes percent-encoding and `+`, or says that it is broken.
fn decode(text: &str) -> Result<String, Error> {
    let broken = || Error::invalid("query", "is not percent-encoded UTF-8");
    unescaped(&text.replace('+', " ")).ok_or_else(broken)
}

/// Undoes percent-encoding, unless it is broken.
pub fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use sederunt_core::limits;

    use super::*;
    use crate::wire::event::Order;

    params! {
        /// A route's parameters.
        pub struct Sample {
            after_sequence | "afterSequence": Option<u64> = number(),
            inactive: Option<bool> = flag(),
            types: Vec<String> = text().list(),
            metadata as "metadata.key": Vec<(String, String)> = under("metadata.", text()),
            limit: usize = page_limit(),
            order: Option<Order> = word(),
        }
    }

    #[test]
    fn parameters_are_read_by_their_names_and_aliases() {
        let sample = |query| read::<Sample>(Some(query)).unwrap();
        assert_eq!(sample("afterSequence=5").after_sequence, Some(5));
        assert_eq!(sample("types=a.b,c.d&&inactive=true").types, ["a.b", "c.d"]);
        assert_eq!(
            (sample("inactive=true").inactive, sample("order=desc").order),
            (Some(true), Some(Order::Desc))
        );
        assert_eq!(sample("metadata.k%20x=a+b%C3%A9").metadata, [("k x".into(), "a bé".into())]);
        assert_eq!(sample("share=secret").limit, limits::PAGE_ROWS_DEFAULT);
        assert_eq!(read::<Sample>(None).unwrap().after_sequence, None);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let table = [
            ("x=1", "x"),
            ("after_sequence=-1", "after_sequence"),
            ("after_sequence=+1", "after_sequence"),
            ("after_sequence=1.0", "after_sequence"),
            ("after_sequence=99999999999999999999", "after_sequence"),
            ("after_sequence=1&after_sequence=1", "after_sequence"),
            ("after_sequence=1&afterSequence=1", "after_sequence"),
            ("inactive=yes", "inactive"),
            ("order=up", "order"),
            ("limit=0", "limit"),
            ("limit=1001", "limit"),
            ("limit=", "limit"),
            ("metadata.a=1&metadata.a=2", "metadata.a"),
            ("metadata.=1", "metadata."),
            ("types=%zz", "query"),
            ("types=%ff", "query"),
            ("types=%00", "query"),
            ("types=%4", "query"),
        ];
        for (query, field) in table {
            match read::<Sample>(Some(query)) {
                Err(Error::Invalid { field: named, .. }) => assert_eq!(named, field, "{query}"),
                other => panic!("{query}: {other:?}"),
            }
        }
        assert_eq!(read::<Sample>(Some("limit=1000")).unwrap().limit, 1000);
    }
}
