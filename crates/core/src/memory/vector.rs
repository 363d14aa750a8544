//! Embeddings: a memory and a question as unit vectors, and an owner's vectors, held in memory to be compared with a
//! question, all of them.
//!
//! A store keeps vectors at full precision. Here each number takes one byte, so that ten thousand vectors fit into a
//! processor's cache rather than into its memory; that changes a similarity by less than a hundredth.

use crate::limits;

/// An embedding, normalised to length one.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector(Box<[f32]>);

impl Vector {
    /// `None` if the numbers have no direction: none, too many, all zero, or not finite.
    pub fn of(numbers: &[f32]) -> Option<Self> {
        let length = numbers.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
        let fits = (1..=limits::VECTOR_NUMBERS_MAX).contains(&numbers.len());
        if !fits || !length.is_finite() || length <= 0.0 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "a number between -1 and 1")]
        let unit = numbers.iter().map(|number| (f64::from(*number) / length) as f32);
        Some(Self(unit.collect()))
    }

    /// The bytes that a store keeps.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Reads what [`Vector::bytes`] wrote.
    pub fn stored(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return None;
        }
        Self::of(&numbers.iter().map(|number| f32::from_le_bytes(*number)).collect::<Vec<_>>())
    }

    pub fn numbers(&self) -> &[f32] {
        &self.0
    }
}

/// A vector in bytes, scaled so that the largest number is 127.
struct QuantizedVector {
    numbers: Vec<i8>,
    /// The value of one unit.
    scale: f32,
}

impl QuantizedVector {
    fn of(vector: &Vector) -> Self {
        let largest = vector.0.iter().fold(f32::MIN_POSITIVE, |most, number| most.max(number.abs()));
        let scale = largest / f32::from(i8::MAX);
        #[expect(clippy::cast_possible_truncation, reason = "a whole number between -127 and 127")]
        let numbers = vector.0.iter().map(|number| (number / scale).round() as i8).collect();
        Self { numbers, scale }
    }
}

/// An owner's vectors, ready to be compared. All have one width; a vector of another width cannot be compared and is
/// left out.
#[derive(Clone, Debug, Default)]
pub struct VectorIndex {
    width: usize,
    ids: Vec<Box<str>>,
    numbers: Vec<i8>,
    scales: Vec<f32>,
}

impl VectorIndex {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Roughly how much memory it takes.
    pub fn bytes(&self) -> usize {
        self.numbers.len() + self.ids.len() * (size_of::<Box<str>>() + size_of::<f32>() + 40)
    }

    /// Adds a vector. Beyond the limit the oldest one is dropped.
    pub fn put(&mut self, id: &str, vector: &Vector) {
        if self.is_empty() {
            self.width = vector.0.len();
        }
        if vector.0.len() != self.width {
            return;
        }
        if self.len() >= limits::VECTORS_COMPARED_MAX {
            self.ids.remove(0);
            self.scales.remove(0);
            self.numbers.drain(..self.width);
        }
        let QuantizedVector { numbers, scale } = QuantizedVector::of(vector);
        self.ids.push(id.into());
        self.numbers.extend(numbers);
        self.scales.push(scale);
    }

    /// The ids of the vectors most similar to a question, at least `likeness_min`, most similar first.
    pub fn nearest(&self, question: &Vector, likeness_min: f32, limit: usize) -> Vec<String> {
        if question.0.len() != self.width || self.width == 0 {
            return Vec::new();
        }
        let QuantizedVector { numbers: asked, scale: of_asked } = QuantizedVector::of(question);
        let asked: Vec<i16> = asked.into_iter().map(i16::from).collect();
        let rows = self.numbers.chunks_exact(self.width).zip(&self.scales).enumerate();
        let mut found: Vec<(f32, usize)> = rows
            .map(|(at, (row, scale))| (product(row, &asked) * scale * of_asked, at))
            .filter(|(likeness, _)| *likeness >= likeness_min)
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| b.total_cmp(a));
        found.into_iter().take(limit).map(|(_, at)| self.ids[at].to_string()).collect()
    }
}

/// The sum of products, eight pairs side by side: processors have one instruction for that.
#[expect(clippy::cast_precision_loss, reason = "what is lost is far below what a byte has lost already")]
fn product(row: &[i8], asked: &[i16]) -> f32 {
    let times = |a: i8, b: i16| i32::from(i16::from(a)) * i32::from(b);
    let ((rows, row_rest), (asks, ask_rest)) = (row.as_chunks::<16>(), asked.as_chunks::<16>());
    let mut sums = [0; 8];
    for (row, asked) in rows.iter().zip(asks) {
        for (at, sum) in sums.iter_mut().enumerate() {
            *sum += times(row[at], asked[at]) + times(row[at + 8], asked[at + 8]);
        }
    }
    let rest: i32 = row_rest.iter().zip(ask_rest).map(|(a, b)| times(*a, *b)).sum();
    (sums.iter().sum::<i32>() + rest) as f32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vector(numbers: &[f32]) -> Vector {
        Vector::of(numbers).unwrap()
    }

    #[test]
    fn what_is_no_direction_is_no_vector() {
        let many = vec![1.0; limits::VECTOR_NUMBERS_MAX + 1];
        for bad in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY], &many] {
            assert_eq!(Vector::of(bad), None, "{} numbers", bad.len());
        }
        assert!(Vector::of(&many[1..]).is_some());
        assert_eq!(vector(&[3.0, 4.0]).numbers(), [0.6, 0.8]);
        assert_eq!(Vector::stored(&[0; 7]), None);
    }

    #[test]
    fn the_likest_come_first_and_what_is_unlike_does_not_come() {
        let mut shelf = VectorIndex::default();
        for (id, numbers) in [("up", [0.0, 1.0]), ("right", [1.0, 0.0]), ("between", [1.0, 1.0])] {
            shelf.put(id, &vector(&numbers));
        }
        shelf.put("wide", &vector(&[1.0, 1.0, 1.0]));
        assert_eq!(shelf.nearest(&vector(&[1.0, 0.1]), 0.5, 10), ["right", "between"]);
        assert_eq!(shelf.nearest(&vector(&[1.0, 0.1]), -1.0, 1), ["right"]);
        assert!(shelf.nearest(&vector(&[1.0]), -1.0, 1).is_empty(), "another width");
        assert!(VectorIndex::default().nearest(&vector(&[1.0]), -1.0, 1).is_empty());
    }

    #[test]
    fn beyond_the_limit_the_first_goes() {
        let mut shelf = VectorIndex::default();
        for n in 0..=limits::VECTORS_COMPARED_MAX {
            shelf.put(&n.to_string(), &vector(&[1.0, if n == 0 { 0.0 } else { 1.0 }]));
        }
        assert_eq!(shelf.len(), limits::VECTORS_COMPARED_MAX);
        assert!(shelf.nearest(&vector(&[1.0, 0.0]), 0.9, 1).is_empty());
    }

    proptest! {
        #[test]
        fn a_likeness_in_bytes_is_close_to_the_exact_one(
            a in prop::collection::vec(-1.0f32..1.0, 70),
            b in prop::collection::vec(-1.0f32..1.0, 70),
        ) {
            let (Some(a), Some(b)) = (Vector::of(&a), Vector::of(&b)) else { return Ok(()) };
            prop_assert_eq!(Vector::stored(&a.bytes()).map(|read| read.bytes().len()), Some(a.bytes().len()));
            let exact: f32 = a.numbers().iter().zip(b.numbers()).map(|(a, b)| a * b).sum();
            let (a, b) = (QuantizedVector::of(&a), QuantizedVector::of(&b));
            let wide: Vec<i16> = b.numbers.iter().map(|number| i16::from(*number)).collect();
            let coded = product(&a.numbers, &wide) * a.scale * b.scale;
            prop_assert!((coded - exact).abs() < 0.01, "{} is not {}", coded, exact);
        }
    }
}
